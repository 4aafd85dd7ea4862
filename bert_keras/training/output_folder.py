"""The folder that a training writes: a lock against a second training, backups next to it, and the model at the end."""

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from bert_keras.errors import InputError
from bert_keras.pipelines.readers.option_spelling import Spell
from bert_keras.publishing import get_companion_folder, write_or_keep
from bert_keras.staging import lock_folder
from bert_keras.training.backups import BackupFolder, BackupOptions

Result = TypeVar("Result")


def get_backup_folder(out: str | os.PathLike) -> BackupFolder:
    """Return the folder next to `out` for the backups of its training: `.OUT.training`."""
    return BackupFolder(get_companion_folder(out, "training").absolute())


def check_no_backup(out: str | os.PathLike, *, resume: bool, overwrite: bool, spell: Spell) -> None:
    """Check that backups of an interrupted training are resumed or overwritten, not forgotten.

    Raises:
        InputError: there is a backup, and neither `resume` nor `overwrite` is set.
    """
    backups = get_backup_folder(out)
    steps = backups.steps()
    if steps and not resume and not overwrite:
        raise InputError(
            f"training of {out} was interrupted, and its backup from step {steps[-1]:,} is in {backups.path}: continue "
            f"with {spell('resume', True)}, or start over with {spell('overwrite', True)}"
        )


def train_to_folder(
    out: str | os.PathLike,
    train: Callable[[BackupOptions], Result],
    write: Callable[[Result, str | os.PathLike], None],
    backup: BackupOptions,
    *,
    overwrite: bool,
    is_chief: bool,
) -> Result:
    """Train with backups next to `out`, write the result to `out`, then remove the backups.

    Args:
        out: the folder.
        train: function that trains with `backup` and returns its result.
        write: function that writes the result to the folder that it receives, see `write_or_keep`.
        backup: the folder of `get_backup_folder`, and how to use it.
        overwrite: remove the backups of an earlier training, unless `backup.resume` is set.
        is_chief: whether this process is the chief; other workers hold no lock, and write and remove nothing.

    Returns:
        The result of `train`.

    Raises:
        InputError: another training of `out` is running; or `out` cannot be written, and the message says where the
            model or its newest backup is.
    """
    if not is_chief:
        return train(backup)
    backups = backup.folder

    def describe_loss() -> str:
        if not (steps := backups.steps()):
            return "the trained model is lost, because there is no backup either: free disk space before training again"
        return (
            f"the state after step {steps[-1]:,} is in {backups.path}: free disk space, and train again with "
            f"{backup.spell('resume', True)}"
        )

    with _hold_folder(backups.path):
        if overwrite and not backup.resume:
            backups.remove()
        result = train(backup)
        write_or_keep(out, lambda folder: write(result, folder), if_lost=describe_loss)
        backups.remove()
    return result


@contextlib.contextmanager
def _hold_folder(folder: pathlib.Path) -> Iterator[None]:
    """Hold the lock of a folder, and remove the folder at the end if it is empty.

    A process that does not get the lock must not remove the folder: it is the lock of the process that has it.
    """
    with lock_folder(folder):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # it has backups, or is gone
                folder.rmdir()
