"""What watches a training: when to stop, what to write down."""

import math
import os
import socket
import time
from collections.abc import Callable, Mapping

import keras

from bert_keras.errors import InputError
from bert_keras.files import format_json

WINDOW_STEPS = 50  # that one line of the log is the mean of
HELD_OUT = "held_out_"
NOT_METRICS = ("step", "seconds", "num_steps", "tokens", "learning_rate")
_NOT_DRAWN = ("step", "num_steps")


class StepCounter(keras.callbacks.Callback):
    """Counts steps over all epochs and all `fit`s, also where a call of Keras's runs several."""

    def __init__(self):
        super().__init__()
        self._num_steps = 0
        self._last_of_epoch = -1

    @property
    def num_steps(self) -> int:
        """The steps done so far."""
        return self._num_steps

    def start_at(self, num_steps: int) -> None:
        """Says that so many steps were done before the first `fit`: the training goes on."""
        self._num_steps = num_steps

    def on_epoch_begin(self, epoch, logs=None):
        self._last_of_epoch = -1

    def count(self, batch: int) -> int:
        """Returns the steps done, `batch` being the last one's place in its epoch."""
        self._num_steps += batch - self._last_of_epoch
        self._last_of_epoch = batch
        return self._num_steps


class FiniteLoss(StepCounter):
    """Stops a training whose loss is infinite or not a number, and says at which step.

    Raises:
        InputError: in `fit`, after the step.
    """

    def on_train_batch_end(self, batch, logs=None):
        done, loss = self.count(batch), (logs or {}).get("loss", 0.0)
        if not math.isfinite(loss):
            raise InputError(
                f"the loss became {loss} at step {done:,}: no model was written; train again with a lower learning "
                "rate, a longer warm-up or gradient clipping"
            )


class StopAfter(StepCounter):
    """Ends a training after so many steps, also within an epoch, so that epochs can be the time between evaluations.

    Args:
        num_steps: steps of this `fit`.
    """

    def __init__(self, num_steps: int):
        super().__init__()
        self._wanted = num_steps

    def on_train_batch_end(self, batch, logs=None):
        if self.count(batch) >= self._wanted:
            self.model.stop_training = True


class ScoreListener(StepCounter):
    """Base of callbacks that are told each evaluation on held-out data: `on_scores(scores)`.

    It comes from `model.evaluate`, from the validation within `fit`, or from a callback before this one, such as
    `EpochScores`, that puts `val_...` into the logs of an epoch.
    """

    _told = False

    def on_scores(self, scores: dict[str, float]) -> None:
        """Take the scores of the model after `num_steps` steps, by their names in the log."""
        raise NotImplementedError

    def on_test_end(self, logs=None):
        self.on_scores(_named_for_people(logs))
        self._told = True

    def on_epoch_end(self, epoch, logs=None):
        scores = {name.removeprefix("val_"): one for name, one in (logs or {}).items() if name.startswith("val_")}
        if scores and not self._told:
            self.on_scores(_named_for_people(scores))
        self._told = False


