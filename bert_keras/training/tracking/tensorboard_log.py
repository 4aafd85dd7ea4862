"""`TensorBoardLog`: the scalars, settings and examples of a training, for TensorBoard."""

import contextlib
import logging
import math
import os
from collections.abc import Iterator, Mapping

from bert_keras.extras import is_installed
from bert_keras.training.callbacks import StepCounter
from bert_keras.training.tracking.event_file import EventFile
from bert_keras.training.tracking.training_log import HELD_OUT

TRAIN, HELD_OUT_RUN = "train", "validation"  # the names that Keras's TensorBoard callback uses
_NOT_PLOTTED = ("step", "num_steps")
_LOG = logging.getLogger(__name__)


class TensorBoardLog(StepCounter):
    """Callback and listener of `TrainingLog` that writes a training for TensorBoard, over optimizer steps.

    The folder gets a run `train` and a run `validation` with the same tags, so that both are curves of one plot. The
    folder itself is a run with the settings and final scores (HPARAMS) and with examples (TEXT).

    Args:
        folder: the folder; created if it is missing. It may contain earlier files of the same training.
    """

    def __init__(self, folder: str | os.PathLike):
        super().__init__()
        self._folder = os.fspath(folder)
        self._files: dict[str, EventFile] = {}
        self._first_step = 0

    def start_at(self, num_steps: int) -> None:
        """Continue after the step that a training resumes from."""
        super().start_at(num_steps)
        self._first_step = num_steps + 1

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Count the step."""
        self.count(batch)

    def __call__(self, line: Mapping[str, float]) -> None:
        """Write a line of the training log."""
        scalars = {name: float(value) for name, value in line.items() if name not in _NOT_PLOTTED}
        held_out = {name.removeprefix(HELD_OUT): value for name, value in scalars.items() if name.startswith(HELD_OUT)}
        self._get_file(HELD_OUT_RUN if held_out else TRAIN).write_scalars(held_out or scalars, line["step"])

    def write_settings(self, settings: Mapping[str, object]) -> None:
        """Write settings for the HPARAMS tab; this needs the tensorboard package.

        Args:
            settings: values in nested tables; lists become text, and None is left out.
        """
        if not is_installed("tensorboard"):
            _LOG.warning("no settings for TensorBoard's HPARAMS tab: pip install 'bert-keras[tensorboard]'")
            return
        from tensorboard.plugins.hparams import api

        self._get_file("").write_summary(api.hparams_pb(flatten(settings)).SerializeToString(), 0)

    def write_scores(self, scores: Mapping[str, float]) -> None:
        """Write the scores of the model that the training returns, which may be of an earlier epoch than the last."""
        finite = {f"final/{name}": float(one) for name, one in scores.items() if math.isfinite(one)}
        self._get_file("").write_scalars(finite, self.num_steps)

    def write_text(self, tag: str, text: str) -> None:
        """Write Markdown for the TEXT tab."""
        self._get_file("").write_text(tag, text, self.num_steps)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()

    def _get_file(self, run: str) -> EventFile:
        if run not in self._files:
            first_step = self._first_step if run else 0  # the run of the folder itself is written as a whole
            self._files[run] = EventFile(os.path.join(self._folder, run) if run else self._folder, first_step)
        return self._files[run]


@contextlib.contextmanager
def open_tensorboard(folder: str | os.PathLike | None, *, is_chief: bool) -> Iterator[TensorBoardLog | None]:
    """Yield a log for TensorBoard, or None without a folder and for workers that are not the chief."""
    if folder is None or not is_chief:
        yield None
        return
    with contextlib.closing(TensorBoardLog(folder)) as log:
        yield log


def flatten(values: Mapping[str, object], path: str = "") -> dict[str, bool | int | float | str]:
    """Return the values of nested tables by dotted key, as types that the HPARAMS tab has."""
    flat: dict[str, bool | int | float | str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{path}{name}.")
        elif value is not None:
            flat[path + name] = value if isinstance(value, bool | int | float | str) else str(value)
    return flat
