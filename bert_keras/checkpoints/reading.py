"""`read_checkpoint`: any folder that `load` reads, told apart by its files.

A folder of ours or of Hugging Face is read without TensorFlow.
"""

import os
import pathlib

from bert_keras.checkpoints.checkpoint import Checkpoint, check_complete
from bert_keras.checkpoints.google_checkpoint import CONFIG as GOOGLE_CONFIG
from bert_keras.checkpoints.google_checkpoint import read_google, read_without_weights
from bert_keras.checkpoints.huggingface.huggingface_folder import read_folder
from bert_keras.checkpoints.keras_files.preset_checks import check_preset, is_preset
from bert_keras.checkpoints.vocabulary_file import open_tokenizer, read_preset_settings
from bert_keras.errors import InputError
from bert_keras.module_list import transformer_folder


def read_checkpoint(folder: str | os.PathLike | Checkpoint, *, any_head: bool = False) -> Checkpoint:
    """Reads a folder of any format: all but its weights, which are read when they are asked for.

    Args:
        folder: the folder; a `Checkpoint` is returned as it is, so that a command reads a folder once.
        any_head: read the encoder of a Hugging Face folder whose head is none of ours, which is refused otherwise.

    Raises:
        InputError: the folder is none of these, or a file in it is missing, damaged or of another model.
    """
    if isinstance(folder, Checkpoint):
        return folder
    folder = _checked(folder)
    if (folder / GOOGLE_CONFIG).exists():
        return read_google(folder)
    if is_preset(folder):
        from bert_keras.checkpoints.keras_files.keras_hub_preset import read_preset  # it loads TensorFlow

        return read_preset(folder)
    return read_folder(folder, any_head=any_head)


def read_without_tensorflow(folder: str | os.PathLike) -> Checkpoint | None:
    """Reads a folder as far as that takes no TensorFlow, and checks that every weight of its model is there.

    Returns:
        The checkpoint; None where its weights are of Google's or KerasHub's format, which TensorFlow reads.

    Raises:
        InputError: the folder is no checkpoint, or a file in it is missing, damaged or of another model.
    """
    folder = _checked(folder)
    if (folder / GOOGLE_CONFIG).exists():
        read_without_weights(folder)
        return None
    if is_preset(folder):
        check_preset(folder)
        return None
    checkpoint = read_folder(folder)
    check_complete(checkpoint)
    return checkpoint


def read_tokenizer_settings(folder: str | os.PathLike | Checkpoint) -> dict | None:
    """Returns the arguments of `BertTokenizer` for a folder of any format, None if it has no vocabulary.

    The folder need not hold a model.

    Raises:
        InputError: a file cannot be read, or asks for rules that `BertTokenizer` does not have.
    """
    if isinstance(folder, Checkpoint):
        return folder.tokenizer_settings
    folder = pathlib.Path(folder)
    if is_preset(folder):
        return read_preset_settings(folder)
    return open_tokenizer(transformer_folder(folder))()


def _checked(folder: str | os.PathLike) -> pathlib.Path:
    """Returns a folder that holds the config of some format."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        kind = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {kind}; expected a checkpoint folder or a .keras file: check the path")
    if not any((transformer_folder(folder) / name).exists() for name in (GOOGLE_CONFIG, "config.json")):
        raise InputError(
            f"{folder} is no checkpoint that is known here; expected config.json (Hugging Face, KerasHub) "
            f"or {GOOGLE_CONFIG} (Google) in it: check the path"
        )
    return folder
