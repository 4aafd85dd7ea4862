"""Detect the format of a model folder and read it as a `Checkpoint`.

Our own and Hugging Face's folders are read without TensorFlow. `loading.py` builds models from the result.
"""

import os
import pathlib
from collections.abc import Callable

from bert_keras.checkpoints.checkpoint import Checkpoint, check_complete
from bert_keras.checkpoints.google_checkpoint import CONFIG as GOOGLE_CONFIG
from bert_keras.checkpoints.google_checkpoint import read_google, read_without_weights
from bert_keras.checkpoints.huggingface.huggingface_folder import read_folder
from bert_keras.checkpoints.keras_files.keras_weights import check_preset, is_preset
from bert_keras.checkpoints.vocabulary_file import open_tokenizer, read_preset_settings
from bert_keras.embedding_settings import transformer_folder
from bert_keras.errors import InputError
from bert_keras.hub.names import is_hub_name


def read_checkpoint(folder: str | os.PathLike | Checkpoint, *, any_head: bool = False) -> Checkpoint:
    """Read a model folder of any format. Its weights are read later, on demand.

    Args:
        folder: the folder, or the name of a model on the Hub. A `Checkpoint` is returned as it is, so that a command
            reads a folder only once.
        any_head: if a Hugging Face folder has a head that we do not support, read the encoder instead of raising.

    Raises:
        InputError: the folder has no supported format, or a file in it is missing, damaged or of another model.
    """
    if isinstance(folder, Checkpoint):
        return folder
    checkpoint = _read(_check_folder(find_folder(folder)), any_head=any_head)
    checkpoint.hub_name = os.fspath(folder) if is_hub_name(folder) else None
    return checkpoint


def _read(folder: pathlib.Path, *, any_head: bool) -> Checkpoint:
    if (folder / GOOGLE_CONFIG).exists():
        return read_google(folder)
    if is_preset(folder):
        from bert_keras.checkpoints.keras_files.keras_hub_preset import read_preset  # imports TensorFlow

        return read_preset(folder)
    return read_folder(folder, any_head=any_head)


def read_without_tensorflow(folder: str | os.PathLike) -> Checkpoint | None:
    """Read and check as much of a model folder as possible without TensorFlow.

    Returns:
        The checkpoint, of which every weight exists; None for the formats of Google and KerasHub, whose weights only
        TensorFlow can read.

    Raises:
        InputError: the folder has no supported format, or a file in it is missing, damaged or of another model.
    """
    folder = _check_folder(find_folder(folder))
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
    """Return the arguments of `BertTokenizer` for a folder of any format, or None if it has no vocabulary.

    The folder need not contain a model.

    Raises:
        InputError: a file cannot be read, or the tokenizer follows rules that `BertTokenizer` does not support.
    """
    if isinstance(folder, Checkpoint):
        return folder.tokenizer_settings
    folder = find_folder(folder, with_weights=False)
    if is_preset(folder):
        return read_preset_settings(folder)
    return open_tokenizer(transformer_folder(folder))()


def find_folder(
    folder: str | os.PathLike, *, with_weights: bool = True, report: Callable[[str], None] | None = None
) -> pathlib.Path:
    """Return the path of a folder; a model of the Hub is downloaded to the cache, see `bert_keras.hub`.

    Args:
        folder: a path, or a name that starts with `hf://`.
        with_weights: whether to download the weights of a model of the Hub.
        report: called with a line of text before a download.

    Raises:
        InputError: the model cannot be downloaded.
    """
    if not is_hub_name(folder):
        return pathlib.Path(folder)
    from bert_keras.hub.downloading import download_folder

    return download_folder(os.fspath(folder), with_weights=with_weights, report=report)


def exists(folder: str | os.PathLike) -> bool:
    """Whether a path exists; the name of a model on the Hub is assumed to, until it is read."""
    return is_hub_name(folder) or pathlib.Path(folder).exists()


def _check_folder(folder: str | os.PathLike) -> pathlib.Path:
    """Return the folder after checking that it has the config of a supported format."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        kind = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {kind}; expected a checkpoint folder or a .keras file: check the path")
    if not any((transformer_folder(folder) / name).exists() for name in (GOOGLE_CONFIG, "config.json")):
        raise InputError(
            f"{folder} is not a checkpoint of a supported format; expected config.json (Hugging Face, KerasHub) or "
            f"{GOOGLE_CONFIG} (Google) in it: check the path"
        )
    return folder
