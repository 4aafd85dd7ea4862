"""What the configs of Keras files ask for, compared with the weights that are there, before Keras builds anything."""

import dataclasses
import os
import re
from typing import IO

from bert_keras.checkpoints.keras_files.keras_objects import check_objects, is_metric, objects_in
from bert_keras.checks import quote, read_field
from bert_keras.config import BertConfig
from bert_keras.errors import InputError

_MOST_PER_BYTE = 2  # parameters of int4, Keras's narrowest type
_SEGMENTS = ("type_vocabulary_size", "num_segments")  # ours, KerasHub's
_SIZES = ("vocabulary_size", "num_layers", "hidden_dim", "intermediate_dim", "max_sequence_length")
_WIDTHS = ("embedding_dim", *_SEGMENTS)
_FREE_POSITIONS = 2**24  # numbers of a sinusoidal table, which is computed and not in the file: 64 MiB
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(BertConfig)}


def check_fits(config: object, num_bytes: int, source: str) -> None:
    """Raises `InputError` if a model that a Keras config describes has more parameters than its weights have bytes.

    Also if the config holds a layer that is not counted here, see `check_objects`.

    Args:
        config: a parsed `config.json` of Keras, with any number of models of ours or BERTs of KerasHub in it.
        num_bytes: of the weights.
        source: the config's file, for the message.
    """
    check_objects(config, source)
    of_metrics = {id(part.get("config")) for part in objects_in(config) if is_metric(part)}
    hidden_dim, num_classes, num_parameters = 0, 0, 0
    for part in objects_in(config):
        if any(name in part for name in (*_SIZES, *_WIDTHS)):
            sizes = {name: _size({**_DEFAULTS, **part}, name, source) for name in _SIZES}
            hidden_dim = max(hidden_dim, sizes["hidden_dim"])
            num_parameters += _count_parameters(part, sizes, source)
        if part.get("num_classes") is not None and id(part) not in of_metrics:
            num_classes += _size(part, "num_classes", source)
    num_parameters += num_classes * hidden_dim
    if num_parameters > _MOST_PER_BYTE * num_bytes:
        raise InputError(
            f"{source} describes a model of {quote(num_parameters)} parameters, and its weights have {num_bytes:,} "
            "bytes: config and weights are not of one model"
        )


def check_h5(file: str | os.PathLike | IO[bytes], source: str) -> None:
    """Raises `InputError` unless a file of Keras weights holds every array itself, whole and uncompressed.

    HDF5 can also declare arrays of any size that take no space, and arrays that lie in other files. Arrays of one byte
    per number are codes of a quantized model, which Keras builds unquantized.
    """
    import h5py

    def check(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            is_fine = _is_plain(item)
        else:
            is_fine = all(isinstance(item.get(key, getlink=True), h5py.HardLink) for key in item)
        if not is_fine:
            raise InputError(
                f"{source}: what stands under {quote(name)} is not stored in it whole and uncompressed, as Keras "
                "stores weights: copy the file again from its source"
            )
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "iu" and item.dtype.itemsize == 1:
            raise InputError(
                f"{source}: {quote(name)} holds {item.dtype} numbers, codes of a quantized model, which Keras cannot "
                "read back here; expected weights: save the model before you call its quantize()"
            )

    try:
        with h5py.File(file, "r") as opened:
            check("/", opened)
            opened.visititems(check)
    except InputError:
        raise
    except Exception as error:  # h5py raises errors of many types on damaged files
        reason = first_sentence(error)
        raise InputError(f"{source} is not readable HDF5 ({reason}): copy it again from its source") from None


def first_sentence(error: Exception) -> str:
    """Return the first sentence of another library's error, which may quote all of a file after it."""
    text = str(error).strip() or type(error).__name__
    return re.split(r"(?<=\.)\s|\n", text)[0][:200].rstrip(".")


def _is_plain(dataset) -> bool:
    is_inside = not dataset.is_virtual and dataset.external is None
    return is_inside and dataset.chunks is None and dataset.id.get_storage_size() >= dataset.nbytes


def _size(values: dict, name: str, source: str) -> int:
    return read_field(values, name, int, source=source, minimum=1)


def _count_parameters(values: dict, sizes: dict[str, int], source: str) -> int:
    """Returns the parameters of an encoder's tables and matrices."""
    hidden = sizes["hidden_dim"]
    width = hidden if values.get("embedding_dim") is None else _size(values, "embedding_dim", source)
    segments = next((_size(values, name, source) for name in _SEGMENTS if name in values), 1)
    positions = sizes["max_sequence_length"] * width
    if values.get("position_type") == "sinusoidal" and positions <= _FREE_POSITIONS:
        positions = 0
    tables = (sizes["vocabulary_size"] + segments) * width + positions
    return tables + sizes["num_layers"] * (4 * hidden**2 + 2 * hidden * sizes["intermediate_dim"])
