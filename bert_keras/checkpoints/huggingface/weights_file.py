"""`model.safetensors`, whole or in shards: found, checked and opened. Nothing here unpickles."""

import functools
import os
import pathlib
import re
import shlex
from collections.abc import Iterator

import numpy as np
import safetensors

from bert_keras.checkpoints.checkpoint import StoredWeight
from bert_keras.checkpoints.huggingface.weight_names import plain_huggingface_name
from bert_keras.checks import quote, read_field, resolve_inside
from bert_keras.errors import InputError
from bert_keras.files import parse_json, read_json
from bert_keras.module_list import MODULES

WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}


def is_weights(name: str) -> bool:
    """Whether a file of that name holds weights: hundreds of megabytes, where the others have one."""
    return name.endswith(".safetensors")


def open_weights(folder: pathlib.Path) -> dict[str, StoredWeight]:
    """Returns the tensors of a model folder by their plain names; each is read when it is asked for.

    Raises:
        InputError: there are none, they are pickled, or cut short.
    """
    _check_weights_are_there(folder)
    paths = _shards(folder)
    for path in paths:
        _check_size(path)
    tensors: dict[str, StoredWeight] = {}
    for weight in (weight for path in paths for weight in _stored(path)):
        if (name := plain_huggingface_name(weight.name)) in tensors:
            raise InputError(
                f"{folder} has the tensors {quote(tensors[name].name)} and {quote(weight.name)}, which are one weight; "
                "expected one of them: copy the folder again from its source"
            )
        tensors[name] = weight
    return tensors


def _check_weights_are_there(folder: pathlib.Path) -> None:
    if (folder / WEIGHTS).exists() or (folder / _INDEX).exists():
        return
    if pickled := sorted(path.name for ending in ("*.bin", "*.pt") for path in folder.glob(ending)):
        raise InputError(
            f"{folder} has its weights in {quote(pickled[0])}, a pickle, which can run code when it is read; expected "
            f"{WEIGHTS}: if you trust the folder, write it again with  {_rewriting(folder)}"
        )
    raise InputError(f"{folder} has no {WEIGHTS}: expected the weights there, so copy the folder again, whole")


def _rewriting(folder: pathlib.Path) -> str:
    """Returns the command by which the library that wrote a folder reads it, and writes it as safetensors."""
    whole = folder.parent if (folder.parent / MODULES).exists() else folder  # old folders have 0_Transformer
    if (whole / MODULES).exists():
        code = (
            "import sys; from sentence_transformers import SentenceTransformer as M; M(sys.argv[1]).save(sys.argv[2])"
        )
    else:
        code = (
            f"import sys; from transformers import {_class_of(folder)} as M, AutoTokenizer as T; "
            "[part.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2]) for part in (M, T)]"
        )
    return shlex.join(["python", "-c", code, str(whole), f"{whole}-safetensors"])


def _class_of(folder: pathlib.Path) -> str:
    """Returns the class of transformers that has the model's head, by the name in its config."""
    named = read_json(folder / "config.json").get("architectures") if (folder / "config.json").exists() else None
    name = named[0] if isinstance(named, list) and named else None
    return (
        name
        if isinstance(name, str) and re.fullmatch(r"(Bert|Electra)(Model|For[A-Za-z]{1,40})", name)
        else "AutoModel"
    )


def _shards(folder: pathlib.Path) -> list[pathlib.Path]:
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    index = folder / _INDEX
    shards = read_field(read_json(index), "weight_map", dict[str, str], source=index)
    if not shards:
        raise InputError(f"{index} names no shards under 'weight_map': copy it again from its source")
    return [resolve_inside(folder, shard, source=index) for shard in sorted(set(shards.values()))]


def _check_size(path: pathlib.Path) -> None:
    """Compares the file's size with what its own header announces: 8 bytes of length, JSON, then the tensors."""
    if not path.is_file():
        raise InputError(f"{path} is missing, but {_INDEX} lists it: copy the whole folder again")
    try:
        expected_bytes = _announced_bytes(path)
    except ValueError as error:  # InputError is one
        raise InputError(f"{path} is not a safetensors file ({error}): copy it again from its source") from None
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
        header = parse_json(file.read(header_bytes), "its header", object_pairs_hook=_without_twins)
    ends = [0]
    for name in header.keys() - {"__metadata__"}:
        tensor = read_field(header, name, dict, source="its header")
        ends += read_field(tensor, "data_offsets", list[int], source="its header")
    return 8 + header_bytes + max(ends)


def _without_twins(pairs: list[tuple[str, object]]) -> dict:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name stands in it twice")
    return values


def _stored(path: pathlib.Path) -> Iterator[StoredWeight]:
    try:
        file = safetensors.safe_open(path, framework="numpy")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, it is no dict
    except (safetensors.SafetensorError, OSError) as error:
        reason = f"{error!s:.200}"
        raise InputError(f"{path} is not a whole safetensors file ({reason}): copy it again from its source") from None
    for name, one in slices.items():
        dtype = _DTYPES.get(one.get_dtype(), one.get_dtype())
        yield StoredWeight(name, tuple(one.get_shape()), functools.partial(_read, file, name), dtype)


def _read(file, name: str) -> np.ndarray:
    import ml_dtypes  # noqa: F401, it makes bfloat16 known to NumPy

    with np.errstate(over="ignore"):  # of float64; `check_finite_weight` tells of it
        return file.get_tensor(name).astype("float32", copy=False)
