"""What `bk.pretrain` and `bk.finetune` add to a training while it runs: a progress bar, and a log for TensorBoard."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence

import keras

from bert_keras.checks import quote
from bert_keras.display.progress_bar import can_move, is_notebook
from bert_keras.errors import InputError
from bert_keras.training.tracking.fit_progress import FitProgress
from bert_keras.training.tracking.tensorboard_log import TensorBoardLog, open_tensorboard

Listener = Callable[[dict], None]


@dataclasses.dataclass(frozen=True)
class Tracked:
    """The callbacks and listeners of a training, with those of the progress bar and of TensorBoard.

    Attributes:
        callbacks: for `model.fit`.
        listeners: for the training log.
        tensorboard: the log for TensorBoard; None = no folder was given, or this worker is not the chief.
    """

    callbacks: Sequence[keras.callbacks.Callback]
    listeners: Sequence[Listener]
    tensorboard: TensorBoardLog | None


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
) -> Iterator[Tracked]:
    """Show a progress bar and write for TensorBoard inside the block.

    Args:
        callbacks, listeners: those of the caller.
        tensorboard: folder for TensorBoard, or None.
        verbose: True = show the progress; False = do not; "auto" = only as a moving bar, in notebooks and terminals.
        is_chief: whether this process is the chief; other workers show and write nothing.
        num_steps, num_seconds: see `FitProgress`.

    Raises:
        InputError: `verbose` has another value.
    """
    has_bar = is_chief and _shows_progress(verbose)
    with contextlib.ExitStack() as stack:
        bars = [stack.enter_context(FitProgress(num_steps, num_seconds=num_seconds))] if has_bar else []
        log = stack.enter_context(open_tensorboard(tensorboard, is_chief=is_chief))
        logs = [] if log is None else [log]
        yield Tracked([*bars, *callbacks, *logs], [*listeners, *logs], log)


def check_verbose(verbose: bool | str) -> None:
    """Raise `InputError` unless `verbose` is True, False or "auto"."""
    if not isinstance(verbose, bool) and verbose != "auto":
        raise InputError(f'verbose is {quote(verbose)}; expected True, False or "auto": choose one of them')


def _shows_progress(verbose: bool | str) -> bool:
    check_verbose(verbose)
    return is_notebook() or can_move() if verbose == "auto" else verbose
