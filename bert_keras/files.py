"""JSON files, and the checksums of files."""

import hashlib
import json
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterable

from bert_keras.checks import resolve_inside
from bert_keras.errors import InputError

CHECKSUMS = "SHA256SUMS"
_MAX_CHECKSUMS_BYTES = 2**20  # a checkpoint folder has about 600 bytes of them
_CHECKSUM_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?(.+)")
_HASH_BLOCK_BYTES = 1 << 20


def format_json(value: object, *, indent: int | None = None) -> str:
    """Return `value` as JSON text, the one way in which results are written.

    NaN and infinity, which JSON does not have, become null; text is UTF-8, not escaped.
    """
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(value), indent=indent, ensure_ascii=False, allow_nan=False)


def write_json(path: str | os.PathLike, value: object) -> None:
    """Writes `value` as readable JSON: two spaces, keys in the order given, UTF-8, newline at the end."""
    pathlib.Path(path).write_text(format_json(value, indent=2) + "\n", encoding="utf-8")


_MAX_JSON_BYTES = 64 * 2**20  # the largest published tokenizer.json has 33 MB
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")  # how JSON spells half of a surrogate pair, and also a whole one


def parse_json(text: str | bytes, source: object, kind: type = dict, *, pairs: Callable[[list], object] | None = None):
    """Parse JSON that anybody may have written.

    Args:
        text: the JSON, as UTF-8 where it is bytes.
        source: where it is from, for messages.
        kind: what it must hold, `dict` or `list`.
        pairs: makes the value of each object, as `object_pairs_hook` of `json.loads` does.

    Raises:
        InputError: the text is over 64 MiB, not UTF-8 or JSON, nested too deeply, not of the kind, or holds half a
            surrogate pair, which no text can hold.
    """
    _check_json_size(source, len(text))
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=pairs)
        if _HALF_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise InputError(
            f"{source} is nested too deeply; expected a few lists or objects in each other: restore the file"
        ) from None
    except InputError:
        raise
    except ValueError as error:  # also a number of more than 4,300 digits
        raise InputError(f"{source} is not readable JSON ({error!s:.200}): restore the file from its source") from None
    if not isinstance(value, kind):
        expected = "an object" if kind is dict else "a list"
        raise InputError(f"{source} holds a JSON {type(value).__name__}; expected {expected}: restore the file")
    return value


def read_json(path: str | os.PathLike, kind: type = dict):
    """Reads a JSON object, or a list, from a file.

    Raises:
        InputError: the file is missing, or `parse_json` refuses its content.
    """
    path = pathlib.Path(path)
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not readable JSON (it is no regular file): restore it from its source")
        _check_json_size(path, path.stat().st_size)
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; expected a JSON file there: check the folder's name") from None
    except OSError as error:
        raise InputError(f"{path} is not readable JSON ({error.strerror}): check the folder's permissions") from None
    return parse_json(content, path, kind)


def _check_json_size(source: object, num_bytes: int) -> None:
    if num_bytes > _MAX_JSON_BYTES:
        raise InputError(f"{source} has {num_bytes:,} bytes; expected {_MAX_JSON_BYTES:,} at most: restore the file")


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_checksums(folder: pathlib.Path, names: Iterable[str]) -> None:
    """Records the SHA-256 of files of a folder in its `SHA256SUMS`, in the format of `sha256sum -c`."""
    lines = [f"{compute_digest(folder / name)['sha256']}  {name}\n" for name in names]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def check_checksums(folder: pathlib.Path, is_checked: Callable[[str], bool] = lambda name: True) -> None:
    """Checks every file that the folder's `SHA256SUMS` lists; a folder without one passes.

    `is_checked` chooses files by their names. Lines are those of `sha256sum`, also with `--binary`.

    Raises:
        InputError: a file is missing or was changed, or the list itself is not in its format.
    """
    path = folder / CHECKSUMS
    if not path.exists():
        return
    for number, line in enumerate(_checksum_lines(path), 1):
        if not line:
            continue
        if (match := _CHECKSUM_LINE.fullmatch(line)) is None:
            raise InputError(f"{path}:{number} is not a line of a SHA-256 list: restore the file, or delete it")
        digest, name = match[1].lower(), match[2]
        file = resolve_inside(folder, name, source=f"{path}:{number}")
        try:
            if is_checked(name):
                check_digest(file, {"sha256": digest})
        except InputError as error:
            raise InputError(f"{error} (if you changed it on purpose, delete {CHECKSUMS})") from None


def _checksum_lines(path: pathlib.Path) -> list[str]:
    if not path.is_file() or path.stat().st_size > _MAX_CHECKSUMS_BYTES:
        raise InputError(f"{path} is not a SHA-256 list: restore the file, or delete it")
    return path.read_text(encoding="utf-8", errors="replace").split("\n")


def compute_digest(path: str | os.PathLike) -> dict[str, object]:
    """Returns `{"sha256": hex, "bytes": size}` of a file, to be recorded and checked again on load."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_HASH_BLOCK_BYTES):
            digest.update(block)
        return {"sha256": digest.hexdigest(), "bytes": file.tell()}


def check_digest(path: str | os.PathLike, expected: dict[str, object]) -> None:
    """Raises `InputError` unless the file exists with the size and SHA-256 recorded for it."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise InputError(f"{path} is missing, though the folder's record lists it: copy the folder again, whole")
    actual_bytes = path.stat().st_size
    if actual_bytes != expected.get("bytes", actual_bytes):
        raise InputError(
            f"{path} has {actual_bytes:,} bytes where {expected['bytes']:,} were recorded: "
            "it was cut short or changed, so copy it again from its source"
        )
    if compute_digest(path)["sha256"] != expected["sha256"]:
        raise InputError(
            f"{path} does not match the SHA-256 recorded for it: "
            "it was damaged or changed after it was written, so copy it again from its source"
        )
