"""What `bk.pretrain` and `bk.finetune` add to a training while it runs: a progress bar, and a log for TensorBoard."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence

import keras

from bert_keras.checks import quote
from bert_keras.display.progress_bar import ProgressBar, can_move, is_notebook
from bert_keras.errors import InputError
from bert_keras.training.callbacks import ScoreListener, shorten_metric_name
from bert_keras.training.tracking.tensorboard_log import TensorBoardLog

Listener = Callable[[dict], None]


@contextlib.contextmanager
def track_training(
    callbacks: Sequence[keras.callbacks.Callback],
    listeners: Sequence[Listener],
    *,
    tensorboard: str | os.PathLike | None,
    verbose: bool | str,
    is_chief: bool,
    num_steps: int | None = None,
    num_seconds: float | None = None,
) -> Iterator[tuple[list[keras.callbacks.Callback], list[Listener], TensorBoardLog | None]]:
    """Show a progress bar and write for TensorBoard inside the block.

    Args:
        callbacks, listeners: those of the caller.
        tensorboard: folder for TensorBoard, or None.
        verbose: True = show the progress; False = do not; "auto" = only as a moving bar, in notebooks and terminals.
        is_chief: whether this process is the chief; other workers show and write nothing.
        num_steps, num_seconds: see `FitProgress`.

    Yields:
        The callbacks for `model.fit` and the listeners of the training log, with the progress bar and the log for
        TensorBoard; and this log, or None without a folder and for workers that are not the chief.

    Raises:
        InputError: `verbose` has another value.
    """
    has_bar = is_chief and _shows_progress(verbose)
    with contextlib.ExitStack() as stack:
        bars = [stack.enter_context(FitProgress(num_steps, num_seconds=num_seconds))] if has_bar else []
        log = None
        if tensorboard is not None and is_chief:
            log = stack.enter_context(contextlib.closing(TensorBoardLog(tensorboard)))
        logs = [] if log is None else [log]
        yield [*bars, *callbacks, *logs], [*listeners, *logs], log


def check_verbose(verbose: bool | str) -> None:
    """Raise `InputError` unless `verbose` is True, False or "auto"."""
    if not isinstance(verbose, bool) and verbose != "auto":
        raise InputError(f'verbose is {quote(verbose)}; expected True, False or "auto": choose one of them')


def _shows_progress(verbose: bool | str) -> bool:
    check_verbose(verbose)
    return is_notebook() or can_move() if verbose == "auto" else verbose


class FitProgress(ScoreListener):
    """Callback that shows a training run as one bar over all epochs and phases. Use it as a context manager.

    When it comes after a `TrainingLog`, it also shows real tokens/s.

    Args:
        num_steps: optimizer steps of the whole run; None: those of the current `fit`.
        num_seconds: time limit of the run, when the clock ends it and the number of steps is unknown.
    """

    def __init__(self, num_steps: int | None, *, num_seconds: float | None = None):
        super().__init__()
        self._given_steps = self._total_steps = num_steps
        self._num_seconds = num_seconds
        self._is_total_known = num_steps is not None
        self._start: float | None = None
        self._first_tokens: tuple[float, int] | None = None  # time after the first step, and its number of tokens
        self._bar = (
            ProgressBar("training", "steps") if num_seconds is None else ProgressBar("training, seconds", unit=None)
        )

    def __enter__(self) -> "FitProgress":
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__()

    def print(self, text: str, *, event: str, **values: object) -> None:
        """Print a line above the bar, see `ProgressBar.print`."""
        self._bar.print(text, event=event, **values)

    def restart(self) -> None:
        """Count from zero again, for the next trial of a search."""
        self.num_steps, self._last_batch = 0, -1
        self._bar.restart()

    def start_at(self, num_steps: int) -> None:
        """Continue counting at the step that a run resumes from."""
        super().start_at(num_steps)
        self._bar.print(f"resuming from step {num_steps:,}", event="resume", step=num_steps)

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Start the clock; without a given total, count the steps of this `fit` once its first epoch is known."""
        self._start = self._start or time.monotonic()
        self._is_total_known = self._given_steps is not None

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Restart the batch index, and compute the total of this `fit`, whose first epoch may not be 0."""
        super().on_epoch_begin(epoch, logs)
        if not self._is_total_known:
            self._total_steps = self.num_steps + self.params["steps"] * (self.params["epochs"] - epoch)
            self._is_total_known = True

    def on_scores(self, scores: dict[str, float]) -> None:
        """Print the scores on held-out data as one line."""
        when = "before the first step" if not self.num_steps else f"step {self.num_steps:,}"
        text = ", ".join(f"{name} {value:.4g}" for name, value in scores.items())
        self._bar.print(f"{when}, held out: {text}", event="scores", step=self.num_steps, scores=scores)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Update the bar."""
        logs = logs or {}
        step = self.count(batch)
        throughput = self._measure_throughput(logs)
        names = [name for name in logs if name == "loss" or name.endswith("accuracy")]
        metrics = {shorten_metric_name(name): float(logs[name]) for name in names}
        parts = [f"{value:,.0f} {name}" for name, value in throughput.items()]
        note = "  ".join([*parts, *(f"{name} {value:.3f}" for name, value in metrics.items())])
        metrics = throughput | metrics
        if self._num_seconds is None:
            self._bar.update(step, self._total_steps, note, metrics)
        else:
            elapsed = min(int(time.monotonic() - self._start), int(self._num_seconds))
            total = max(int(self._num_seconds), 1)
            self._bar.update(elapsed, total, f"step {step:,}  {note}", {"step": step, **metrics})

    def _measure_throughput(self, logs: dict) -> dict[str, float]:
        if "tokens" not in logs:
            return {}
        now = time.monotonic()
        if self._first_tokens is None:  # the first step includes compilation, which would distort the rate
            self._first_tokens = (now, logs["tokens"])
            return {}
        first_time, first_tokens = self._first_tokens
        return {"tokens/s": (logs["tokens"] - first_tokens) / (now - first_time)}
