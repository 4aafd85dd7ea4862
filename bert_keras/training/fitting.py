"""`fit_phases`: `model.fit` in phases, on any strategy; an interrupted training resumes from a backup."""

import contextlib
import dataclasses
import hashlib
import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError, InterruptedTrainingError
from bert_keras.training.backups import BackupOptions, TrainingState
from bert_keras.training.callbacks import (
    EpochScores,
    FiniteLoss,
    StepCounter,
    StopAfter,
    TrainingLog,
    choose_window_steps,
)
from bert_keras.training.config.settings import flatten
from bert_keras.training.config.sources import upgrade_settings
from bert_keras.training.optimizers.schedules import TimedLearningRate
from bert_keras.training.strategies import is_chief, make_all_reduce_any

HeldOut = tuple[object, int]  # batches to evaluate on, and how many of them

_UNLIMITED_STEPS = 10**9  # for a phase that ends by time


# prefixes of settings that change only the speed of a training or its reports
_MAY_CHANGE = (
    *("recipe", "source", "speed.", "evaluation.", "batches.accumulation_steps"),
    *("accumulation_steps", "gradient_checkpointing"),  # of a fine-tuning
)
# settings that backups of version 0.2 lack, with the value that they had
_NEW_SETTINGS = {"model.output_bias": "zeros", "model.pretraining_dropout": True, "head_rate_factor": 1.0}


class TrainingProgress:
    """The position of a training in its phases: what a backup stores in addition to the variables.

    Args:
        settings: all settings of the training, in nested tables of plain values.
        data: plain values that identify the data, keyed by a name for messages; only a hash of each is stored.
        log: the log of the training.

    Attributes:
        phase: index of the current phase.
        done: steps of this phase before its `fit` began.
        clock: the callback that ends the phase by time; None = it ends after a number of steps.
    """

    def __init__(self, settings: Mapping[str, object], data: Mapping[str, object], log: TrainingLog):
        self.phase = 0
        self.done = 0
        self.clock: TimedLearningRate | None = None
        self._steps_before = 0
        self._settings = json.loads(json.dumps(settings))  # as a backup returns them: tuples become lists
        self._data = {name: digest_text(json.dumps(one, sort_keys=True)) for name, one in data.items()}
        self._log = log

    def start_phase(self, phase: int, num_steps: int, clock: TimedLearningRate | None) -> None:
        """Start a phase after `num_steps` steps of the training."""
        self.phase, self.done, self.clock, self._steps_before = phase, 0, clock, num_steps

    def select_phase(self, state: TrainingState, backup: BackupOptions) -> None:
        """Set the current phase to that of a backup.

        Raises:
            InputError: the backup belongs to other settings or other data, and `backup.allow_changes` is False.
        """
        changes = [] if backup.allow_changes else self._list_changes(state.metadata)
        if changes:
            raise InputError(
                f"the backup of step {state.step:,} is of another run ({'; '.join(changes)}): resume with the settings "
                f"that it was started with, accept the changes with {backup.spell('allow_changes', True)}, or start "
                f"over with {backup.spell('overwrite', True)}"
            )
        self.phase = state.metadata["phase"]

    def resume_phase(
        self,
        state: TrainingState,
        clock: TimedLearningRate | None,
        steps_per_epoch: int,
        callbacks: Sequence[keras.callbacks.Callback],
    ) -> None:
        """Resume the phase of a backup: restore the log, the clock and the step counters of the callbacks."""
        self._steps_before, self.clock = state.metadata["steps_before_phase"], clock
        self.done = state.step - self._steps_before
        if clock is not None:
            clock.seconds_done = state.metadata["seconds"]
        self._log.restore(state.metadata["log"])
        if self.done % steps_per_epoch:
            self._log.continue_epoch()
        for callback in callbacks:
            if isinstance(callback, StepCounter):
                callback.start_at(state.step)

    def state(self) -> dict[str, object]:
        """Return the metadata of a backup."""
        return {
            "phase": self.phase,
            "steps_before_phase": self._steps_before,
            "seconds": None if self.clock is None else self.clock.elapsed_seconds,
            "log": self._log.state(),
            "settings": self._settings,
            "data": list(self._data.values()),
        }

    def _list_changes(self, metadata: Mapping) -> list[str]:
        before, now = flatten(upgrade_settings(metadata["settings"])), flatten(self._settings)
        before = {key: value for key, value in _NEW_SETTINGS.items() if key in now} | before
        # the other fields of the config determine the architecture, which version 0.2 did not store
        before = {key: value for key, value in now.items() if key.endswith("model_type")} | before
        changes = [
            f"{key} was {before.get(key)} and is {now.get(key)}"
            for key in sorted(before.keys() | now.keys())
            if before.get(key) != now.get(key) and not key.startswith(_MAY_CHANGE)
        ]
        hashes = metadata["data"]
        if len(hashes) != len(self._data):
            return [*changes, "it reads other data"]
        pairs = zip(self._data.items(), hashes, strict=True)
        return changes + [f"{name} changed" for (name, ours), theirs in pairs if ours != theirs]


