"""`load`: any BERT folder to a model, telling by itself what it was given; and `convert`."""

import os
import pathlib
import zipfile

import keras

from bert_keras.checkpoints.checkpoint import Checkpoint, build_head, build_model
from bert_keras.checkpoints.google_checkpoint import CONFIG as GOOGLE_CONFIG
from bert_keras.checkpoints.google_checkpoint import read_google
from bert_keras.checkpoints.huggingface_folder import read_folder, save, stored_task
from bert_keras.checkpoints.keras_hub_preset import is_preset, read_preset, read_preset_tokenizer, write_preset
from bert_keras.errors import InputError
from bert_keras.files import check_writable_target
from bert_keras.modeling.base import read_checkpoints_with
from bert_keras.pipelines.tokenizer import BertTokenizer
from bert_keras.pipelines.vocabulary import SPECIAL_TOKENS, read_vocabulary

FORMATS = ("huggingface", "keras_hub")


def load(path: str | os.PathLike):
    """Loads a model from a folder of any BERT format, or from a `.keras` file.

    Args:
        path: a checkpoint folder of ours or of Hugging Face (`config.json`, `model.safetensors`), a
            sentence-transformers folder, a Google TF1 checkpoint (`bert_config.json`,
            `*.ckpt.*`), a KerasHub preset folder, or a `.keras` file.

    Returns:
        The model that the folder names: a `BertEncoder` or a model with a head.

    Raises:
        InputError: the path is none of these, or a file in it is missing, damaged or of another model.
    """
    path = pathlib.Path(path)
    if path.suffix == ".keras":
        return _load_keras_file(path)
    return build_model(read_checkpoint(path))


def load_with_head(model_class, folder: str | os.PathLike, **head):
    """Builds `model_class` on the weights of any folder that `load` reads; see `from_checkpoint`."""
    return build_head(model_class, read_checkpoint(folder), head)


def load_tokenizer(folder: str | os.PathLike) -> BertTokenizer | None:
    """Returns the tokenizer of any folder that `load` reads, or None if it has no vocabulary.

    A Google checkpoint does not say whether it is cased: its vocabulary does, by its capital letters.
    """
    folder = pathlib.Path(folder)
    if is_preset(folder):
        return read_preset_tokenizer(folder)
    if not (folder / "vocab.txt").exists():
        return None
    if (folder / "tokenizer_config.json").exists():
        return BertTokenizer.from_checkpoint(folder)
    return BertTokenizer(read_vocabulary(folder / "vocab.txt"), lowercase=_is_uncased(folder / "vocab.txt"))


def read_checkpoint(folder: str | os.PathLike) -> Checkpoint:
    """Reads a folder of any format."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        kind = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {kind}; expected a checkpoint folder or a .keras file: check the path")
    if (folder / GOOGLE_CONFIG).exists():
        return read_google(folder)
    if is_preset(folder):
        return read_preset(folder)
    if (folder / "config.json").exists():
        return read_folder(folder)
    raise InputError(
        f"{folder} is no checkpoint that is known here; expected config.json (Hugging Face, KerasHub) "
        f"or {GOOGLE_CONFIG} (Google) in it: check the path"
    )


def convert(source: str | os.PathLike, out: str | os.PathLike, to: str = "huggingface", *, overwrite: bool = False):
    """Reads a folder of any format and writes it, tokenizer and head included, in another one.

    Args:
        source: any folder that `load` reads.
        out: the folder to write.
        to: "huggingface" (also our own checkpoint folder) or "keras_hub".
        overwrite: replace a folder that is not empty.

    Raises:
        InputError: the source cannot be read, or the format cannot hold its function.
    """
    if to not in FORMATS:
        raise InputError(f"there is no format {to!r}; expected one of {', '.join(FORMATS)}")
    check_writable_target(out, overwrite=overwrite)
    model, tokenizer = load(source), load_tokenizer(source)
    if to == "huggingface":
        save(model, tokenizer, out, overwrite=overwrite, task=stored_task(source))
    else:
        write_preset(model, tokenizer, out, overwrite=overwrite)
    return model


def _load_keras_file(path: pathlib.Path):
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a .keras file: check the path")
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not a whole .keras file: copy it again from its source")
    try:
        return keras.models.load_model(path)
    except (ValueError, OSError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read by Keras ({str(error).splitlines()[0]}): copy it again") from None


def _is_uncased(vocabulary: pathlib.Path) -> bool:
    words = (piece for piece in read_vocabulary(vocabulary) if piece not in SPECIAL_TOKENS)
    return not any(piece != piece.lower() for piece in words)


read_checkpoints_with(load_with_head)
