"""The folder that a training writes: backups next to it while the training runs, and the model at the end.

Each backup is a complete folder or none, and the newest intact one can be found.
"""

import contextlib
import dataclasses
import logging
import os
import pathlib
import shutil
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import safetensors.numpy

from bert_keras.checkpoints.huggingface.weights_file import write_arrays
from bert_keras.errors import InputError
from bert_keras.files import CHECKSUMS, check_checksums, read_json, write_checksums, write_json
from bert_keras.pipelines.readers.option_spelling import Spell, spell_argument
from bert_keras.publishing import get_companion_folder, publish_folder, write_or_keep
from bert_keras.staging import lock_folder

FORMAT_VERSION = 1
_ARRAYS, _METADATA = "arrays.safetensors", "state.json"
_BEST = "best."
_LOG = logging.getLogger(__name__)
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class TrainingState:
    """Everything that a training needs to resume.

    Attributes:
        step: optimizer steps done.
        arrays: the variables of the model, its optimizer and its metrics, keyed by name.
        metadata: values for JSON: the position in the run, the log, the settings.
        best_weights: the weights of the best epoch so far, keyed by name, if epochs are compared.
    """

    step: int
    arrays: Mapping[str, np.ndarray]
    metadata: Mapping[str, object]
    best_weights: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class BackupOptions:
    """Where and how often a training writes backups, and whether it resumes from one.

    Attributes:
        folder: the backup folder; None = no backups.
        every_steps: steps between backups; 0 = only after SIGTERM.
        resume: resume from the newest backup, if there is one.
        allow_changes: resume although settings or data differ from those of the backup.
        spell: how a message names an option.
    """

    folder: "BackupFolder | None" = None
    every_steps: int = 0
    resume: bool = False
    allow_changes: bool = False
    spell: Spell = spell_argument


NO_BACKUP = BackupOptions()


class BackupFolder:
    """The backups of one training, in subfolders such as `step-000000500`.

    Args:
        path: the folder; it is created with the first backup.
        num_kept: how many of the newest backups to keep.

    Attributes:
        damaged: one sentence for each damaged backup that `newest` skipped.
    """

    def __init__(self, path: str | os.PathLike, num_kept: int = 2):
        self.path = pathlib.Path(path)
        self.damaged: list[str] = []
        self._num_kept = num_kept
        self._thread: threading.Thread | None = None

    def steps(self) -> list[int]:
        """Return the steps of the existing backups, in ascending order."""
        return sorted(int(path.name.removeprefix("step-")) for path in self.path.glob("step-*") if path.is_dir())

    def write(self, state: TrainingState) -> None:
        """Write a backup, then remove the oldest ones beyond `num_kept`.

        Raises:
            OSError: the backup could not be written; the earlier ones are still there.
        """
        with publish_folder(self._folder(state.step), "a backup", overwrite=True) as folder:
            best = {_BEST + name: values for name, values in state.best_weights.items()}
            write_arrays(folder / _ARRAYS, {**state.arrays, **best})
            write_json(folder / _METADATA, {"format_version": FORMAT_VERSION, "step": state.step, **state.metadata})
            write_checksums(folder, [_ARRAYS, _METADATA])
        for step in self.steps()[: -self._num_kept]:
            shutil.rmtree(self._folder(step), ignore_errors=True)

    def start_writing(self, state: TrainingState) -> None:
        """Wait for the previous backup, then write this one in a thread, while the training continues.

        A backup that cannot be written (a full disk) is logged and skipped, because the training is worth more.
        """
        self.finish_writing()

        def write_or_warn() -> None:
            try:
                self.write(state)
            except OSError as error:
                _LOG.warning(
                    "the backup of step %s could not be written to %s (%s); the training continues and earlier "
                    "backups are intact: free some space on that disk",
                    f"{state.step:,}",
                    self.path,
                    error.strerror or error,
                )

        self._thread = threading.Thread(target=write_or_warn, name=f"backup of step {state.step}")
        self._thread.start()

    def finish_writing(self) -> None:
        """Wait until the backup of `start_writing` is written."""
        if self._thread is not None:
            self._thread.join()
        self._thread = None

    def newest(self) -> TrainingState | None:
        """Return the newest backup with valid checksums, or None; log a warning for each damaged one."""
        for step in reversed(self.steps()):
            try:
                return self.read(step)
            except InputError as error:
                self.damaged.append(str(error))
                _LOG.warning("a backup is damaged; trying the one before it: %s", error)
        return None

    def remove(self, *patterns: str) -> None:
        """Remove all backups, or some: ".step-*" is what a killed process did not finish.

        The folder stays, because a running training holds its lock.
        """
        for pattern in patterns or ("step-*", ".step-*"):
            for path in self.path.glob(pattern):
                shutil.rmtree(path, ignore_errors=True)

    def _folder(self, step: int) -> pathlib.Path:
        return self.path / f"step-{step:09}"

    def read(self, step: int) -> TrainingState:
        """Return the backup of a step.

        Raises:
            InputError: it is damaged or incomplete, or another release wrote it.
        """
        folder = self._folder(step)
        if not (folder / CHECKSUMS).is_file():
            raise InputError(f"{folder / CHECKSUMS} is missing, so the backup may be incomplete")
        check_checksums(folder)
        metadata = read_json(folder / _METADATA)
        if metadata.get("format_version") != FORMAT_VERSION:
            raise InputError(
                f"{folder} has format version {metadata.get('format_version')}; this release reads {FORMAT_VERSION}: "
                "resume with the release that wrote it, or start over"
            )
        arrays = safetensors.numpy.load_file(folder / _ARRAYS)
        best = {name.removeprefix(_BEST): arrays.pop(name) for name in list(arrays) if name.startswith(_BEST)}
        return TrainingState(step, arrays, metadata, best)


def train_to_folder(
    out: str | os.PathLike | None,
    train: Callable[[BackupOptions], Result],
    write: Callable[[Result, str | os.PathLike], None],
    backup: BackupOptions,
    *,
    overwrite: bool,
    is_chief: bool,
) -> Result:
    """Train with backups next to `out`, write the result to `out`, then remove the backups.

    Args:
        out: the folder; None = only train, without backups.
        train: function that trains with the `BackupOptions` that it receives, and returns its result.
        write: function that writes the result to the folder that it receives, see `write_or_keep`.
        backup: how often to write backups, and whether to resume from one; its folder is that of `get_backup_folder`.
        overwrite: remove the backups of an earlier training, unless `backup.resume` is set.
        is_chief: whether this process is the chief; other workers hold no lock, and write and remove nothing.

    Returns:
        The result of `train`.

    Raises:
        InputError: another training of `out` is running; or `out` cannot be written, and the message says where the
            model or its newest backup is.
    """
    if out is None:
        return train(dataclasses.replace(backup, every_steps=0))
    backups = get_backup_folder(out)
    backup = dataclasses.replace(backup, folder=backups)
    if not is_chief:
        return train(backup)

    def describe_loss() -> str:
        if not (steps := backups.steps()):
            return "the trained model is lost, because there is no backup either: free disk space before training again"
        return (
            f"the state after step {steps[-1]:,} is in {backups.path}: free disk space, and train again with "
            f"{backup.spell('resume', True)}"
        )

    with lock_folder(backups.path):  # a process without the lock must not remove the folder: it is the other's lock
        try:
            if overwrite and not backup.resume:
                backups.remove()
            result = train(backup)
            write_or_keep(out, lambda folder: write(result, folder), if_lost=describe_loss)
            backups.remove()
        finally:
            with contextlib.suppress(OSError):  # it has backups, or is gone
                backups.path.rmdir()
    return result


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
