"""`load`: any BERT folder to a model, telling by itself what it was given; and `convert`."""

import os
import pathlib
import zipfile

import keras

from bert_keras.checkpoints.building import build_head, build_model
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.keras_hub_preset import write_preset
from bert_keras.checkpoints.reading import read_checkpoint, read_tokenizer_of
from bert_keras.checkpoints.saving import save
from bert_keras.errors import InputError
from bert_keras.modeling.base import read_checkpoints_with
from bert_keras.pipelines.tokenizer import BertTokenizer
from bert_keras.publishing import check_writable_folder

FORMATS = ("huggingface", "keras_hub")


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
    if _is_keras_file(path):
        return _load_keras_file(pathlib.Path(path))
    return build_model(read_checkpoint(path))


def load_with_head(model_class, folder: str | os.PathLike, **head):
    """Builds `model_class` on the weights of any folder that `load` reads; see `from_checkpoint`."""
    return build_head(model_class, read_checkpoint(folder), head)


def load_tokenizer(folder: str | os.PathLike | Checkpoint) -> BertTokenizer | None:
    """Returns the tokenizer of any folder that `load` reads, or None if it has no vocabulary.

    A Google checkpoint does not say whether it is cased: its vocabulary does, by its capital letters.
    """
    settings = read_tokenizer_of(folder)
    if settings is None:
        return None
    try:
        return BertTokenizer(**settings)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None


def convert(
    source: str | os.PathLike | Checkpoint, out: str | os.PathLike, to: str = "huggingface", *, overwrite: bool = False
):
    """Reads a folder of any format and writes it, tokenizer and head included, in another one.

    Args:
        source: any folder that `load` reads.
        out: the folder to write.
        to: "huggingface" (also our own checkpoint folder) or "keras_hub".
        overwrite: replace a folder that `convert` wrote.

    Raises:
        InputError: the source cannot be read, or the format cannot hold its function.
    """
    if to not in FORMATS:
        raise InputError(f"there is no format {to!r}; expected one of {', '.join(FORMATS)}")
    check_writable_folder(out, "convert", overwrite=overwrite, inputs=[str(source)])
    source = source if _is_keras_file(source) else read_checkpoint(source)
    model, tokenizer = load(source), load_tokenizer(source)
    if to == "huggingface":
        task = source.task if isinstance(source, Checkpoint) else None
        save(model, tokenizer, out, overwrite=overwrite, task=task, written_by="convert")
    else:
        write_preset(model, tokenizer, out, overwrite=overwrite)
    return model


def _is_keras_file(path: str | os.PathLike | Checkpoint) -> bool:
    return not isinstance(path, Checkpoint) and pathlib.Path(path).suffix == ".keras"


def _load_keras_file(path: pathlib.Path):
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a .keras file: check the path")
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not a whole .keras file: copy it again from its source")
    try:
        return keras.models.load_model(path)
    except (ValueError, OSError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read by Keras ({str(error).splitlines()[0]}): copy it again") from None


read_checkpoints_with(load_with_head)
