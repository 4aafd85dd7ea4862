"""A folder that transformers.js, optimum and sentence-transformers open."""

import os
import pathlib
from collections.abc import Mapping

import keras

from bert_keras.checkpoints.huggingface.config_writer import build_config
from bert_keras.checkpoints.huggingface.sentence_transformers import write_modules
from bert_keras.export.onnx.onnx_int8 import write_int8_onnx
from bert_keras.export.onnx.to_onnx import write_onnx
from bert_keras.files import write_json
from bert_keras.pipelines.text.tokenizer import BertTokenizer

FLOAT32, INT8 = "onnx/model.onnx", "onnx/model_quantized.onnx"  # transformers.js's names for "fp32" and "q8"


def write_onnx_folder(
    model: keras.Model,
    tokenizer: BertTokenizer,
    folder: str | os.PathLike,
    *,
    int8: bool = True,
    task: Mapping[str, object] | None = None,
) -> None:
    """Writes a model as ONNX beside all that a text needs on its way to it.

    `onnx/model.onnx` and `onnx/model_quantized.onnx`; `config.json` with the labels; `vocab.txt`, `tokenizer.json` and
    `tokenizer_config.json`; for an embedder `modules.json` and what it names.

    Args:
        model: an encoder, with a head or without.
        tokenizer: the tokenizer that made its ids.
        folder: the folder, made if it is missing. What it holds under these names is replaced.
        int8: whether to write the 8-bit file.
        task: what the model was fine-tuned for, as in `bert_keras.save`.

    Raises:
        MissingExtraError: tf2onnx or onnxruntime is not installed.
        ParityError: the model could not be converted.
    """
    folder = pathlib.Path(folder)
    write_onnx(model, folder / FLOAT32)
    if int8:
        write_int8_onnx(folder / FLOAT32, folder / INT8)
    write_json(folder / "config.json", build_config(model, task))
    tokenizer.save(folder)
    length = (task or {}).get("max_sequence_length", tokenizer.max_sequence_length)
    write_modules(model, folder, max_sequence_length=length)
