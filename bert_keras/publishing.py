"""Write output folders and files atomically, and never replace files that bert-keras did not write.

`publish_folder` writes a folder under a temporary name on the same disk, lists its files in `.bert_keras.json`, syncs
it to disk, and renames it in one step. From the list a later run knows which files it may replace. The temporary
folders are managed by `staging.py`.
"""

import contextlib
import os
import pathlib
import re
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

from bert_keras.checks import format_names
from bert_keras.errors import InputError, UnpublishedError
from bert_keras.files import read_json, write_json
from bert_keras.staging import (
    LISTING,
    PREFIX,
    clean_up,
    create_staging,
    fill,
    find_existing_parent,
    list_entries,
    replace,
)


@contextlib.contextmanager
def publish_folder(
    out: str | os.PathLike,
    written_by: str,
    *,
    overwrite: bool = False,
    replaces: Sequence[str] = (),
    inputs: Iterable[str | os.PathLike] = (),
) -> Iterator[pathlib.Path]:
    """Yield a temporary folder that becomes `out` when the block ends without an error.

    If `out` is a symbolic link, its target is written. An existing empty folder is filled, not replaced, so that it can
    be a mount point or the current folder. Files that a killed run left are removed, or moved to their place if they
    are complete.

    Args:
        out: the folder to write. Missing parents are created.
        written_by: the command or function that writes it, recorded in the list of files.
        overwrite: replace a folder that an earlier run of `written_by` wrote. Without it, a folder that is not empty is
            an error, raised before any work.
        replaces: other commands or functions whose folders may be replaced.
        inputs: paths that this run reads.

    Yields:
        The temporary folder.

    Raises:
        InputError: see `check_writable_folder`.
        UnpublishedError: the folder is complete but could not be moved to `out`; the message says where it is.

    Example:
        >>> with publish_folder("my/out", "convert") as folder:
        ...     num_characters = (folder / "notes.txt").write_text("a note")
    """
    folder = check_writable_folder(out, written_by, overwrite=overwrite, replaces=replaces, inputs=inputs)
    is_new = not folder.exists()
    is_filled = not is_new and not list_entries(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with create_staging(folder, inside=is_filled) as staging:
        yield staging
        _complete(staging, written_by)
        try:
            if is_filled:
                fill(folder, staging)
            elif is_new:
                os.rename(staging, folder)
            else:
                _check_replaceable(out, folder, (written_by, *replaces))  # again, because the work may have taken days
                replace(folder, staging)
        except (OSError, InputError) as error:
            place = _keep(staging, folder)
            if place is None:
                raise
            raise UnpublishedError(out, getattr(error, "strerror", None) or str(error), place) from error
        _sync(folder.parent)


def check_writable_folder(
    out: str | os.PathLike,
    written_by: str,
    *,
    overwrite: bool = False,
    replaces: Sequence[str] = (),
    inputs: Iterable[str | os.PathLike] = (),
) -> pathlib.Path:
    """Check that `publish_folder` with these arguments can write a folder, and return its path without links.

    The check creates a temporary folder and removes it again, so a read-only disk is noticed before any work.

    Raises:
        InputError: `out` is a file, contains an input of this run, cannot be written, or is not empty. With
            `overwrite`: it contains files that `written_by` did not write.
    """
    try:
        folder = resolve(out)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{out} is a file; expected the name of a folder to write: name another one")
        clean_up(folder)
        entries = list_entries(folder)
        if entries and not overwrite:
            raise InputError(
                f"{out} exists and is not empty; nothing was written: name another folder, or set overwrite"
            )
        check_holds_no_input(out, inputs)
        if entries:
            _check_replaceable(out, folder, (written_by, *replaces))
        with create_staging(folder, inside=folder.is_dir() and not entries, at_nearest=True):
            pass
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise InputError(f"{out} cannot be written ({reason}): name a folder elsewhere") from None
    return folder


def write_or_keep(
    out: str | os.PathLike, write: Callable[[str | os.PathLike], None], *, if_lost: Callable[[], str]
) -> None:
    """Write a folder that took long to compute; if it cannot be written, write it elsewhere.

    Args:
        out: the folder.
        write: function that writes the folder at a path. If it fails for `out`, it is called for a folder next to
            `out`, then for one in the system's temporary folder.
        if_lost: called if all of them fail; returns the end of the message: what remains and what to do.

    Raises:
        InputError: `out` cannot be written; the message says where the folder is.
    """
    try:
        write(out)
    except UnpublishedError:
        raise
    except Exception as error:  # on a full disk some libraries raise an exception of their own
        reason, folder = f"{out} cannot be written ({getattr(error, 'strerror', None) or error})", resolve(out)
        for parent in (folder.parent, pathlib.Path(tempfile.gettempdir())):
            place = parent / f"{folder.name}.unpublished.{uuid.uuid4().hex[:8]}"
            with contextlib.suppress(Exception):
                write(place)
                reason += f"; the trained model is in {place}: move it to its place"
                break
        else:
            reason += f"; {if_lost()}"
        raise InputError(reason) from error


def check_holds_no_input(out: str | os.PathLike, inputs: Iterable[str | os.PathLike]) -> None:
    """Raise `InputError` if an input path is `out` or inside it."""
    folder = resolve(out)
    for path in inputs:
        path = pathlib.Path(path)
        if path.exists() and path.resolve().is_relative_to(folder):  # the name of a preset is not a path
            raise InputError(f"{path} is an input of this run and would be replaced by {out}: write to another path")


def check_writable_file(
    out: str | os.PathLike, *, overwrite: bool = False, inputs: Iterable[str | os.PathLike] = ()
) -> None:
    """Raise `InputError` if `publish_file(out)` would fail, or would replace a file without `overwrite`.

    The check creates an unnamed file in the nearest existing folder; missing folders are created later.
    """
    out = pathlib.Path(out)
    _check_regular(out)
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists: name another file, or give --overwrite")
    check_holds_no_input(out, inputs)
    folder = find_existing_parent(resolve(out).parent)
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"{out} cannot be written ({folder}: {error.strerror}): name a file elsewhere") from None


