"""Temporary folders next to or in an output folder: made, locked, moved to their place, cleaned up after a crash."""

import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import sys
import uuid
from collections.abc import Iterator

from bert_keras.checks import format_names
from bert_keras.errors import InputError
from bert_keras.files import read_json

try:
    import fcntl
except ModuleNotFoundError:  # Windows: two runs at once are not noticed there
    fcntl = None

LISTING = ".bert_keras.json"
PREFIX = ".bert_keras."  # of everything that we put into a folder while it is written
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h


@contextlib.contextmanager
def new_staging(folder: pathlib.Path, *, inside: bool, at_nearest: bool = False) -> Iterator[pathlib.Path]:
    """Yield a new temporary folder, locked while in use and removed at the end.

    Args:
        folder: the output folder.
        inside: make it in `folder` instead of next to it.
        at_nearest: where the parent of `folder` does not exist yet, make it in the nearest parent that does.
    """
    parent = folder if inside else find_existing_parent(folder.parent) if at_nearest else folder.parent
    name = "bert_keras" if inside else folder.name
    while True:
        staging = parent / f".{name}.{uuid.uuid4().hex[:8]}.tmp"
        staging.mkdir()
        with _lock(staging) as is_ours:
            if is_ours is False or not staging.exists():  # another run took it for a stale one
                continue
            try:
                yield staging
            finally:
                shutil.rmtree(staging, ignore_errors=True)
            return


def fill(folder: pathlib.Path, staging: pathlib.Path) -> None:
    """Move the content of a complete folder into an empty one, or nothing."""
    if entries := list_entries(folder):
        raise FileExistsError(None, f"{format_names(sorted(path.name for path in entries))} appeared there", folder)
    names = os.listdir(staging)
    try:
        _move(staging, folder)
    except BaseException:
        for name in names:
            if not (staging / name).exists():
                os.rename(folder / name, staging / name)
        raise


def _move(staging: pathlib.Path, folder: pathlib.Path) -> None:
    """Move everything in a folder into another one, the list of files last, and replace nothing there."""
    for name in sorted(os.listdir(staging), key=lambda name: name == LISTING):
        if (folder / name).exists():
            raise FileExistsError(None, f"{name} appeared there", folder)
        os.rename(staging / name, folder / name)
    staging.rmdir()


def replace(folder: pathlib.Path, staging: pathlib.Path) -> None:
    """Put a complete folder in the place of another; `staging` is the old one afterwards, or gone."""
    if exchange(folder, staging):
        return
    aside = staging.with_suffix(".old")
    try:
        os.rename(folder, aside)
        os.rename(staging, folder)
    except BaseException:
        if aside.exists() and not folder.exists():
            os.rename(aside, folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def exchange(first: pathlib.Path, second: pathlib.Path) -> bool:
    """Swap two folders in one step; return whether that was possible: Linux can on most file systems."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "renameat2"):  # glibc before 2.28
        return False
    return libc.renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0


def clean_up(folder: pathlib.Path) -> None:
    """Undo or complete what killed runs left half done."""
    name = re.escape(folder.name)
    if folder.parent.is_dir():
        for path in folder.parent.iterdir():
            if re.fullmatch(rf"\.{name}\.[0-9a-f]{{8}}\.old", path.name):
                _restore_or_remove(path, folder)
            elif re.fullmatch(rf"\.{name}\.[0-9a-f]{{8}}\.tmp", path.name):
                _remove_if_stale(path)
    if folder.is_dir():
        for path in folder.glob(f"{PREFIX}*.tmp"):
            if not _finish_filling(folder, path):
                _remove_if_stale(path)


def _restore_or_remove(old: pathlib.Path, folder: pathlib.Path) -> None:
    """Move an old folder back if nothing is in its place; remove it if the new one is there."""
    if not folder.exists():
        os.rename(old, folder)
    elif (folder / LISTING).exists():
        shutil.rmtree(old, ignore_errors=True)


def _finish_filling(folder: pathlib.Path, staging: pathlib.Path) -> bool:
    """Move the rest of a complete folder into the one that a killed run was filling with it; return whether it was."""
    try:
        names = {name.split("/")[0] for name in read_json(staging / LISTING)["files"]}
    except InputError:  # killed before the list of files was written
        return False
    rest = set(os.listdir(staging))
    if not any(path.name in names - rest for path in list_entries(folder)):
        return False
    with _lock(staging) as is_ours:
        if is_ours:
            _move(staging, folder)
    return True


def _remove_if_stale(path: pathlib.Path) -> None:
    with _lock(path) as is_ours:
        if is_ours:
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def lock_folder(folder: pathlib.Path) -> Iterator[None]:
    """Make the folder if it is missing, and hold a lock on it, which ends with the process even if that is killed.

    Raises:
        InputError: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder) as is_ours:
        if is_ours is False:
            raise InputError(
                f"another process is at work on {folder}: wait until it is done, or write to another folder"
            )
        yield


def list_entries(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return what is in a folder, without what we put there while it is written."""
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if path.name == LISTING or not path.name.startswith(PREFIX)]


def find_existing_parent(path: pathlib.Path) -> pathlib.Path:
    """Return the path itself or the nearest of its parents that exists."""
    return next(parent for parent in (path, *path.parents) if parent.exists())


@contextlib.contextmanager
def _lock(folder: pathlib.Path) -> Iterator[bool | None]:
    """Yield whether this process holds the lock of a folder, None where that cannot be known."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # it is gone, or somebody else's
        yield None
        return
    try:
        yield _is_locked(descriptor)
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool | None:
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True
