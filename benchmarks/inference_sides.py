"""A side of `inference.py`: a process that loads one artifact and answers requests.

    python benchmarks/inference_sides.py PART SIDE FOLDER NUM_THREADS

PART is ids, texts or vectors; SIDE is a name of `inference.py`; FOLDER holds the artifacts of a model. Prints a line
of JSON with the versions of the side's packages, or with the reason why it cannot be loaded. Then reads a request of
JSON per line and prints its answer.
"""

import functools
import importlib.metadata
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable

import numpy as np

SECONDS_PER_ROUND = 0.4  # forward passes are repeated for about this long
PACKAGES = {  # keyed by the module that a side imports
    "tensorflow": "tensorflow",
    "tensorflow_text": "tensorflow-text",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "ai_edge_litert": "ai-edge-litert",
    "torch": "torch",
    "transformers": "transformers",
    "sentence_transformers": "sentence-transformers",
    "optimum.onnxruntime": "optimum-onnx",
    "optimum.intel": "optimum-intel",
    "fastembed": "fastembed",
    "ctranslate2": "ctranslate2",
}


def load_ids_side(side: str, folder: pathlib.Path, num_threads: int) -> Callable[[dict], object]:
    """Return a function that runs a model on `input_ids`, `attention_mask` and `token_type_ids`, int32 (B, S).

    Args:
        side: "saved_model", "saved_model bfloat16", "torch_onnx", "onnxruntime FILE", "openvino FILE PRECISION", or
            "litert FILE THREADS".
        folder: the folder of a model's artifacts.
        num_threads: threads of the runtime, unless the side gives a number.
    """
    runtime, *options = side.split()
    if runtime == "saved_model":
        if options:
            _round_to_bfloat16()
        model = _load_saved_model(folder / "artifacts" / "saved_model" / "1", num_threads)
        function = model.signatures["ids"]
        return lambda inputs: [values.numpy() for values in function(**_to_tensors(inputs)).values()]
    if runtime in ("onnxruntime", "torch_onnx"):
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = num_threads
        path = folder / "torch.onnx" if runtime == "torch_onnx" else folder / "artifacts" / "onnx" / "onnx" / options[0]
        session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        types = {entry.name: entry.type.removeprefix("tensor(")[:-1] for entry in session.get_inputs()}
        return lambda inputs: session.run(None, {name: inputs[name].astype(types[name]) for name in types})
    if runtime == "openvino":
        return _load_openvino(folder / "artifacts" / "onnx" / "onnx" / options[0], options[1], num_threads)
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(folder / "artifacts" / "tflite" / options[0]), num_threads=int(options[1]))
    signature = functools.cache(lambda length: interpreter.get_signature_runner(f"length_{length}"))
    return lambda inputs: signature(inputs["input_ids"].shape[1])(**inputs)


def _load_openvino(path: pathlib.Path, precision: str, num_threads: int) -> Callable:
    import openvino

    settings = {"INFERENCE_NUM_THREADS": num_threads, "INFERENCE_PRECISION_HINT": precision}
    settings |= {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}
    model = openvino.Core().compile_model(str(path), "CPU", settings)
    names = [entry.get_any_name() for entry in model.inputs]
    request = model.create_infer_request()
    return lambda inputs: request.infer({name: inputs[name].astype(np.int64) for name in names})


def load_text_side(side: str, folder: pathlib.Path, num_threads: int) -> Callable[[list[str], int], list[str]]:
    """Return a function that labels texts, given a batch size; 0: all texts at once.

    Args:
        side: "saved_model", "saved_model bfloat16", "padded", "pipeline", "engine NAME", or "engine NAME FILE" with a
            file of the ONNX folder.
        folder: the folder of a classifier's artifacts.
        num_threads: threads of the runtime.
    """
    if side == "pipeline":
        return _load_pipeline(folder, num_threads)
    if side.startswith("engine"):
        predict = _load_engine(side, folder, num_threads)
        return lambda texts, size: [answer["label"] for batch in _split(texts, size) for answer in predict(batch)]
    import tensorflow as tf

    if side.endswith("bfloat16"):
        _round_to_bfloat16()
    path = folder / "padded" if side == "padded" else folder / "artifacts" / "saved_model" / "1"
    model = _load_saved_model(path, num_threads)
    function = model.signatures["serving_default"]

    def label(texts: list[str], size: int) -> list[str]:
        batches = _split(texts, size or 32)
        answers = [function(text=tf.constant(batch))["label"].numpy() for batch in batches]
        return [name.decode() for answer in answers for name in answer]

    return label