@contextlib.contextmanager
def publish_file(out: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yield a temporary path that becomes the file `out`, or the target of a link, unless the block raises an error."""
    _check_regular(pathlib.Path(out))
    file = resolve(out)
    file.parent.mkdir(parents=True, exist_ok=True)
    staging = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        yield staging
        _sync(staging)
        os.replace(staging, file)
        _sync(file.parent)
    finally:
        staging.unlink(missing_ok=True)


def _check_regular(out: pathlib.Path) -> None:
    """Raise `InputError` if `out` is a folder, a device or a pipe, which a file cannot replace."""
    if out.is_dir():
        raise InputError(f"{out} is a folder; expected the name of a file to write: name a file in it")
    if out.exists() and not out.is_file():
        raise InputError(f"{out} is a device or a pipe; expected the name of a file to write: name another one")


def get_companion_folder(out: str | os.PathLike, kind: str) -> pathlib.Path:
    """Return the folder for the state of an unfinished run that writes `out`.

    It is `.NAME.KIND` next to `out`, or a folder in `out` if that exists and its parent is read-only.
    """
    out, folder = pathlib.Path(out), resolve(out)
    if out.name and out.absolute() == folder:  # no links: keep the path as the user wrote it
        folder = out
    if folder.is_dir() and not os.access(folder.parent, os.W_OK):
        return folder / f"{PREFIX}{kind}"
    return folder.with_name(f".{folder.name}.{kind}")


def resolve(out: str | os.PathLike) -> pathlib.Path:
    """Return the absolute path without symbolic links. The path need not exist.

    Raises:
        InputError: the symbolic links form a loop.
    """
    try:
        path = pathlib.Path(out).resolve()
    except RuntimeError:  # Python before 3.13
        path = None
    if path is None or path.is_symlink():
        raise InputError(f"{out} is a symbolic link that leads back to itself: name another folder")
    return path


def _check_replaceable(out: str | os.PathLike, folder: pathlib.Path, writers: Sequence[str]) -> None:
    """Raise `InputError` unless one of the writers wrote all files of a folder, and the folder can be renamed."""
    try:
        listing = read_json(folder / LISTING)
        writer, files = str(listing["written_by"]), {str(name) for name in listing["files"]}
    except (InputError, KeyError, TypeError):
        writer, files = None, set()
    fix = "name another folder, or delete this one yourself"
    if writer is None:
        names = format_names(sorted(path.name for path in list_entries(folder)))
        raise InputError(f"{out} holds {names} and no {LISTING}, so {writers[0]} did not write it: {fix}")
    if writer not in writers:
        raise InputError(f"{out} was written by {writer}, and {writers[0]} replaces only what it wrote itself: {fix}")
    if unlisted := sorted(_find_unlisted(folder, files)):
        raise InputError(
            f"{out} holds {format_names(unlisted)}, which {writer} did not write and which would be lost: move it "
            "elsewhere, or name another folder"
        )
    is_mount_point = _is_mount_point(folder)
    if is_mount_point or pathlib.Path.cwd().is_relative_to(folder):
        kind = "a mount point" if is_mount_point else "the current folder, or contains it,"
        raise InputError(f"{out} is {kind} and has content, so it cannot be replaced: empty it, or name another folder")


def _find_unlisted(folder: pathlib.Path, files: set[str]) -> Iterator[str]:
    """Yield the paths in a folder that are neither listed files nor folders of listed files."""
    folders = {parent.as_posix() for name in files for parent in pathlib.PurePosixPath(name).parents}
    for root, directories, names in os.walk(folder):
        here = pathlib.Path(root).relative_to(folder)
        links = [name for name in directories if (pathlib.Path(root) / name).is_symlink()]
        yield from ({(here / name).as_posix() for name in [*names, *links]} - files - {LISTING})
        for name in list(directories):
            path = (here / name).as_posix()
            if path not in folders and name not in links:
                yield f"{path}/"
                directories.remove(name)


def _keep(staging: pathlib.Path, folder: pathlib.Path) -> pathlib.Path | None:
    """Rename a complete folder so that no later run removes it, and return its path; None if that fails."""
    name = f"unpublished.{uuid.uuid4().hex[:8]}"
    for place in (folder.with_name(f"{folder.name}.{name}"), folder / name):
        with contextlib.suppress(OSError):
            os.rename(staging, place)
            return place
    return None


def _complete(staging: pathlib.Path, written_by: str) -> None:
    """Write the list of files of a folder, set the permissions of its files, and sync it to disk."""
    paths = sorted(path for path in staging.rglob("*") if not path.is_dir())
    listing = {"written_by": written_by, "files": [path.relative_to(staging).as_posix() for path in paths]}
    write_json(staging / LISTING, listing)
    allowed = staging.stat().st_mode  # mkdir has applied the umask
    for path in paths:
        path.chmod((0o777 if path.stat().st_mode & 0o100 else 0o666) & allowed)
    for path in sorted(staging.rglob("*")):
        _sync(path)
    _sync(staging)


def _is_mount_point(folder: pathlib.Path) -> bool:
    """Whether a folder is a mount point, including bind mounts, which `os.path.ismount` misses."""
    if os.path.ismount(folder):
        return True
    try:
        mounts = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:  # not Linux
        return False
    places = (line.split(" ")[4] for line in mounts.splitlines())
    return str(folder) in (re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), place) for place in places)


def _sync(path: pathlib.Path) -> None:
    if path.is_symlink():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
