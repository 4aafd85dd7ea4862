"""Find, check, open and write `model.safetensors`. Pickled weights are never loaded."""

import functools
import hashlib
import os
import pathlib
import re
import shlex
from collections.abc import Mapping

import numpy as np
import safetensors
import safetensors.numpy

from bert_keras.architectures.known_architectures import ARCHITECTURES
from bert_keras.checkpoints.checkpoint import StoredWeight
from bert_keras.checkpoints.huggingface.weight_names import normalize_tensor_name
from bert_keras.checks import quote, read_field, resolve_inside
from bert_keras.embedding_settings import MODULES, transformer_folder
from bert_keras.errors import InputError
from bert_keras.files import compute_digest, parse_json, read_json

WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}


def write_arrays(path: pathlib.Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None) -> None:
    """Write named arrays as a safetensors file.

    Raises:
        OSError: the disk is full, or the path cannot be written; safetensors itself raises a `SafetensorError`.
    """
    try:
        safetensors.numpy.save_file(dict(arrays), path, metadata=metadata)
    except safetensors.SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), os.fspath(path)) from error


def is_weights(name: str) -> bool:
    """Whether a file, given its name, holds weights: 440 MB for BERT base, while the other files have about 1 MB."""
    return name.endswith(".safetensors")


def hash_weights(folder: str | os.PathLike) -> str | None:
    """Return the SHA-256 of the weights of a model folder, over all its files; None if they are not safetensors."""
    paths = sorted(transformer_folder(pathlib.Path(folder)).glob("*.safetensors"))
    digests = [str(compute_digest(path)["sha256"]) for path in paths]
    return hashlib.sha256("".join(digests).encode()).hexdigest() if len(digests) > 1 else next(iter(digests), None)


def open_weights(folder: pathlib.Path) -> dict[str, StoredWeight]:
    """Return the tensors of a model folder, keyed by normalized name. Each is read on demand.

    Raises:
        InputError: there are no weights, or they are pickled, truncated or ambiguous.
    """
    tensors: dict[str, StoredWeight] = {}
    for weight in [weight for path in _find_shards(folder) for weight in open_weights_file(path)]:
        if (name := normalize_tensor_name(weight.name)) in tensors:
            raise InputError(
                f"{folder} has the tensors {quote(tensors[name].name)} and {quote(weight.name)}, two names "
                "of one weight; expected one of them: copy the folder again from its source"
            )
        tensors[name] = weight
    return tensors


def open_weights_file(path: pathlib.Path) -> list[StoredWeight]:
    """Return the tensors of a safetensors file. Each is read on demand.

    Raises:
        InputError: the file is missing, truncated or not in this format.
    """
    _check_size(path)
    try:
        file = safetensors.safe_open(path, framework="numpy")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, it is not a dict
    except (safetensors.SafetensorError, OSError) as error:
        reason = f"{error!s:.200}"
        raise InputError(f"{path} is not a valid safetensors file ({reason}): copy it again from its source") from None
    dtypes = {name: _DTYPES.get(tensor.get_dtype(), tensor.get_dtype()) for name, tensor in slices.items()}
    return [
        StoredWeight(name, tuple(tensor.get_shape()), functools.partial(_read, file, name), dtypes[name])
        for name, tensor in slices.items()
    ]


def _build_conversion_command(folder: pathlib.Path) -> str:
    """Return the command with which the library that wrote a folder saves it as safetensors."""
    whole = folder.parent if (folder.parent / MODULES).exists() else folder  # in old folders, `folder` is 0_Transformer
    if (whole / MODULES).exists():
        code = (
            "import sys; from sentence_transformers import SentenceTransformer as M; M(sys.argv[1]).save(sys.argv[2])"
        )
    else:  # the class for the model and its head, from its config
        config = folder / "config.json"
        named = read_json(config).get("architectures") if config.exists() else None
        name = named[0] if isinstance(named, list) and named else None
        prefixes = "|".join(record.class_prefix for record in ARCHITECTURES.values())
        is_known = isinstance(name, str) and re.fullmatch(rf"({prefixes})(Model|For[A-Za-z]{{1,40}})", name)
        code = (
            f"import sys; from transformers import {name if is_known else 'AutoModel'} as M, AutoTokenizer as T; "
            "[part.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2]) for part in (M, T)]"
        )
    return shlex.join(["python", "-c", code, str(whole), f"{whole}-safetensors"])


def _find_shards(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the paths of the files with weights."""
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    if not (index := folder / _INDEX).exists():
        if pickled := sorted(path.name for ending in ("*.bin", "*.pt") for path in folder.glob(ending)):
            raise InputError(
                f"{folder} has its weights in {quote(pickled[0])}, a pickle, which can run code when loaded; expected "
                f"{WEIGHTS}: if you trust the folder, convert it with  {_build_conversion_command(folder)}"
            )
        raise InputError(f"{folder} has no {WEIGHTS}; expected the weights in it: copy the whole folder again")
    shards = read_field(read_json(index), "weight_map", dict[str, str], source=index)
    if not shards:
        raise InputError(f"{index} names no shards under 'weight_map': copy it again from its source")
    return [resolve_inside(folder, shard, source=index) for shard in sorted(set(shards.values()))]


def _check_size(path: pathlib.Path) -> None:
    """Compare the size of a file with that in its header. The format: 8 bytes with the length, JSON, tensors."""
    if not path.is_file():
        raise InputError(f"{path} is missing, but {_INDEX} lists it: copy the whole folder again")
    ends = [0]
    try:
        with open(path, "rb") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
            if header_bytes > os.path.getsize(path):
                raise ValueError("its header is larger than the file")
            header = parse_json(file.read(header_bytes), "its header", object_pairs_hook=_check_unique)
        for name in header.keys() - {"__metadata__"}:
            tensor = read_field(header, name, dict, source="its header")
            ends += read_field(tensor, "data_offsets", list[int], source="its header")
    except ValueError as error:  # InputError is one
        raise InputError(f"{path} is not a safetensors file ({error}): copy it again from its source") from None
    expected_bytes = 8 + header_bytes + max(ends)
    actual_bytes = path.stat().st_size
    if actual_bytes != expected_bytes:
        raise InputError(
            f"{path} has {actual_bytes:,} bytes; expected {expected_bytes:,}, as in its header: the file was truncated "
            "or changed, so copy it again from its source"
        )


def _check_unique(pairs: list[tuple[str, object]]) -> dict:
    """Return a JSON object as a dict, after checking that no key is repeated."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name is repeated")
    return values


def _read(file: safetensors.safe_open, name: str) -> np.ndarray:
    import ml_dtypes  # noqa: F401, registers bfloat16 with NumPy

    with np.errstate(over="ignore"):  # float64 can overflow; `check_finite_weight` reports it
        return file.get_tensor(name).astype("float32", copy=False)