def _load_pipeline(folder: pathlib.Path, num_threads: int) -> Callable[[list[str], int], list[str]]:
    """Load transformers' pipeline; all texts at once are sorted by length and batched by 32, which is faster there."""
    import torch
    import transformers

    torch.set_num_threads(num_threads)
    pipe = transformers.pipeline("text-classification", str(folder / "classifier"), device="cpu")

    def label(texts: list[str], size: int) -> list[str]:
        order = range(len(texts)) if size else sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        batches = _split([texts[index] for index in order], size or 32)
        labels = [answer["label"] for batch in batches for answer in pipe(batch, batch_size=len(batch))]
        return [name for _, name in sorted(zip(order, labels, strict=True))]

    return label


def load_vector_side(side: str, folder: pathlib.Path, num_threads: int) -> Callable[[list[str]], np.ndarray]:
    """Return a function from texts to unit vectors: an "engine NAME [FILE]" of ours, or a peer."""
    if side.startswith("engine"):
        predict = _load_engine(side, folder, num_threads)
        return lambda texts: np.array([answer["embedding"] for answer in predict(texts)], np.float32)
    from inference_peers import load_peer

    return load_peer(side, folder, num_threads)


def _load_engine(side: str, folder: pathlib.Path, num_threads: int) -> Callable[[list[str]], list[dict]]:
    """Load a `Predictor`: "engine NAME [FILE] [2x]", where 2 is the number of instances."""
    import bert_keras as bk

    _, engine, *options = side.split()
    instances = int(options.pop()[:-1]) if options and options[-1][:-1].isdecimal() else 1
    path = folder / "artifacts" / "onnx" / "onnx" / options[0] if options else folder / "artifacts"
    threads = num_threads // instances
    return bk.Predictor.from_artifact(path, engine=engine, threads=threads, instances=instances)


def _load_saved_model(path: pathlib.Path, num_threads: int):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    return tf.saved_model.load(str(path))


def _round_to_bfloat16() -> None:
    """Let oneDNN round the operands of products, as TensorFlow Serving does with `--mixed_precision=bfloat16`."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": True})


def _to_tensors(inputs: dict[str, np.ndarray]) -> dict:
    import tensorflow as tf

    return {name: tf.constant(values) for name, values in inputs.items()}


def _split(items: list, size: int) -> list[list]:
    return [items[start : start + size] for start in range(0, len(items), size)] if size else [items]


def serve_ids(run: Callable[[dict], object], folder: pathlib.Path, request: dict) -> dict:
    """Time forward passes of a shape; the median of a round."""
    batch_size, length = request["shape"]
    ids = np.random.default_rng(0).integers(1000, 20_000, (batch_size, length)).astype(np.int32)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    run(inputs)
    seconds = []
    while len(seconds) < 3 or sum(seconds) < SECONDS_PER_ROUND:
        start = time.perf_counter()
        run(inputs)
        seconds.append(time.perf_counter() - start)
    return {"seconds": float(np.median(seconds))}


def serve_texts(run: Callable, folder: pathlib.Path, request: dict) -> dict:
    """Time the labels of all texts."""
    texts = json.loads((folder.parent / "texts.json").read_text("utf-8"))
    start = time.perf_counter()
    labels = run(texts, request["batch_size"])
    return {"seconds": time.perf_counter() - start, "labels": labels}


def serve_vectors(run: Callable, folder: pathlib.Path, request: dict) -> dict:
    """Time the vectors of the first sentences, and save them."""
    texts = json.loads((folder.parent / "sentences.json").read_text("utf-8"))["texts"][: request["count"]]
    start = time.perf_counter()
    vectors = run(texts)
    seconds = time.perf_counter() - start
    np.save(request["out"], vectors)
    return {"seconds": seconds}


PARTS = {
    "ids": (load_ids_side, serve_ids),
    "texts": (load_text_side, serve_texts),
    "vectors": (load_vector_side, serve_vectors),
}


def main() -> None:
    part, side, folder, num_threads = sys.argv[1:]
    folder = pathlib.Path(folder)
    load, serve = PARTS[part]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output of libraries must not mix with the answers
    try:
        run = load(side, folder, int(num_threads))
    except Exception as error:  # a package that is missing or does not work: the table says so
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=out, flush=True)
        raise
    print(json.dumps({"versions": find_versions()}), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(serve(run, folder, json.loads(line))), file=out, flush=True)


def find_versions() -> dict[str, str]:
    """Return the versions of the packages that this process has imported."""
    return {name: importlib.metadata.version(name) for module, name in PACKAGES.items() if module in sys.modules}


if __name__ == "__main__":
    main()
