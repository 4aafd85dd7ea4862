"""What watches a training: when to stop, what to write down."""

import math
import os
import socket
import time
from collections.abc import Callable

import keras

from bert_keras.errors import InputError
from bert_keras.files import json_text

_WINDOW_STEPS = 50  # what one line of the log averages over


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


class TrainingLog(StepCounter):
    """Writes down how a training goes: a line each 50 steps, with the means over just these steps.

    Keras's own means run from the beginning of an epoch, which in pretraining is the beginning of the training; so
    the metrics are begun anew with each line. Evaluations get a line too, their values named `held_out_...`.
    Callbacks that come after this one find the real tokens so far in their `logs`, as "tokens".

    Args:
        tokens_a_step: real tokens of a step, on the average; None: not known, and not told.
        listeners: called with each line.

    Attributes:
        lines: dicts with `step`, `seconds` (since the training began), `tokens` (real ones, so far), `learning_rate`
            and the losses and accuracies.
    """

    def __init__(
        self,
        tokens_a_step: float | None,
        listeners: tuple[Callable[[dict], None], ...] = (),
    ):
        super().__init__()
        self.lines: list[dict] = []
        self._tokens_a_step = tokens_a_step
        self._listeners = listeners
        self._tokens = 0.0
        self._written_at = 0
        self._begin: float | None = None
        self._pending: dict = {}

    def change_rows(self, tokens_a_step: float | None) -> None:
        """Says that from now on a step reads another number of real tokens: a new phase."""
        self._tokens_a_step = tokens_a_step

    def on_train_begin(self, logs=None):
        self._begin = self._begin or time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        before = self._num_steps
        self._tokens += (self._tokens_a_step or 0.0) * (self.count(batch) - before)
        self._pending = dict(logs or {})
        if logs is not None and self._tokens_a_step is not None:
            logs["tokens"] = round(self._tokens)  # for the callbacks behind this one
        if self._num_steps - self._written_at >= _WINDOW_STEPS:
            self._write_pending()
            self.model.reset_metrics()

    def on_epoch_end(self, epoch, logs=None):
        self._write_pending()
        if held_out := {name: value for name, value in (logs or {}).items() if name.startswith("val_")}:
            self._write({name.replace("val_", "held_out_", 1): value for name, value in held_out.items()})

    def _write_pending(self) -> None:
        if self._pending:
            rate = float(self.model.optimizer.learning_rate)
            tokens = {} if self._tokens_a_step is None else {"tokens": round(self._tokens)}
            self._write({**tokens, "learning_rate": rate, **self._pending})
        self._pending, self._written_at = {}, self._num_steps

    def _write(self, values: dict) -> None:
        values = {shown_name(name): float(value) if name != "tokens" else value for name, value in values.items()}
        seconds = round(time.monotonic() - self._begin, 3)
        line = {"step": self._num_steps, "seconds": seconds, **values}
        self.lines.append(line)
        for listener in self._listeners:
            listener(line)

    def metrics(self) -> dict[str, float]:
        """Returns the last means of training and, with `held_out_` before their names, of evaluation."""
        names = ("step", "seconds", "tokens", "learning_rate")
        values = {name: value for line in self.lines for name, value in line.items() if name not in names}
        return values

    def state(self) -> dict:
        """Returns what `restore` needs, as JSON can hold it."""
        return {
            "lines": list(self.lines),  # a copy: it is written while the training goes on
            "tokens": self._tokens,
            "written_at": self._written_at,
            "pending": {name: float(value) for name, value in self._pending.items()},
            "seconds": 0.0 if self._begin is None else time.monotonic() - self._begin,
        }

    def restore(self, state: dict) -> None:
        """Goes on where another log was."""
        self.lines = list(state["lines"])
        self._tokens = state["tokens"]
        self._written_at = state["written_at"]
        self._pending = dict(state["pending"])
        self._begin = time.monotonic() - state["seconds"]

    def to_json_lines(self) -> str:
        """Returns the lines as JSON, one a line."""
        return "".join(json_text(line) + "\n" for line in self.lines)


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
        values = [value_of(tag=name, simple_value=float(value)) for name, value in line.items() if name != "step"]
        self._write(step=line["step"], summary=self._tf.compat.v1.Summary(value=values))

    def _write(self, **event) -> None:
        self._writer.write(self._tf.compat.v1.Event(wall_time=time.time(), **event).SerializeToString())
        self._writer.flush()


def shown_name(name: str) -> str:
    """Returns Keras's name of a metric as people say it: "mlm_logits_accuracy" becomes "mlm_accuracy"."""
    return name.replace("_logits", "")
