"""`fit_phases`: `model.fit` in phases, on any strategy; an interrupted training resumes to the same result."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from bert_keras.training.backups import BackupOptions, TrainingState
from bert_keras.training.callbacks import EpochScores, FiniteLoss, StopAfter, TrainingLog, choose_window_steps
from bert_keras.training.optimizers.schedules import TimedLearningRate
from bert_keras.training.resuming import (
    BackupCallback,
    TrainingProgress,
    catch_sigterm,
    read_variables,
    restore_variables,
)
from bert_keras.training.strategies import is_chief, make_all_reduce_any

HeldOut = tuple[object, int]  # batches to evaluate on, and how many of them

_UNLIMITED_STEPS = 10**9  # for a phase that ends by time


@dataclasses.dataclass(frozen=True)
class Phase:
    """A part of a training with its own batches.

    Attributes:
        train: function that creates endless batches for the strategy, given the index of the first one.
        held_out: function that returns the batches to evaluate on and their number, or None without held-out data.
        num_steps: optimizer steps; None = until `clock` stops the phase.
        clock: callback that stops the phase by time, if `num_steps` is None.
        evaluate_every: steps between evaluations; 0 = before the first step and at the end only.
        tokens_per_step: average number of real tokens per step; None = unknown.
    """

    train: Callable[[int], object]
    held_out: Callable[[], HeldOut | None]
    num_steps: int | None
    clock: TimedLearningRate | None = None
    evaluate_every: int = 0
    tokens_per_step: float | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Steps from one evaluation to the next, which is what Keras calls an epoch here."""
        return self.evaluate_every or self.num_steps or _UNLIMITED_STEPS

    @property
    def num_epochs(self) -> int:
        """Epochs of the phase in Keras's sense; 1 for a phase that ends by time, whose number is unknown."""
        return 1 if self.num_steps is None else -(-self.num_steps // self.steps_per_epoch)


def fit_phases(
    model: keras.Model,
    phases: Sequence[Phase],
    *,
    settings: Mapping[str, object],
    data: Mapping[str, object],
    strategy: tf.distribute.Strategy,
    backup: BackupOptions,
    callbacks: Sequence[keras.callbacks.Callback],
    listeners: Sequence[Callable[[dict], None]],
    scorer: EpochScores | None = None,
) -> TrainingLog:
    """Train a compiled model in phases.

    Args:
        model: created and compiled in the strategy's scope.
        phases: the phases, in order.
        settings: nested tables of plain values, which must equal those of a backup to resume from it.
        data: plain values that identify the data, keyed by a name for messages; compared in the same way.
        strategy: any `tf.distribute` strategy, including the default one.
        backup: where to write backups, and whether to resume.
        callbacks: passed to `model.fit`.
        listeners: called with each line of the log.
        scorer: scores the model at the end of each epoch, and may stop the training.

    Returns:
        The log of the whole training, including the part before it was resumed.

    Raises:
        InputError: the backup is of another training, or the loss became infinite or NaN.
        InterruptedTrainingError: SIGTERM arrived, and the state was written.
    """
    all_steps = [phase.num_steps for phase in phases]
    log = TrainingLog(None, tuple(listeners), choose_window_steps(None if None in all_steps else sum(all_steps)))
    progress = TrainingProgress(settings, data, log)
    state = backup.folder.newest() if backup.resume and backup.folder is not None else None
    if state is not None:
        progress.select_phase(state, backup)
        if scorer is not None:
            scorer.restore(state.metadata["scores"], state.best_weights)
    all_reduce_any = make_all_reduce_any(strategy)

    def get_state() -> TrainingState:
        metadata = progress.state() if scorer is None else {**progress.state(), "scores": scorer.state()}
        best_weights = {} if scorer is None else scorer.best_weights
        return TrainingState(backups.num_steps, read_variables(model), metadata, best_weights)

    if not is_chief(strategy):
        backup = dataclasses.replace(backup, folder=None)
    with (
        catch_sigterm() as sigterm_arrived,
        BackupCallback(backup, get_state, lambda: all_reduce_any(sigterm_arrived())) as backups,
    ):
        all_callbacks = [FiniteLoss(), *([] if scorer is None else [scorer]), log, *callbacks, backups]
        for index, phase in enumerate(phases[progress.phase :], progress.phase):
            log.tokens_per_step = phase.tokens_per_step
            # new functions, because those traced for another phase would be retraced with unknown shapes
            model.make_train_function(force=True)
            model.make_test_function(force=True)
            held_out = phase.held_out()
            if state is None:
                progress.start_phase(index, backups.num_steps, phase.clock)
                if held_out is not None and not backups.num_steps:
                    model.evaluate(held_out[0], steps=held_out[1], callbacks=[log, *callbacks], verbose=0)
            else:
                model.build_step(phase.train(0).element_spec)
                restore_variables(model, state.arrays)
                progress.resume_phase(state, phase.clock, phase.steps_per_epoch, all_callbacks)
                state = None
            # callbacks see epochs that are numbered over all phases, also in a training that resumes
            first_epoch = sum(earlier.num_epochs for earlier in phases[:index])
            num_steps = _UNLIMITED_STEPS if phase.num_steps is None else phase.num_steps
            stop = phase.clock or StopAfter(num_steps - progress.done)
            for first_step, steps_per_epoch, num_epochs in _plan_fits(progress.done, num_steps, phase.steps_per_epoch):
                initial_epoch = first_epoch + first_step // phase.steps_per_epoch
                model.fit(
                    phase.train(first_step),
                    epochs=initial_epoch + num_epochs,
                    initial_epoch=initial_epoch,
                    steps_per_epoch=steps_per_epoch,
                    validation_data=None if held_out is None else held_out[0],
                    validation_steps=None if held_out is None else held_out[1],
                    callbacks=[stop, *all_callbacks],
                    shuffle=False,
                    verbose=0,
                )
                if model.stop_training:
                    break
    log.finish()
    return log


def _plan_fits(done: int, num_steps: int, steps_per_epoch: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first step, steps per epoch, epochs) of each call of `fit`: two if `done` is within an epoch."""
    missing = max(0, num_steps - done)  # 0 also if a resumed training was made shorter than what is done
    if rest := min(-done % steps_per_epoch, missing):
        yield done, rest, 1
    if left := missing - rest:
        yield done + rest, min(steps_per_epoch, left), -(-left // steps_per_epoch)
