"""Backups of a running training: each a folder that is whole or absent, the newest intact one found again."""

import dataclasses
import logging
import os
import pathlib
import shutil
import threading
from collections.abc import Mapping

import numpy as np
import safetensors.numpy

from bert_keras.array_files import write_arrays
from bert_keras.errors import InputError
from bert_keras.files import CHECKSUMS, check_checksums, read_json, write_checksums, write_json
from bert_keras.publishing import publish_folder

FORMAT_VERSION = 1
_ARRAYS, _FACTS = "arrays.safetensors", "state.json"
_BEST = "best."
_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainingState:
    """Everything that a training needs to go on.

    Attributes:
        step: optimizer steps done.
        arrays: the variables of the model, its optimizer and its metrics, by name.
        facts: what JSON can hold: where in the run it is, its log, its settings.
        best_weights: the weights of the best epoch so far, by name, where epochs are compared.
    """

    step: int
    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, object]
    best_weights: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)


class BackupFolder:
    """The backups of one training, `step-000000500` and so on, beside the folder that it will write.

    Args:
        path: made when the first backup is written.
        num_kept: how many of the newest stay.

    Attributes:
        damaged: what was wrong with backups that `newest` passed over, one sentence each.
    """

    def __init__(self, path: str | os.PathLike, num_kept: int = 2):
        self.path = pathlib.Path(path)
        self.damaged: list[str] = []
        self._num_kept = num_kept

    def steps(self) -> list[int]:
        """Returns the steps of the backups that are there, in order."""
        return sorted(int(path.name.removeprefix("step-")) for path in self.path.glob("step-*") if path.is_dir())

    def write(self, state: TrainingState) -> None:
        """Writes a backup and removes the oldest ones that are too many.

        Raises:
            OSError: it could not be written; those before it are still there.
        """
        with publish_folder(self._folder(state.step), "a backup", overwrite=True) as folder:
            best = {_BEST + name: values for name, values in state.best_weights.items()}
            write_arrays(folder / _ARRAYS, {**state.arrays, **best})
            write_json(folder / _FACTS, {"format_version": FORMAT_VERSION, "step": state.step, **state.facts})
            write_checksums(folder, [_ARRAYS, _FACTS])
        for step in self.steps()[: -self._num_kept]:
            shutil.rmtree(self._folder(step), ignore_errors=True)

    def newest(self) -> TrainingState | None:
        """Returns the newest backup whose checksums are right, None where there is none; others are told in the log."""
        for step in reversed(self.steps()):
            try:
                return self._read(step)
            except InputError as error:
                self.damaged.append(str(error))
                _LOG.warning("a backup is damaged, and the one before it is looked for: %s", error)
        return None

    def remove(self) -> None:
        """Remove all backups; the folder stays, because a running training holds its lock."""
        for pattern in ("step-*", ".step-*"):
            for path in self.path.glob(pattern):
                shutil.rmtree(path, ignore_errors=True)

    def remove_unfinished(self) -> None:
        """Removes what a killed process left half-written."""
        for path in self.path.glob(".step-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _folder(self, step: int) -> pathlib.Path:
        return self.path / f"step-{step:09}"

    def _read(self, step: int) -> TrainingState:
        folder = self._folder(step)
        if not (folder / CHECKSUMS).is_file():
            raise InputError(f"{folder / CHECKSUMS} is missing, so the backup may not be whole")
        check_checksums(folder)
        facts = read_json(folder / _FACTS)
        if facts.get("format_version") != FORMAT_VERSION:
            raise InputError(
                f"{folder} has the format {facts.get('format_version')}, this release reads {FORMAT_VERSION}: "
                "go on with the release that wrote it, or begin anew"
            )
        arrays = safetensors.numpy.load_file(folder / _ARRAYS)
        best = {name.removeprefix(_BEST): arrays.pop(name) for name in list(arrays) if name.startswith(_BEST)}
        return TrainingState(step, arrays, facts, best)


class BackupWriter:
    """Writes backups while the training goes on, one at a time.

    A backup that cannot be written (a full disk) is told in the log and left out: the training is worth more.
    """

    def __init__(self, folder: BackupFolder):
        self._folder = folder
        self._thread: threading.Thread | None = None

    def begin(self, state: TrainingState) -> None:
        """Begins to write a backup; waits for the one before."""
        self.finish()
        self._thread = threading.Thread(target=self._write, args=(state,), name=f"backup of step {state.step}")
        self._thread.start()

    def finish(self) -> None:
        """Waits until the backup that was begun is written."""
        if self._thread is not None:
            self._thread.join()
        self._thread = None

    def _write(self, state: TrainingState) -> None:
        try:
            self._folder.write(state)
        except OSError as error:
            _LOG.warning(
                "the backup of step %s could not be written to %s (%s): training goes on, the backups before it "
                "are still there; make room on that disk",
                f"{state.step:,}",
                self._folder.path,
                error.strerror or error,
            )
