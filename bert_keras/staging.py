"""Create, lock, rename and clean up the temporary folders of `publish_folder`."""

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
except ModuleNotFoundError:  # Windows: there, two runs at once are not detected
    fcntl = None

LISTING = ".bert_keras.json"
PREFIX = ".bert_keras."  # of temporary files in an output folder
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h


@contextlib.contextmanager
def create_staging(folder: pathlib.Path, *, inside: bool, at_nearest: bool = False) -> Iterator[pathlib.Path]:
    """Yield a new temporary folder, which is locked while in use and removed at the end.

    Args:
        folder: the output folder.
        inside: create it in `folder` instead of next to it.
        at_nearest: if the parent of `folder` does not exist, create it in the nearest existing parent.
    """
    parent = folder if inside else find_existing_parent(folder.parent) if at_nearest else folder.parent
    name = "bert_keras" if inside else folder.name
    while True:
        staging = parent / f".{name}.{uuid.uuid4().hex[:8]}.tmp"
        staging.mkdir()
        with _lock(staging) as is_ours:
            if is_ours is False or not staging.exists():  # another run removed it as stale
                continue
            try:
                yield staging
            finally:
                shutil.rmtree(staging, ignore_errors=True)
            return


def fill(folder: pathlib.Path, staging: pathlib.Path) -> None:
    """Move all files of a complete folder into an empty folder; on an error, move them back."""
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
    """Move all files of a folder into another, the list of files last, without replacing any."""
    for name in sorted(os.listdir(staging), key=lambda name: name == LISTING):
        if (folder / name).exists():
            raise FileExistsError(None, f"{name} appeared there", folder)
        os.rename(staging / name, folder / name)
    staging.rmdir()


def replace(folder: pathlib.Path, staging: pathlib.Path) -> None:
    """Replace a folder by a complete one. Afterwards `staging` is the old folder, or does not exist."""
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
    """Swap two folders in one step, and return whether it worked: on Linux, for most file systems."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "renameat2"):  # glibc before 2.28
        return False
    return libc.renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0


def clean_up(folder: pathlib.Path) -> None:
    """Undo or complete the unfinished moves of killed runs, and remove their temporary folders."""
    name = re.escape(folder.name)
    if folder.parent.is_dir():
        for path in folder.parent.iterdir():
            if re.fullmatch(rf"\.{name}\.[0-9a-f]{{8}}\.old", path.name):
                if not folder.exists():
                    os.rename(path, folder)
                elif (folder / LISTING).exists():
                    shutil.rmtree(path, ignore_errors=True)
            elif re.fullmatch(rf"\.{name}\.[0-9a-f]{{8}}\.tmp", path.name):
                _remove_if_stale(path)
    if folder.is_dir():
        for path in folder.glob(f"{PREFIX}*.tmp"):
            if not _finish_filling(folder, path):
                _remove_if_stale(path)


def _finish_filling(folder: pathlib.Path, staging: pathlib.Path) -> bool:
    """If a killed run was moving a complete folder into `folder`, move the rest, and return True."""
    try:
        names = {name.split("/")[0] for name in read_json(staging / LISTING)["files"]}
    except InputError:  # the run was killed before it wrote the list of files
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
    """Hold a lock on a folder, which is created if missing. The lock ends with the process, even if it is killed.

    Raises:
        InputError: another process holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder) as is_ours:
        if is_ours is False:
            raise InputError(f"another process is using {folder}: wait until it is done, or write to another folder")
        yield


def list_entries(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the paths in a folder, except temporary ones of ours; an empty list if it does not exist."""
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if path.name == LISTING or not path.name.startswith(PREFIX)]


def find_existing_parent(path: pathlib.Path) -> pathlib.Path:
    """Return the path, or its nearest parent that exists."""
    return next(parent for parent in (path, *path.parents) if parent.exists())


@contextlib.contextmanager
def _lock(folder: pathlib.Path) -> Iterator[bool | None]:
    """Try to lock a folder; yield whether this process holds the lock, None if that is unknown."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # it was removed, or belongs to another user
        yield None
        return
    is_ours = None
    try:
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_ours = True
            except BlockingIOError:
                is_ours = False
            except OSError:
                pass  # the file system has no locks
        yield is_ours
    finally:
        os.close(descriptor)