def read_variables(model: keras.Model) -> dict[str, np.ndarray]:
    """Return a copy of every variable of a compiled model, keyed by kind and index."""
    return {name: np.array(variable) for name, variable in _key_variables(model).items()}


def restore_variables(model: keras.Model, arrays: Mapping[str, np.ndarray]) -> None:
    """Assign the arrays of `read_variables` to a compiled model.

    Raises:
        InputError: they belong to a different model; nothing was changed.
    """
    variables = _key_variables(model)
    ours = {name: tuple(variable.shape) for name, variable in variables.items()}
    theirs = {name: array.shape for name, array in arrays.items()}
    if ours != theirs:
        different = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        raise InputError(
            f"the backup is of another model: {len(different)} variables differ, the first is {different[0]} "
            f"({theirs.get(different[0])} in the backup, {ours.get(different[0])} here); resume with the settings that "
            "it was started with, or start over"
        )
    for name, variable in variables.items():
        variable.assign(arrays[name])


def digest_weights(layer: keras.Layer) -> str:
    """Return the SHA-256 digest of the shapes and values of a layer's weights."""
    digest = hashlib.sha256()
    for weight in layer.weights:
        digest.update(repr(tuple(weight.shape)).encode())
        digest.update(np.ascontiguousarray(weight))
    return digest.hexdigest()


def digest_text(text: str) -> str:
    """Return the SHA-256 digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _key_variables(model: keras.Model) -> dict[str, keras.Variable]:
    kinds = {
        "model": model.variables,
        "optimizer": model.optimizer.variables,
        "metrics": [variable for metric in model.metrics for variable in metric.variables],
    }
    return {f"{kind}.{index:05}": one for kind, variables in kinds.items() for index, one in enumerate(variables)}


class BackupCallback(StepCounter):
    """Write backups of a training at regular steps and when it should stop.

    It acts before a step, when everything of the previous step is done, including its evaluation. Use it in a `with`
    block around `fit`: the end of the block waits for the last backup.

    Args:
        options: where and how often to write; no folder = this process writes no backups (a worker that is not the
            chief); 0 steps = only when `should_stop` returns True.
        get_state: function that returns the state to write.
        should_stop: function that is called before each step and returns the same on all workers.

    Raises:
        InterruptedTrainingError: in `fit`, when `should_stop` returned True and the state was written.
    """

    def __init__(self, options: BackupOptions, get_state: Callable[[], TrainingState], should_stop: Callable[[], bool]):
        super().__init__()
        self._options = options
        self._get_state = get_state
        self._should_stop = should_stop
        self._last_backup = 0

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Write a backup if one is due, and stop the training if it should stop."""
        if self._should_stop():
            self._write()
            folder, resume = self._options.folder, self._options.spell("resume", True)
            raise InterruptedTrainingError(self.num_steps, None if folder is None else folder.path, resume)
        every_steps = self._options.every_steps
        if every_steps and self.num_steps - self._last_backup >= every_steps:
            self._write()

    def start_at(self, num_steps: int) -> None:
        """Set the steps done, and count the next backup from there."""
        super().start_at(num_steps)
        self._last_backup = num_steps

    def __enter__(self) -> "BackupCallback":
        if self._options.folder is not None:
            self._options.folder.remove(".step-*")
        return self

    def __exit__(self, *_: object) -> None:
        if self._options.folder is not None:
            self._options.folder.finish_writing()

    def _write(self) -> None:
        state = self._get_state()  # on all workers, because reading some variables is a collective operation
        self._last_backup = self.num_steps
        if self._options.folder is not None:
            self._options.folder.start_writing(state)


@contextlib.contextmanager
def catch_sigterm() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGTERM has arrived; restore the previous handler at the end."""
    arrived = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield arrived.is_set  # only the main thread can handle signals
        return
    before = signal.signal(signal.SIGTERM, lambda *_: arrived.set())
    try:
        yield arrived.is_set
    finally:
        signal.signal(signal.SIGTERM, before)


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
