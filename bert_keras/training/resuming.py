"""The state of a training, taken and put back: weights, optimizer, metrics, log, place in the data."""

import contextlib
import hashlib
import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np

from bert_keras.errors import InputError, InterruptedTrainingError
from bert_keras.training.backups import BackupFolder, BackupWriter, TrainingState
from bert_keras.training.callbacks import StepCounter, TrainingLog
from bert_keras.training.optimizers.schedules import TimedLearningRate

# settings that change only how fast a training goes, or what is told about it
_MAY_CHANGE = (
    *("recipe", "source", "speed.", "evaluation.", "batches.accumulation_steps"),
    *("accumulation_steps", "gradient_checkpointing"),  # of a fine-tuning
)


class Place:
    """Where in its phases a training is: what a backup says beside the variables.

    Args:
        settings: all settings of the training, in nested tables of plain values.
        data: what tells the data that it reads from others, in plain values, by what people call it; a hash of each
            is kept.
        log: the course of the training.

    Attributes:
        phase: the phase that runs, from 0.
        done: steps of this phase that were done when its `fit` began.
        clock: what ends the phase by the time; None where steps do.
    """

    def __init__(self, settings: Mapping[str, object], data: Mapping[str, object], log: TrainingLog):
        self.phase = 0
        self.done = 0
        self.clock: TimedLearningRate | None = None
        self._steps_before = 0
        self._settings = json.loads(json.dumps(settings))  # as a backup gives them back: tuples have become lists
        self._data = {name: _hash(json.dumps(one, sort_keys=True)) for name, one in data.items()}
        self._log = log

    def begin(self, phase: int, num_steps: int, clock: TimedLearningRate | None) -> None:
        """Begins a phase after so many steps."""
        self.phase, self.done, self.clock, self._steps_before = phase, 0, clock, num_steps

    def move_to(self, state: TrainingState, *, allow_changes: bool) -> None:
        """Takes the phase of a backup.

        Raises:
            InputError: it is of another run or of other data, and changes are not allowed.
        """
        changes = [] if allow_changes else self._changes(state.facts)
        if changes:
            raise InputError(
                f"the backup of step {state.step:,} is of another run ({'; '.join(changes)}): go on with the settings "
                "it was begun with, say --allow-changes if you mean it, or begin anew with --overwrite"
            )
        self.phase = state.facts["phase"]

    def go_on(self, state: TrainingState, clock: TimedLearningRate | None, watchers: Sequence) -> None:
        """Goes on in the phase of a backup: steps are counted, and time, from what they were."""
        self._steps_before, self.clock = state.facts["steps_before_phase"], clock
        self.done = state.step - self._steps_before
        if clock is not None:
            clock.seconds_done = state.facts["seconds"]
        self._log.restore(state.facts["log"])
        for watcher in watchers:
            if isinstance(watcher, StepCounter):
                watcher.start_at(state.step)

    def facts(self) -> dict[str, object]:
        """Returns what a backup says."""
        return {
            "phase": self.phase,
            "steps_before_phase": self._steps_before,
            "seconds": None if self.clock is None else self.clock.elapsed_seconds,
            "log": self._log.state(),
            "settings": self._settings,
            "data": list(self._data.values()),
        }

    def _changes(self, facts: Mapping) -> list[str]:
        before, now = _flat(facts["settings"]), _flat(self._settings)
        changes = [
            f"{key} was {before.get(key)} and is {now.get(key)}"
            for key in sorted(before.keys() | now.keys())
            if before.get(key) != now.get(key) and not key.startswith(_MAY_CHANGE)
        ]
        return changes + self._changed_data(facts["data"])

    def _changed_data(self, hashes: Sequence[str]) -> list[str]:
        if len(hashes) != len(self._data):
            return ["it reads other data"]
        pairs = zip(self._data.items(), hashes, strict=True)
        return [f"{name} changed" for (name, ours), theirs in pairs if ours != theirs]


