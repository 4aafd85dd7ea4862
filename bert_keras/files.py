"""Read and write JSON files, and check files against their SHA-256.

Whatever the files contain, reading them takes bounded time and memory.
"""

import hashlib
import json
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bert_keras.checks import resolve_inside
from bert_keras.errors import InputError

_MAX_JSON_BYTES = 64 * 2**20  # the largest published tokenizer.json has 33 MB
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # the escape of a surrogate, alone or one of a pair
CHECKSUMS = "SHA256SUMS"
_MAX_CHECKSUMS_BYTES = 2**20  # a checkpoint folder's has about 600 bytes
_CHECKSUM_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?(.+)")
_HASH_BLOCK_BYTES = 1 << 20


def format_json(value: object, *, indent: int | None = None) -> str:
    """Format a value as JSON.

    NaN and infinity, which JSON does not have, become null. Characters outside ASCII are not escaped.
    """
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(value), indent=indent, ensure_ascii=False, allow_nan=False)


def to_plain(value: Any) -> Any:
    """Convert mappings and tuples to dicts and lists, as JSON has them; other values stay."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def write_json(path: str | os.PathLike, value: object) -> None:
    """Write a value as a UTF-8 JSON file, indented by two spaces, with the keys in the given order."""
    pathlib.Path(path).write_text(format_json(value, indent=2) + "\n", encoding="utf-8")


def parse_json(
    text: str | bytes, source: object, kind: type = dict, *, object_pairs_hook: Callable[[list], object] | None = None
) -> Any:
    """Parse JSON from an untrusted source.

    Args:
        text: the JSON; bytes are decoded as UTF-8.
        source: the file, for messages.
        kind: the expected type, `dict` or `list`.
        object_pairs_hook: as in `json.loads`.

    Raises:
        InputError: the text is over 64 MiB, not UTF-8, not JSON, nested too deeply, of another type, or contains half
            of a surrogate pair, which UTF-8 cannot encode.
    """
    _check_json_size(source, len(text))
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=object_pairs_hook)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise InputError(
            f"{source} is nested too deeply; expected a few levels: restore the file from its source"
        ) from None
    except InputError:
        raise
    except ValueError as error:  # also a number of more than 4,300 digits
        raise InputError(f"{source} is not readable JSON ({error!s:.200}): restore the file from its source") from None
    if not isinstance(value, kind):
        expected = "an object" if kind is dict else "a list"
        raise InputError(
            f"{source} holds a JSON {type(value).__name__}; expected {expected}: restore the file from its source"
        )
    return value


def read_json(path: str | os.PathLike, kind: type = dict) -> Any:
    """Read a JSON object, or a list, from a file.

    Raises:
        InputError: the file is missing, or its content is invalid, see `parse_json`.
    """
    path = pathlib.Path(path)
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not readable JSON (it is not a regular file): restore it from its source")
        _check_json_size(path, path.stat().st_size)
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; expected a JSON file: check the path") from None
    except OSError as error:
        raise InputError(f"{path} is not readable JSON ({error.strerror}): check the folder's permissions") from None
    return parse_json(content, path, kind)


def _check_json_size(source: object, num_bytes: int) -> None:
    if num_bytes > _MAX_JSON_BYTES:
        raise InputError(
            f"{source} has {num_bytes:,} bytes; expected {_MAX_JSON_BYTES:,} at most: restore the file from its source"
        )


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_checksums(folder: pathlib.Path, names: Iterable[str]) -> None:
    """Write the SHA-256 of files of a folder to its `SHA256SUMS`, in the format of `sha256sum`."""
    lines = [f"{compute_digest(folder / name)['sha256']}  {name}\n" for name in names]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def check_checksums(folder: pathlib.Path, is_checked: Callable[[str], bool] = lambda name: True) -> None:
    """Check every file that the folder's `SHA256SUMS` lists; a folder without this file passes.

    Args:
        folder: the folder.
        is_checked: whether to check a file, given its name.

    Raises:
        InputError: a file is missing or was changed, or a line is not in the format of `sha256sum`.
    """
    path = folder / CHECKSUMS
    if not path.exists():
        return
    if not path.is_file() or path.stat().st_size > _MAX_CHECKSUMS_BYTES:
        raise InputError(f"{path} is not a list of SHA-256 checksums: restore the file, or delete it")
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
        if not line:
            continue
        if (match := _CHECKSUM_LINE.fullmatch(line)) is None:
            raise InputError(f"{path}:{number} is not a line of sha256sum: restore the file, or delete it")
        digest, name = match[1].lower(), match[2]
        file = resolve_inside(folder, name, source=f"{path}:{number}")
        try:
            if is_checked(name):
                check_digest(file, {"sha256": digest})
        except InputError as error:
            raise InputError(f"{error} (if you changed it on purpose, delete {CHECKSUMS})") from None


def compute_digest(path: str | os.PathLike) -> dict[str, object]:
    """Return the SHA-256 and size of a file, `{"sha256": hex, "bytes": size}`, for `check_digest`."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_HASH_BLOCK_BYTES):
            digest.update(block)
        return {"sha256": digest.hexdigest(), "bytes": file.tell()}


def check_digest(path: str | os.PathLike, expected: dict[str, object]) -> None:
    """Raise `InputError` unless a file exists and has the expected SHA-256 and, if given, size."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise InputError(f"{path} is missing, but the folder lists it: copy the whole folder again")
    actual_bytes = path.stat().st_size
    if actual_bytes != expected.get("bytes", actual_bytes):
        raise InputError(
            f"{path} has {actual_bytes:,} bytes; expected {expected['bytes']:,}: the file was truncated or changed, so "
            "copy it again from its source"
        )
    if compute_digest(path)["sha256"] != expected["sha256"]:
        raise InputError(
            f"{path} does not match its recorded SHA-256: the file was damaged or changed, so copy it again from its "
            "source"
        )
