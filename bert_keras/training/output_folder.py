"""The folder that a training writes: a lock against a second training, backups next to it, and the model at the end."""

import contextlib
import os
from collections.abc import Callable, Iterator

from bert_keras.errors import InputError
from bert_keras.pipelines.readers.option_spelling import Spell, spell_argument
from bert_keras.publishing import get_companion_folder, write_or_keep
from bert_keras.staging import lock_folder
from bert_keras.training.backups import BackupFolder, BackupOptions


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
            f"with {_spell_switch('resume', spell)}, or start over with {_spell_switch('overwrite', spell)}"
        )


@contextlib.contextmanager
def hold_backups(
    out: str | os.PathLike, *, every_steps: int, resume: bool, allow_changes: bool, overwrite: bool, is_chief: bool
) -> Iterator[BackupOptions]:
    """Hold the lock of the backup folder of `out`, and remove the folder at the end if it is empty.

    Args:
        out: the folder that the training writes.
        every_steps, resume, allow_changes: see `BackupOptions`.
        overwrite: remove the backups of an earlier training, unless `resume` is set.
        is_chief: whether this process is the chief; other workers hold no lock and remove nothing.

    Raises:
        InputError: another training of `out` is running.
    """
    backups = get_backup_folder(out)
    options = BackupOptions(backups, every_steps, resume, allow_changes)
    if not is_chief:
        yield options
        return
    try:
        with lock_folder(backups.path):
            if overwrite and not resume:
                backups.remove()
            yield options
    finally:
        with contextlib.suppress(OSError):  # it has backups, or is gone
            backups.path.rmdir()


def publish_model(out: str | os.PathLike, write: Callable[[str | os.PathLike], None], *, spell: Spell) -> None:
    """Write a trained model to `out`, then remove its backups.

    Args:
        out: the folder.
        write: function that writes the model to the folder that it receives, see `write_or_keep`.
        spell: how a message names an option.

    Raises:
        InputError: `out` cannot be written; the message says where the model or its newest backup is.
    """
    backups = get_backup_folder(out)

    def describe_loss() -> str:
        if not (steps := backups.steps()):
            return "the trained model is lost, because there is no backup either: free disk space before training again"
        return (
            f"the state after step {steps[-1]:,} is in {backups.path}: free disk space, and train again with "
            f"{_spell_switch('resume', spell)}"
        )

    write_or_keep(out, write, if_lost=describe_loss)
    backups.remove()


def _spell_switch(name: str, spell: Spell) -> str:
    return f"{name}=True" if spell is spell_argument else spell(name)
