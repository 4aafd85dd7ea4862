"""JSON files, and the checksums of files."""

import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterable

from bert_keras.errors import InputError

CHECKSUMS = "SHA256SUMS"
_HASH_BLOCK_BYTES = 1 << 20


def write_json(path: str | os.PathLike, value: object) -> None:
    """Writes `value` as readable JSON: two spaces, keys in the order given, UTF-8, newline at the end."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    pathlib.Path(path).write_text(text, encoding="utf-8")


_MAX_JSON_BYTES = 64 * 2**20  # the largest published tokenizer.json has 33 MB


def read_json(path: str | os.PathLike) -> dict:
    """Reads a JSON object from a file.

    Raises:
        InputError: the file is missing or larger than 64 MiB, not UTF-8 or JSON, nested too deeply, or not an object.
    """
    path = pathlib.Path(path)
    try:
        if path.stat().st_size > _MAX_JSON_BYTES:
            raise InputError(
                f"{path} has {path.stat().st_size:,} bytes; expected {_MAX_JSON_BYTES:,} at most: restore the file"
            )
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; expected a JSON file there: check the folder's name") from None
    except RecursionError:
        raise InputError(
            f"{path} is nested too deeply; expected a few lists or objects in each other: restore the file"
        ) from None
    except InputError:
        raise
    except (ValueError, OSError) as error:  # also a number of more than 4,300 digits
        raise InputError(f"{path} is not readable JSON ({error}): restore the file from its source") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} holds a JSON {type(value).__name__}; expected an object: restore the file")
    return value


def write_checksums(folder: pathlib.Path, names: Iterable[str]) -> None:
    """Records the SHA-256 of files of a folder in its `SHA256SUMS`, in the format of `sha256sum -c`."""
    lines = [f"{file_digest(folder / name)['sha256']}  {name}\n" for name in names]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def check_checksums(folder: pathlib.Path, is_checked: Callable[[str], bool] = lambda name: True) -> None:
    """Checks every file that the folder's `SHA256SUMS` lists; a folder without one passes.

    `is_checked` chooses files by their names.

    Raises:
        InputError: a file is missing or was changed, or the list itself is not in its format.
    """
    path = folder / CHECKSUMS
    if not path.exists():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
        digest, separator, name = line.partition("  ")
        if not line:
            continue
        if not separator or len(digest) != 64:
            raise InputError(f"{path}:{number} is not a line of a SHA-256 list: restore the file, or delete it")
        try:
            if is_checked(name):
                check_digest(folder / name, {"sha256": digest})
        except InputError as error:
            raise InputError(f"{error} (if you changed it on purpose, delete {CHECKSUMS})") from None


def file_digest(path: str | os.PathLike) -> dict[str, object]:
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
    if file_digest(path)["sha256"] != expected["sha256"]:
        raise InputError(
            f"{path} does not match the SHA-256 recorded for it: "
            "it was damaged or changed after it was written, so copy it again from its source"
        )
