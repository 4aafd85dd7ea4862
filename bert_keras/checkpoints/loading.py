"""`load` and `load_tokenizer`: a Keras model and a tokenizer from a folder of any format.

The folder is read by `reading.py`, the model built by `building.py`.
"""

import io
import os
import pathlib
import zipfile
from typing import Any

import keras

from bert_keras.architectures.base import BertModel
from bert_keras.checkpoints.adapters.merged_checkpoint import merge_adapter
from bert_keras.checkpoints.building import build_head, build_model
from bert_keras.checkpoints.checkpoint import Checkpoint, check_finite_model
from bert_keras.checkpoints.keras_files.keras_weights import check_fits, check_h5, get_first_sentence, is_plugin
from bert_keras.checkpoints.reading import read_checkpoint, read_tokenizer_settings
from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.files import parse_json
from bert_keras.hub.names import is_hub_name
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"
_MAX_RATIO, _FREE_BYTES = 20, 1 << 20  # Keras does not compress .keras files


def load_keras_file(path: pathlib.Path) -> BertModel:
    """Load one of our models from a `.keras` file, in the safe mode of Keras.

    Raises:
        InputError: the file does not exist, is damaged, holds another model, or its config and weights do not match.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a .keras file: check the path")
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not a complete .keras file: copy it again from its source")
    check_content(path)
    try:
        model = keras.models.load_model(path, safe_mode=True)
    except Exception as error:  # an invalid config can raise any error
        reason = get_first_sentence(error)
        raise InputError(f"{path} cannot be read by Keras ({reason}): copy it again from its source") from None
    if not isinstance(model, BertModel):
        raise InputError(
            f"{path} holds a {type(model).__name__}; expected a model of bert_keras: use keras.saving.load_model"
        )
    check_finite_model(model, str(path))
    return model


def check_content(path: pathlib.Path) -> None:
    """Raise `InputError` if a `.keras` file is damaged, holds another model, or describes more weights than it has."""
    try:
        with zipfile.ZipFile(path) as archive:
            num_bytes = sum(info.file_size for info in archive.infolist())
            if num_bytes > (most := path.stat().st_size * _MAX_RATIO + _FREE_BYTES):
                raise InputError(
                    f"{path} unpacks to {num_bytes:,} bytes; expected {most:,} at most for its size: copy it again "
                    "from its source"
                )
            config = parse_json(archive.read(_CONFIG), f"{path}, config.json")
            weights = archive.read(_WEIGHTS)
    except InputError:
        raise
    except Exception as error:  # zipfile raises many types of errors for damaged files
        raise InputError(
            f"{path} is not a complete .keras file ({error!s:.200}): copy it again from its source"
        ) from None
    if not is_plugin(config) and not str(config.get("registered_name")).startswith("bert_keras>"):
        raise InputError(
            f"{path} holds a {quote(config.get('class_name'))}; expected a model of bert_keras: load other Keras "
            "models with keras.saving.load_model"
        )
    check_fits(config, len(weights), f"{path}, config.json")
    check_h5(io.BytesIO(weights), f"{path}, {_WEIGHTS}")


def load(path: str | os.PathLike | Checkpoint, *, adapter: str | os.PathLike | None = None) -> BertModel:
    """Load a model from a folder of any BERT format, or from a `.keras` file.

    Args:
        path: one of

            - a checkpoint folder of bert_keras, transformers or sentence-transformers (`config.json`,
              `model.safetensors`),
            - a Google TF1 checkpoint (`bert_config.json`, `*.ckpt.*`),
            - a KerasHub preset folder,
            - `hf://ORG/NAME` or `hf://ORG/NAME@REVISION`: a model of the Hugging Face Hub in one of these formats,
              which is downloaded to its cache (extra `hub`),
            - a `.keras` file of one of our models,
            - the result of `read_checkpoint`.
        adapter: folder of a LoRA adapter in PEFT's format (`adapter_config.json`, `adapter_model.safetensors`), which
            is merged into the weights. An adapter for a task brings the head of that task.

    Returns:
        The stored model: a `BertEncoder` or a model with a head.

    Raises:
        InputError: the path has no supported format, or a file in it is missing, damaged or of another model; or the
            adapter is not LoRA, or of another model.

    Example:
        >>> model = bk.load("demo/classifier")
        >>> type(model).__name__, model.labels
        ('BertClassifier', ('concurrency', 'interface', 'language', 'network'))
    """
    if is_keras_file(path):
        check_takes_adapter(path, adapter)
        return load_keras_file(pathlib.Path(path))
    checkpoint = read_checkpoint(path)
    return build_model(checkpoint if adapter is None else merge_adapter(checkpoint, adapter))


def load_with_head(model_class: type[BertModel], folder: str | os.PathLike | Checkpoint, **head: Any) -> BertModel:
    """Build `model_class` on the encoder of any folder that `load` accepts; see `BertModel.from_checkpoint`."""
    return build_head(model_class, read_checkpoint(folder, any_head=True), head)


def load_tokenizer(folder: str | os.PathLike | Checkpoint) -> BertTokenizer | None:
    """Load the tokenizer of any folder that `load` accepts.

    A Google checkpoint has no tokenizer settings: it is treated as cased if its vocabulary has upper-case letters.

    Args:
        folder: a folder, or the result of `read_checkpoint`.

    Returns:
        The tokenizer, or None if the folder has no vocabulary.

    Raises:
        InputError: a file cannot be read, or the tokenizer follows rules that `BertTokenizer` does not support.

    Example:
        >>> bk.load_tokenizer("demo/classifier").max_sequence_length
        64
    """
    settings = read_tokenizer_settings(folder)
    if settings is None:
        return None
    try:
        return BertTokenizer(**settings)
    except InputError as error:
        raise type(error)(f"{folder}: {error}") from None


def is_keras_file(path: str | os.PathLike | Checkpoint) -> bool:
    """Whether a path has the ending of a `.keras` file."""
    return not isinstance(path, Checkpoint) and not is_hub_name(path) and pathlib.Path(path).suffix == ".keras"


def check_takes_adapter(path: str | os.PathLike, adapter: str | os.PathLike | None) -> None:
    """Raise `InputError` if an adapter is given for a `.keras` file."""
    if adapter is not None:
        raise InputError(
            f"{path} is a .keras file, which cannot take the adapter {adapter}; expected a checkpoint folder: name the "
            "folder that the adapter was trained on"
        )
