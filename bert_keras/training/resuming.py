"""Save and restore the state of a training: variables, log, position in the run and in the data."""

import contextlib
import hashlib
import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np

from bert_keras.errors import InputError, InterruptedTrainingError
from bert_keras.training.backups import BackupOptions, TrainingState
from bert_keras.training.callbacks import StepCounter, TrainingLog
from bert_keras.training.config.settings import flatten
from bert_keras.training.config.sources import upgrade_settings
from bert_keras.training.optimizers.schedules import TimedLearningRate

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
