"""`model.safetensors`, whole or in shards: found, checked and opened. Nothing here unpickles."""

import functools
import json
import os
import pathlib
from collections.abc import Iterator

import numpy as np
import safetensors

from bert_keras.checkpoints.checkpoint import StoredWeight
from bert_keras.checkpoints.names import plain_huggingface_name
from bert_keras.errors import InputError
from bert_keras.files import read_json

WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"


def is_weights(name: str) -> bool:
    """Whether a file of that name holds weights: hundreds of megabytes, where the others have one."""
    return name.endswith(".safetensors")


def open_weights(folder: pathlib.Path) -> dict[str, StoredWeight]:
    """Returns the tensors of a model folder by their plain names; each is read when it is asked for.

    Raises:
        InputError: there are none, they are pickled, or cut short.
    """
    _check_weights_are_there(folder)
    paths = [folder / shard for shard in _shards(folder)]
    for path in paths:
        _check_size(path)
    return {plain_huggingface_name(weight.name): weight for path in paths for weight in _stored(path)}


def _check_weights_are_there(folder: pathlib.Path) -> None:
    if (folder / WEIGHTS).exists() or (folder / _INDEX).exists():
        return
    if pickled := sorted(path.name for ending in ("*.bin", "*.pt") for path in folder.glob(ending)):
        raise InputError(
            f"{folder} has its weights in {pickled[0]}, a pickle, which can run code when it is read: it is refused; "
            "convert it where you trust it, in transformers, with "
            "AutoModel.from_pretrained(folder).save_pretrained(out, safe_serialization=True)"
        )
    raise InputError(f"{folder} has no {WEIGHTS}: expected the weights there, so copy the folder again, whole")


def _shards(folder: pathlib.Path) -> list[str]:
    if (folder / WEIGHTS).exists():
        return [WEIGHTS]
    shards = read_json(folder / _INDEX).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise InputError(f"{folder / _INDEX} names no shards under 'weight_map': copy it again from its source")
    return sorted(set(shards.values()))


def _check_size(path: pathlib.Path) -> None:
    """Compares the file's size with what its own header announces: 8 bytes of length, JSON, then the tensors."""
    if not path.is_file():
        raise InputError(f"{path} is missing, though {_INDEX} lists it: copy the folder again, whole")
    try:
        expected_bytes = _announced_bytes(path)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path} is not a safetensors file: copy it again from its source") from None
    actual_bytes = path.stat().st_size
    if actual_bytes != expected_bytes:
        raise InputError(
            f"{path} has {actual_bytes:,} bytes where its header announces {expected_bytes:,}: "
            "it was cut short or changed, so copy it again from its source"
        )


def _announced_bytes(path: pathlib.Path) -> int:
    with open(path, "rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        if header_bytes > os.path.getsize(path):
            raise ValueError("no header of that size fits in")
        header = json.loads(file.read(header_bytes))
    ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
    return 8 + header_bytes + max(ends, default=0)


def _stored(path: pathlib.Path) -> Iterator[StoredWeight]:
    try:
        file = safetensors.safe_open(path, framework="numpy")
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118, it is no dict
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a whole safetensors file ({error}): copy it again from its source") from None
    for name, shape in shapes.items():
        yield StoredWeight(name, shape, functools.partial(_read, file, name))


def _read(file, name: str) -> np.ndarray:
    return file.get_tensor(name).astype("float32", copy=False)
