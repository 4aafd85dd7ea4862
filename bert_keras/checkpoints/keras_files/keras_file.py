"""Load `.keras` files of our models, after checking their content."""

import io
import pathlib
import zipfile

import keras

from bert_keras.checkpoints.finite_values import check_finite_model
from bert_keras.checkpoints.keras_files.keras_weights import check_fits, check_h5, get_first_sentence
from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.files import parse_json
from bert_keras.modeling.base import BertModel

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
            _check_sizes(path, archive)
            config = parse_json(archive.read(_CONFIG), f"{path}, config.json")
            weights = archive.read(_WEIGHTS)
    except InputError:
        raise
    except Exception as error:  # zipfile raises many types of errors for damaged files
        raise InputError(
            f"{path} is not a complete .keras file ({error!s:.200}): copy it again from its source"
        ) from None
    if not str(config.get("registered_name")).startswith("bert_keras>"):
        raise InputError(
            f"{path} holds a {quote(config.get('class_name'))}; expected a model of bert_keras: load other Keras "
            "models with keras.saving.load_model"
        )
    check_fits(config, len(weights), f"{path}, config.json")
    check_h5(io.BytesIO(weights), f"{path}, {_WEIGHTS}")


def _check_sizes(path: pathlib.Path, archive: zipfile.ZipFile) -> None:
    """Raise `InputError` if the file unpacks to far more bytes than it has."""
    num_bytes, most = sum(info.file_size for info in archive.infolist()), path.stat().st_size * _MAX_RATIO + _FREE_BYTES
    if num_bytes > most:
        raise InputError(
            f"{path} unpacks to {num_bytes:,} bytes; expected {most:,} at most for its size: copy it again from its "
            "source"
        )
