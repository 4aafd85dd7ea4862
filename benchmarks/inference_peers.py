"""The libraries that `inference.py` compares sentence vectors with, each in the configuration that its docs recommend.

Each function loads the all-MiniLM model of a folder and returns a function from a list of texts to unit vectors
`(N, D)`. Files that a library makes from the model are written once, into the same folder.
"""

import concurrent.futures
import json
import os
import pathlib
from collections.abc import Callable, Sequence

import numpy as np

BATCH_SIZE = 32  # sentence-transformers' default; it sorts the texts by length, as the loops below do
NUM_CALIBRATION_TEXTS = 300  # the default of optimum-intel

Encode = Callable[[Sequence[str]], np.ndarray]


def load_peer(name: str, folder: pathlib.Path, num_threads: int) -> Encode:
    """Load a peer: a name such as "sentence-transformers onnx int8"."""
    library, _, variant = name.partition(" ")
    load = {
        "sentence-transformers": _load_sentence_transformers,
        "fastembed": _load_fastembed,
        "ctranslate2": _load_ctranslate2,
    }[library]
    return load(variant, folder, num_threads)


def _load_sentence_transformers(variant: str, folder: pathlib.Path, num_threads: int) -> Encode:
    """Load a backend: "torch", "torch bfloat16", "onnx", "onnx int8", "openvino" or "openvino int8"."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(num_threads)
    backend, _, kind = variant.partition(" ")
    if backend == "torch":
        path, options = folder / "sentence_transformer", {"dtype": kind or "float32"}
    else:
        path, options = _export(backend, folder), _configure(backend, kind, folder, num_threads)
    model = SentenceTransformer(str(path), backend=backend, device="cpu", local_files_only=True, model_kwargs=options)
    return lambda texts: model.encode(texts, batch_size=BATCH_SIZE, normalize_embeddings=True)


def _configure(backend: str, quantization: str, folder: pathlib.Path, num_threads: int) -> dict:
    """Return the arguments that select a backend's file and its number of threads."""
    if backend == "openvino":
        file = _quantize_openvino(folder) if quantization else "openvino/openvino_model.xml"
        return {"file_name": file, "ov_config": {"INFERENCE_NUM_THREADS": str(num_threads)}}
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    file = _quantize_onnx(folder) if quantization else "onnx/model.onnx"
    return {"file_name": file, "session_options": options, "provider": "CPUExecutionProvider"}


def _export(backend: str, folder: pathlib.Path) -> pathlib.Path:
    """Write the model of a backend, unless it exists, and return its folder."""
    path = folder / f"sentence_transformer_{backend}"
    if not path.exists():
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(folder / "sentence_transformer"), backend=backend, local_files_only=True)
        staging = path.with_name(f"{path.name}.{os.getpid()}")
        model.save_pretrained(str(staging))
        staging.rename(path)
    return path


def _quantize_onnx(folder: pathlib.Path) -> str:
    """Write dynamic int8 for AVX512-VNNI, unless it exists, and return its name in the folder of the backend."""
    path, name = _export("onnx", folder), "onnx/model_qint8_avx512_vnni.onnx"
    if not (path / name).exists():
        from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model

        model = SentenceTransformer(str(path), backend="onnx", local_files_only=True)
        export_dynamic_quantized_onnx_model(model, "avx512_vnni", str(path))
    return name


def _quantize_openvino(folder: pathlib.Path) -> str:
    """Write static int8, calibrated on texts of the work folder, unless it exists, and return its name."""
    path, name = _export("openvino", folder), "openvino/openvino_model_qint8_quantized.xml"
    if not (path / name).exists():
        from optimum.intel import OVQuantizationConfig
        from sentence_transformers import SentenceTransformer, export_static_quantized_openvino_model

        data = folder / "calibration"
        data.mkdir(exist_ok=True)
        texts = json.loads((folder / "calibration_texts.json").read_text("utf-8"))
        lines = [json.dumps({"sentence": text}) + "\n" for text in texts[:NUM_CALIBRATION_TEXTS]]
        (data / "train.jsonl").write_text("".join(lines), encoding="utf-8")
        model = SentenceTransformer(str(path), backend="openvino", local_files_only=True)
        where = {"dataset_name": str(data), "dataset_config_name": "default", "dataset_split": "train"}
        config = OVQuantizationConfig(num_samples=NUM_CALIBRATION_TEXTS)
        export_static_quantized_openvino_model(model, config, str(path), **where, column_name="sentence")
    return name


def _load_fastembed(variant: str, folder: pathlib.Path, num_threads: int) -> Encode:
    """Load "float32" or "int8", with the ONNX files of sentence-transformers."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    file = _quantize_onnx(folder) if variant == "int8" else "onnx/model.onnx"
    path = _export("onnx", folder)
    TextEmbedding.add_custom_model(
        model="local/minilm",
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf="local/minilm"),
        dim=384,
        model_file=file,
    )
    model = TextEmbedding("local/minilm", threads=num_threads, specific_model_path=str(path))
    return lambda texts: encode_sorted(texts, lambda batch: np.stack(list(model.embed(batch, batch_size=BATCH_SIZE))))


def _load_ctranslate2(variant: str, folder: pathlib.Path, num_threads: int) -> Encode:
    """Load a compute type, such as "int8"; the tokenizer is `tokenizers`, and vectors are means over tokens."""
    import ctranslate2
    import tokenizers

    path = folder / f"ctranslate2_{variant}"
    source = folder / "sentence_transformer"
    if not path.exists():
        ctranslate2.converters.TransformersConverter(str(source)).convert(str(path), quantization=variant)
    tokenizer = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    encoder = ctranslate2.Encoder(
        str(path), device="cpu", compute_type=variant, inter_threads=num_threads, intra_threads=1
    )

    def encode(batch: Sequence[str]) -> np.ndarray:
        ids = [encoding.ids for encoding in tokenizer.encode_batch(batch)]
        states = np.asarray(encoder.forward_batch(ids).last_hidden_state)
        lengths = np.array([len(row) for row in ids])
        mask = np.arange(states.shape[1]) < lengths[:, np.newaxis]
        means = (states * mask[:, :, np.newaxis]).sum(axis=1)  # the norm cancels the division by the length
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    pool = concurrent.futures.ThreadPoolExecutor(num_threads)  # 1.1 x one worker with two threads
    return lambda texts: encode_sorted(texts, encode, pool, batch_size=BATCH_SIZE)


def encode_sorted(
    texts: Sequence[str],
    encode: Encode,
    pool: concurrent.futures.Executor | None = None,
    batch_size: int | None = None,
) -> np.ndarray:
    """Encode texts from long to short, as sentence-transformers does, and return the vectors in the given order."""
    order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
    size = batch_size or len(texts)
    batches = [[texts[index] for index in order[start : start + size]] for start in range(0, len(texts), size)]
    vectors = np.concatenate(list((pool.map if pool else map)(encode, batches)))
    result = np.empty_like(vectors)
    result[order] = vectors
    return result
