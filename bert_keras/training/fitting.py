"""`model.fit` in phases, on any strategy, so that what is killed or told to stop can go on to the same end."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from bert_keras.training.backups import BackupFolder, TrainingState
from bert_keras.training.callbacks import FiniteLoss, StopAfter, TrainingLog, window_steps
from bert_keras.training.epoch_scores import EpochScores
from bert_keras.training.optimizers.schedules import TimedLearningRate
from bert_keras.training.resuming import Backups, Place, catch_sigterm, read_variables, restore_variables
from bert_keras.training.strategies import is_chief, make_all_reduce_any

_WITHOUT_END = 10**9  # steps, where the clock says when to stop


@dataclasses.dataclass(frozen=True)
class Phase:
    """A stretch of a training on one kind of batches.

    Attributes:
        train: makes the batches without end from a given one on, counted from 0; as a strategy takes them.
        held_out: makes the batches to evaluate on, and says how many there are; None where there are none.
        num_steps: optimizer steps; None: until the clock stops it.
        clock: stops it, where `num_steps` is None.
        evaluate_every: steps between evaluations; 0: before the first step and at the end only.
        tokens_per_step: real tokens of a batch, on the average; None: not known.
    """

    train: Callable[[int], object]
    held_out: Callable[[], tuple[object, int] | None]
    num_steps: int | None
    clock: TimedLearningRate | None = None
    evaluate_every: int = 0
    tokens_per_step: float | None = None


@dataclasses.dataclass(frozen=True)
class BackupOptions:
    """What is kept of a training in case it ends early.

    Attributes:
        backups: where; None: nothing is kept.
        every_steps: steps between two backups; 0: only when told to stop.
        resume: go on from the newest backup, if there is one.
        allow_changes: go on although settings or data are not those that it was begun with.
    """

    folder: BackupFolder | None = None
    every_steps: int = 0
    resume: bool = False
    allow_changes: bool = False


NO_BACKUP = BackupOptions()


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
    """Trains a compiled model.

    Args:
        model: made and compiled in the strategy's scope.
        phases: one after the other.
        settings: what a backup must agree with to be resumed, in nested tables of plain values.
        data: what tells the data that are read from others, in plain values, by what people call it; for the same end.
        strategy: any of `tf.distribute`, also its default.
        backup: what is kept, and whether to go on from it.
        callbacks: handed to `model.fit`.
        listeners: called with each line of the log.
        scorer: scores the model at the end of each epoch, and may stop the training.

    Returns:
        The log of the whole training, with what was done before it was resumed.

    Raises:
        InputError: the backup is of another training, or the loss became infinite or not a number.
        InterruptedTrainingError: SIGTERM came, and the state was written.
    """
    log = TrainingLog(None, tuple(listeners), window_steps(_total_steps(phases)))
    place = Place(settings, data, log)
    state = backup.folder.newest() if backup.resume and backup.folder is not None else None
    if state is not None:
        place.move_to(state, allow_changes=backup.allow_changes)
        if scorer is not None:
            scorer.restore(state.facts["scores"], state.best_weights)
    all_reduce_any = make_all_reduce_any(strategy)
    own_backups = backup.folder if is_chief(strategy) else None

    def now() -> TrainingState:
        facts = place.facts() if scorer is None else {**place.facts(), "scores": scorer.facts()}
        return TrainingState(keeper.num_steps, read_variables(model), facts, {} if scorer is None else scorer.arrays())

    with (
        catch_sigterm() as told,
        Backups(own_backups, backup.every_steps, now, lambda: all_reduce_any(told())) as keeper,
    ):
        watchers = [FiniteLoss(), *([] if scorer is None else [scorer]), log, *callbacks, keeper]
        for number, phase in enumerate(phases[place.phase :], place.phase):
            log.change_rows(phase.tokens_per_step)
            # anew: what was traced for the shapes of another phase would be traced again with unknown ones
            model.make_train_function(force=True)
            model.make_test_function(force=True)
            if state is None:
                place.begin(number, keeper.num_steps, phase.clock)
                if not keeper.num_steps:
                    _evaluate(model, phase, [log, *callbacks])
            else:
                model.build_step(phase.train(0).element_spec)
                restore_variables(model, state.arrays)
                place.go_on(state, phase.clock, watchers)
                if place.done % _steps_per_epoch(phase):
                    log.continue_epoch()
            _fit(model, phase, place.done, watchers)
            state = None
    log.finish()
    return log


def _total_steps(phases: Sequence[Phase]) -> int | None:
    """Return the steps of all phases together, None where the clock ends one."""
    steps = [phase.num_steps for phase in phases]
    return None if None in steps else sum(steps)


def _evaluate(model: keras.Model, phase: Phase, callbacks: list[keras.callbacks.Callback]) -> None:
    """Score a model on the held-out batches of a phase, if there are any, as the evaluations within `fit` do."""
    held_out, num_held_out = phase.held_out() or (None, None)
    if held_out is not None:
        model.evaluate(held_out, steps=num_held_out, callbacks=callbacks, verbose=0)


def _fit(model: keras.Model, phase: Phase, done: int, callbacks: list[keras.callbacks.Callback]) -> None:
    """Trains what is left of a phase, in epochs from one evaluation to the next."""
    num_steps = _WITHOUT_END if phase.num_steps is None else phase.num_steps
    stop = phase.clock or StopAfter(num_steps - done)
    held_out, num_held_out = phase.held_out() or (None, None)
    for begin, steps_per_epoch, num_epochs in _fits(done, num_steps, _steps_per_epoch(phase)):
        model.fit(
            phase.train(begin),
            epochs=num_epochs,
            steps_per_epoch=steps_per_epoch,
            validation_data=held_out,
            validation_steps=num_held_out,
            callbacks=[stop, *callbacks],
            shuffle=False,
            verbose=0,
        )
        if model.stop_training:
            return


def _steps_per_epoch(phase: Phase) -> int:
    """Return the steps from one evaluation to the next."""
    return phase.evaluate_every or phase.num_steps or _WITHOUT_END


def _fits(done: int, num_steps: int, every: int) -> Iterator[tuple[int, int, int]]:
    """Yields (first step, steps an epoch, epochs) of each call of `fit`: two where an epoch was begun before."""
    missing = max(0, num_steps - done)  # 0 also where a resumed training was told to be shorter than it was
    if rest := min(-done % every, missing):
        yield done, rest, 1
    if left := missing - rest:
        yield done + rest, min(every, left), -(-left // every)
