"""The files of a model folder without weights, which tell an engine what an artifact computes."""

import os
import pathlib
from collections.abc import Mapping

import keras

from bert_keras.checkpoints.huggingface.sentence_transformers import write_modules
from bert_keras.checkpoints.saving import build_config
from bert_keras.files import write_json
from bert_keras.pipelines.text.tokenizer import BertTokenizer


def write_description(
    model: keras.Model,
    tokenizer: BertTokenizer,
    folder: str | os.PathLike,
    *,
    task: Mapping[str, object] | None = None,
) -> None:
    """Write `config.json` with labels and task, the tokenizer, and for an embedder the files of `modules.json`.

    Args:
        model: an encoder, with or without a head.
        tokenizer: its tokenizer.
        folder: the folder, which is created if necessary. Files with these names are replaced.
        task: the settings of the task that the model was fine-tuned for, as in `bert_keras.save`.
    """
    folder = pathlib.Path(folder)
    tokenizer.save(folder)
    write_json(folder / "config.json", build_config(model, task))
    length = (task or {}).get("max_sequence_length", tokenizer.max_sequence_length)
    write_modules(model, folder, max_sequence_length=length)
