"""Folders that appear whole or not at all, and hashes to know them by.

Every stage hands the next one a folder. `publish_folder` builds it beside its final
place, syncs it to disk and renames it, so a reader never sees half of one and a failed
run leaves what was there before.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator

from bert_keras.errors import InputError

CHECKSUMS = "SHA256SUMS"
_HASH_BLOCK_BYTES = 1 << 20


@contextlib.contextmanager
def publish_folder(out: str | os.PathLike, *, overwrite: bool = False) -> Iterator[pathlib.Path]:
    """Yields a temporary folder that becomes `out` when the block ends without an error.

    Args:
        out: the folder to publish. Its parents are made.
        overwrite: replace a non-empty `out`; otherwise one is an error, raised before any work.

    Raises:
        InputError: `out` exists and is not an empty folder, and `overwrite` is false.
    """
    out = pathlib.Path(out)
    check_writable_target(out, overwrite=overwrite)
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = pathlib.Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".tmp", dir=out.parent))
    try:
        staging.chmod(0o777 & ~_current_umask())  # mkdtemp makes 0700; a published folder is an ordinary one
        yield staging
        _sync_tree(staging)
        _replace_folder(staging, out)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def check_writable_target(out: str | os.PathLike, *, overwrite: bool = False) -> None:
    """Raises `InputError` if `out` is a file, or a non-empty folder that may not be replaced."""
    out = pathlib.Path(out)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; expected the name of a folder to write: name another one")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise InputError(
            f"{out} exists and is not empty; nothing was written: name another folder, or ask to overwrite this one"
        )


def check_writable_file(out: str | os.PathLike, *, overwrite: bool = False) -> None:
    """Raises `InputError` if `publish_file(out)` would fail or replace something that may not be replaced.

    A folder that is missing is made later; here a nameless file in the nearest one that exists is the test.
    """
    out = pathlib.Path(out)
    if out.is_dir():
        raise InputError(f"{out} is a folder; expected the name of a file to write: name a file in it")
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists: name another file, or give --overwrite")
    folder = next(parent for parent in out.absolute().parents if parent.exists())
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"{out} cannot be written ({folder}: {error.strerror}): name a file elsewhere") from None


@contextlib.contextmanager
def publish_file(out: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yields a temporary path that replaces the file `out` when the block ends without an error."""
    out = pathlib.Path(out)
    if out.is_dir():
        raise InputError(f"{out} is a folder; expected the name of a file to write: name a file in it")
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        yield staging
        _sync(staging)
        os.replace(staging, out)
        _sync(out.parent)
    finally:
        staging.unlink(missing_ok=True)


def write_json(path: str | os.PathLike, value: object) -> None:
    """Writes `value` as readable JSON: two spaces, keys in the order given, UTF-8, newline at the end."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    pathlib.Path(path).write_text(text, encoding="utf-8")


def read_json(path: str | os.PathLike) -> dict:
    """Reads a JSON object from a file.

    Raises:
        InputError: the file is missing, not UTF-8, not JSON, or not an object.
    """
    path = pathlib.Path(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; expected a JSON file there: check the folder's name") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
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


def _replace_folder(staging: pathlib.Path, out: pathlib.Path) -> None:
    """Renames `staging` to `out`; an old `out` is moved aside first and restored if the rename fails."""
    if not out.exists():
        os.rename(staging, out)
    else:
        aside = staging.with_suffix(".old")
        os.rename(out, aside)
        try:
            os.rename(staging, out)
        except OSError:
            os.rename(aside, out)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    _sync(out.parent)


def _sync_tree(folder: pathlib.Path) -> None:
    for path in sorted(folder.rglob("*")):
        _sync(path)
    _sync(folder)


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
