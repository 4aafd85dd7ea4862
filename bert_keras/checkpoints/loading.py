"""`load`: any BERT folder to a model, telling by itself what it was given."""

import os
import pathlib

from bert_keras.checkpoints.building import build_head, build_model
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.keras_files.keras_file import load_keras_file
from bert_keras.checkpoints.reading import read_checkpoint, read_tokenizer_settings
from bert_keras.errors import InputError
from bert_keras.pipelines.text.tokenizer import BertTokenizer


def load(path: str | os.PathLike | Checkpoint):
    """Loads a model from a folder of any BERT format, or from a `.keras` file.

    Args:
        path: a checkpoint folder of ours or of Hugging Face (`config.json`, `model.safetensors`), a
            sentence-transformers folder, a Google TF1 checkpoint (`bert_config.json`,
            `*.ckpt.*`), a KerasHub preset folder, or a `.keras` file; or what `read_checkpoint` returned.

    Returns:
        The model that the folder names: a `BertEncoder` or a model with a head.

    Raises:
        InputError: the path is none of these, or a file in it is missing, damaged or of another model.
    """
    if is_keras_file(path):
        return load_keras_file(pathlib.Path(path))
    return build_model(read_checkpoint(path))


def load_with_head(model_class, folder: str | os.PathLike, **head):
    """Builds `model_class` on the weights of any folder that `load` reads; see `from_checkpoint`."""
    return build_head(model_class, read_checkpoint(folder, any_head=True), head)


def load_tokenizer(folder: str | os.PathLike | Checkpoint) -> BertTokenizer | None:
    """Returns the tokenizer of any folder that `load` reads, or None if it has no vocabulary.

    A Google checkpoint does not say whether it is cased: its vocabulary does, by its capital letters.
    """
    settings = read_tokenizer_settings(folder)
    if settings is None:
        return None
    try:
        return BertTokenizer(**settings)
    except InputError as error:
        raise type(error)(f"{folder}: {error}") from None


def is_keras_file(path: str | os.PathLike | Checkpoint) -> bool:
    """Tells the name of a `.keras` file from a folder."""
    return not isinstance(path, Checkpoint) and pathlib.Path(path).suffix == ".keras"
