"""The ONNX folder that transformers.js, optimum and sentence-transformers can open."""

import os
import pathlib
from collections.abc import Mapping

import keras

from bert_keras.export.description import write_description
from bert_keras.export.onnx.to_onnx import write_onnx
from bert_keras.pipelines.text.tokenizer import BertTokenizer

FLOAT32, INT8 = "onnx/model.onnx", "onnx/model_quantized.onnx"  # transformers.js's names for "fp32" and "q8"


def write_onnx_folder(
    model: keras.Model,
    tokenizer: BertTokenizer,
    folder: str | os.PathLike,
    *,
    task: Mapping[str, object] | None = None,
) -> None:
    """Write a model as ONNX together with its tokenizer and configuration.

    The files are `onnx/model.onnx`; `config.json` with the labels; `vocab.txt`, `tokenizer.json` and
    `tokenizer_config.json`; and for an embedder `modules.json` and the files that it refers to.

    Args:
        model: an encoder, with or without a head.
        tokenizer: its tokenizer.
        folder: the folder, which is created if necessary. Files with these names are replaced.
        task: the settings of the task that the model was fine-tuned for, as in `bert_keras.save`.

    Raises:
        MissingExtraError: tf2onnx is not installed.
        ParityError: the model cannot be converted.
    """
    folder = pathlib.Path(folder)
    write_onnx(model, folder / FLOAT32)
    write_description(model, tokenizer, folder, task=task)