def read_variables(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns a copy of every variable of a compiled model, by kind and place."""
    return {
        _name(kind, place): np.array(variable)
        for kind, variables in _variables(model).items()
        for place, variable in enumerate(variables)
    }


def restore_variables(model: keras.Model, arrays: Mapping[str, np.ndarray]) -> None:
    """Puts back what `read_variables` took from a model of the same kind.

    Raises:
        InputError: they are those of another model; nothing was changed.
    """
    named = {
        _name(kind, place): variable
        for kind, variables in _variables(model).items()
        for place, variable in enumerate(variables)
    }
    ours = {name: tuple(variable.shape) for name, variable in named.items()}
    theirs = {name: array.shape for name, array in arrays.items()}
    if ours != theirs:
        differing = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        raise InputError(
            f"the backup holds the state of another model: {len(differing)} variables differ, the first is "
            f"{differing[0]} ({theirs.get(differing[0])} there, {ours.get(differing[0])} here); go on with the "
            "settings it was begun with, or begin anew"
        )
    for name, variable in named.items():
        variable.assign(arrays[name])


def digest_weights(layer: keras.Layer) -> str:
    """Return the SHA-256 of the shapes and values of a layer's weights."""
    digest = hashlib.sha256()
    for weight in layer.weights:
        digest.update(repr(tuple(weight.shape)).encode())
        digest.update(np.ascontiguousarray(weight))
    return digest.hexdigest()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _variables(model: keras.Model) -> dict[str, list]:
    return {
        "model": model.variables,
        "optimizer": model.optimizer.variables,
        "metrics": [variable for metric in model.metrics for variable in metric.variables],
    }


def _name(kind: str, place: int) -> str:
    return f"{kind}.{place:05}"


def _flat(values: Mapping, path: str = "") -> dict[str, object]:
    """Returns the values of nested tables by dotted keys."""
    flat = {}
    for name, value in values.items():
        flat |= _flat(value, f"{path}{name}.") if isinstance(value, Mapping) else {path + name: value}
    return flat


class Backups(StepCounter):
    """Takes backups of a training, every so many steps and when it is told to stop.

    It acts before a step, when everything that belongs to the step before has been done, its evaluation too. Use it in
    a `with` block around `fit`: at its end what was begun is written.

    Args:
        folder: where they go; None: this process writes none (a worker that is not the chief).
        every_steps: steps between two backups; 0: only when told to stop.
        state: called for what a backup holds.
        should_stop: called before each step; the same on all workers.

    Raises:
        InterruptedTrainingError: in `fit`, when told to stop; the state is written.
    """

    def __init__(
        self,
        folder: BackupFolder | None,
        every_steps: int,
        state: Callable[[], TrainingState],
        should_stop: Callable[[], bool],
    ):
        super().__init__()
        self._folder = folder
        self._writer = None if folder is None else BackupWriter(folder)
        self._every_steps = every_steps
        self._state = state
        self._should_stop = should_stop
        self._written_at = 0

    def on_train_batch_begin(self, batch, logs=None):
        if self._should_stop():
            self._take()
            raise InterruptedTrainingError(self.num_steps, None if self._folder is None else self._folder.path)
        if self._every_steps and self.num_steps - self._written_at >= self._every_steps:
            self._take()

    def on_train_batch_end(self, batch, logs=None):
        self.count(batch)

    def start_at(self, num_steps: int) -> None:
        super().start_at(num_steps)
        self._written_at = num_steps

    def __enter__(self) -> "Backups":
        if self._folder is not None:
            self._folder.remove_unfinished()
        return self

    def __exit__(self, *_) -> None:
        if self._writer is not None:
            self._writer.finish()

    def _take(self) -> None:
        state = self._state()  # on all workers: some reads are joint
        self._written_at = self.num_steps
        if self._writer is not None:
            self._writer.begin(state)


@contextlib.contextmanager
def catch_sigterm() -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether SIGTERM has come; outside of it the signal does what it did before."""
    told = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield told.is_set  # only the main thread may ask for signals
        return
    before = signal.signal(signal.SIGTERM, lambda *_: told.set())
    try:
        yield told.is_set
    finally:
        signal.signal(signal.SIGTERM, before)