class TrainingLog(ScoreListener):
    """Write down how a training goes: a line for each window of 50 steps, with the means over just these steps.

    Epochs, phases, evaluations and resumed trainings do not cut a window, so every line is a mean over equally many
    steps. Only `finish` writes a shorter one, of the steps that are left; `num_steps` of a line says how many they are.
    Evaluations have lines of their own, with names that begin with `held_out_`.

    Callbacks after this one find the means over the window so far in their `logs`, and under "tokens" the real tokens
    so far; at the end of an epoch the means over the epoch, as Keras has them.

    Args:
        tokens_per_step: real tokens per step, on average; None: not known, and left out.
        listeners: called with each line.
        window_steps: steps per line.

    Attributes:
        lines: dicts with `step`, `seconds` (since the training began) and, in lines of training, `num_steps`, `tokens`
            (real ones, so far), `learning_rate`, the losses and the accuracies.
    """

    def __init__(
        self,
        tokens_per_step: float | None,
        listeners: tuple[Callable[[dict], None], ...] = (),
        window_steps: int = WINDOW_STEPS,
    ):
        super().__init__()
        self.lines: list[dict] = []
        self._tokens_a_step = tokens_per_step
        self._listeners = listeners
        self._window_steps = window_steps
        self._tokens = 0.0
        self._begin: float | None = None
        self._sums: dict[str, float] = {}  # over the steps of the window so far
        self._num_summed = 0
        self._epoch_sums: dict[str, float] = {}
        self._num_in_epoch = 0
        self._continues_epoch = False

    def continue_epoch(self) -> None:
        """Say that the next epoch is the rest of the one in which the restored training ended."""
        self._continues_epoch = True

    def change_rows(self, tokens_per_step: float | None) -> None:
        """Says that from now on a step reads another number of real tokens: a new phase."""
        self._tokens_a_step = tokens_per_step

    def on_train_begin(self, logs=None):
        self._begin = self._begin or time.monotonic()

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        if not self._continues_epoch:
            self._epoch_sums, self._num_in_epoch = {}, 0
        self._continues_epoch = False

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None and self._num_in_epoch:  # Keras's own are those of the last step
            logs.update(_means(self._epoch_sums, self._num_in_epoch))
        super().on_epoch_end(epoch, logs)

    def on_train_batch_begin(self, batch, logs=None):
        self.model.reset_metrics()  # Keras's means run over an epoch; 0.4 ms

    def on_train_batch_end(self, batch, logs=None):
        before = self._num_steps
        num_steps = self.count(batch) - before
        for name, value in (logs or {}).items():
            for sums in (self._sums, self._epoch_sums):
                sums[name] = sums.get(name, 0.0) + num_steps * float(value)
        self._num_summed += num_steps
        self._num_in_epoch += num_steps
        self._tokens += num_steps * (self._tokens_a_step or 0.0)
        if logs is not None:
            logs.update(_means(self._sums, self._num_summed))
            if self._tokens_a_step is not None:
                logs["tokens"] = round(self._tokens)
        if self._num_summed >= self._window_steps:
            self.finish()

    def on_scores(self, scores):
        self._write({HELD_OUT + name: value for name, value in scores.items()})

    def finish(self) -> None:
        """Write the line of the steps since the last one, if there are any."""
        if self._num_summed:
            tokens = {} if self._tokens_a_step is None else {"tokens": round(self._tokens)}
            rate = float(self.model.optimizer.learning_rate)
            means = _named_for_people(_means(self._sums, self._num_summed))
            self._write({"num_steps": self._num_summed, **tokens, "learning_rate": rate, **means})
        self._sums, self._num_summed = {}, 0

    def _write(self, values: dict) -> None:
        self._begin = self._begin or time.monotonic()
        line = {"step": self._num_steps, "seconds": round(time.monotonic() - self._begin, 3), **values}
        self.lines.append(line)
        for listener in self._listeners:
            listener(line)

    def metrics(self) -> dict[str, float]:
        """Return the means over the last steps of training, a whole window or more, and the last held-out scores."""
        held_out, training = [], []
        for line in self.lines:
            (held_out if any(name.startswith(HELD_OUT) for name in line) else training).append(line)
        last = training[-2:]
        weights = [line.get("num_steps", self._window_steps) for line in last]  # version 0.1 wrote none
        if weights and weights[-1] >= self._window_steps:
            last, weights = last[-1:], weights[-1:]
        names = [name for name in (last[-1] if last else {}) if name not in NOT_METRICS]
        means = {
            name: sum(line[name] * weight for line, weight in zip(last, weights, strict=True)) / sum(weights)
            for name in names
        }
        scores = {name: value for line in held_out for name, value in line.items() if name not in NOT_METRICS}
        return {**means, **scores}

    def state(self) -> dict:
        """Returns what `restore` needs, as JSON can hold it."""
        return {
            "lines": list(self.lines),  # a copy: it is written while the training goes on
            "tokens": self._tokens,
            "sums": dict(self._sums),
            "num_summed": self._num_summed,
            "epoch_sums": dict(self._epoch_sums),
            "num_in_epoch": self._num_in_epoch,
            "seconds": 0.0 if self._begin is None else time.monotonic() - self._begin,
        }

    def restore(self, state: dict) -> None:
        """Goes on where another log was."""
        self.lines = list(state["lines"])
        self._tokens = state["tokens"]
        self._sums = dict(state.get("sums", {}))  # version 0.1 wrote none
        self._num_summed = state.get("num_summed", 0)
        self._epoch_sums = dict(state.get("epoch_sums", {}))
        self._num_in_epoch = state.get("num_in_epoch", 0)
        self._begin = time.monotonic() - state["seconds"]

    def to_json_lines(self) -> str:
        """Returns the lines as JSON, one a line."""
        return "".join(format_json(line) + "\n" for line in self.lines)


def window_steps(num_steps: int | None) -> int:
    """Return the steps per line of a training's log: 50, or a tenth of a training that is shorter than 500 steps.

    `num_steps`: of the whole training; None: nobody knows.
    """
    return WINDOW_STEPS if num_steps is None else max(1, min(WINDOW_STEPS, num_steps // 10))


class TensorBoardScalars:
    """A listener of `TrainingLog` that writes its lines as scalars for TensorBoard, in optimizer steps.

    Writing needs no tensorboard package; looking at them does. `tf.summary.scalar` needs it also to write.

    Args:
        folder: where the event file goes; made if it is missing.
    """

    def __init__(self, folder: str | os.PathLike):
        import tensorflow as tf

        self._tf = tf
        tf.io.gfile.makedirs(os.fspath(folder))
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"  # as TensorBoard finds it
        self._writer = tf.io.TFRecordWriter(os.path.join(os.fspath(folder), name))
        self._write(file_version="brain.Event:2")

    def __call__(self, line: dict) -> None:
        value_of = self._tf.compat.v1.Summary.Value
        drawn = [(name, value) for name, value in line.items() if name not in _NOT_DRAWN]
        values = [value_of(tag=name, simple_value=float(value)) for name, value in drawn]
        self._write(step=line["step"], summary=self._tf.compat.v1.Summary(value=values))

    def _write(self, **event) -> None:
        self._writer.write(self._tf.compat.v1.Event(wall_time=time.time(), **event).SerializeToString())
        self._writer.flush()


def _means(sums: Mapping[str, float], num_steps: int) -> dict[str, float]:
    return {name: total / num_steps for name, total in sums.items()}


def _named_for_people(values: dict | None) -> dict[str, float]:
    return {display_name(name): float(value) for name, value in (values or {}).items()}


def display_name(name: str) -> str:
    """Returns Keras's name of a metric as people say it: "mlm_logits_accuracy" becomes "mlm_accuracy"."""
    return name.replace("_logits", "")
