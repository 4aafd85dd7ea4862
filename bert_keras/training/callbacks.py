"""What watches a training: when to stop, what to write down."""

import json
import math
import os
import time
from collections.abc import Callable

import keras

from bert_keras.errors import InputError

_WINDOW_STEPS = 50  # what one line of the log averages over


class BatchCounter(keras.callbacks.Callback):
    """Counts batches over all epochs and all `fit`s, also where a call of Keras's runs several."""

    def __init__(self):
        super().__init__()
        self._num_batches = 0
        self._last_of_epoch = -1

    def on_epoch_begin(self, epoch, logs=None):
        self._last_of_epoch = -1

    def count(self, batch: int) -> int:
        """Returns the batches done, `batch` being the last one's place in its epoch."""
        self._num_batches += batch - self._last_of_epoch
        self._last_of_epoch = batch
        return self._num_batches


class FiniteLoss(BatchCounter):
    """Stops a training whose loss is infinite or not a number, and says at which step.

    Args:
        batches_a_step: micro-batches an optimizer step.

    Raises:
        InputError: in `fit`, after the batch.
    """

    def __init__(self, batches_a_step: int = 1):
        super().__init__()
        self._batches_a_step = batches_a_step

    def on_train_batch_end(self, batch, logs=None):
        done, loss = self.count(batch), (logs or {}).get("loss", 0.0)
        if not math.isfinite(loss):
            raise InputError(
                f"the loss became {loss} at step {-(-done // self._batches_a_step):,}: nothing was saved; train again "
                "with a lower learning rate, a longer warm-up or gradient clipping"
            )


class StopAfter(BatchCounter):
    """Ends a training after so many batches, also within an epoch, so that epochs can be the time between evaluations.

    Args:
        num_batches: batches of this `fit`.
    """

    def __init__(self, num_batches: int):
        super().__init__()
        self._wanted = num_batches

    def on_train_batch_end(self, batch, logs=None):
        if self.count(batch) >= self._wanted:
            self.model.stop_training = True


class TrainingLog(BatchCounter):
    """Writes down how a training goes: a line each 50 optimizer steps, with the means over just these steps.

    Keras's own means run from the beginning of an epoch, which in pretraining is the beginning of the training; so
    the metrics are begun anew with each line. Evaluations get a line too, their values named `held_out_...`.
    Callbacks that come after this one find the real tokens so far in their `logs`, as "tokens".

    Args:
        tokens_a_batch: real tokens of a batch, on the average.
        batches_a_step: micro-batches an optimizer step.
        listeners: called with each line.

    Attributes:
        lines: dicts with `step`, `seconds` (since the training began), `tokens` (real ones, so far), `learning_rate`
            and the losses and accuracies.
    """

    def __init__(
        self,
        tokens_a_batch: float,
        batches_a_step: int = 1,
        listeners: tuple[Callable[[dict], None], ...] = (),
    ):
        super().__init__()
        self.lines: list[dict] = []
        self._tokens_a_batch = tokens_a_batch
        self._batches_a_step = batches_a_step
        self._listeners = listeners
        self._tokens = 0.0
        self._written_at = 0
        self._begin: float | None = None
        self._pending: dict = {}

    def change_rows(self, tokens_a_batch: float) -> None:
        """Says that from now on a batch holds another number of real tokens: a new phase."""
        self._tokens_a_batch = tokens_a_batch

    def on_train_begin(self, logs=None):
        self._begin = self._begin or time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        before = self._num_batches
        self._tokens += self._tokens_a_batch * (self.count(batch) - before)
        self._pending = dict(logs or {})
        if logs is not None:
            logs["tokens"] = round(self._tokens)  # for the callbacks behind this one
        if self._num_batches - self._written_at >= _WINDOW_STEPS * self._batches_a_step:
            self._write_pending()
            self.model.reset_metrics()

    def on_epoch_end(self, epoch, logs=None):
        self._write_pending()
        if held_out := {name: value for name, value in (logs or {}).items() if name.startswith("val_")}:
            self._write({name.replace("val_", "held_out_", 1): value for name, value in held_out.items()})

    def _write_pending(self) -> None:
        if self._pending:
            rate = float(self.model.optimizer.learning_rate)
            self._write({"tokens": round(self._tokens), "learning_rate": rate, **self._pending})
        self._pending, self._written_at = {}, self._num_batches

    def _write(self, values: dict) -> None:
        values = {shown_name(name): float(value) if name != "tokens" else value for name, value in values.items()}
        seconds = round(time.monotonic() - self._begin, 3)
        line = {"step": self._num_batches // self._batches_a_step, "seconds": seconds, **values}
        self.lines.append(line)
        for listener in self._listeners:
            listener(line)

    def metrics(self) -> dict[str, float]:
        """Returns the last means of training and, with `held_out_` before their names, of evaluation."""
        names = ("step", "seconds", "tokens", "learning_rate")
        values = {name: value for line in self.lines for name, value in line.items() if name not in names}
        return values

    def to_json_lines(self) -> str:
        """Returns the lines as JSON, one a line."""
        return "".join(json.dumps(line) + "\n" for line in self.lines)


class TensorBoardScalars:
    """A listener of `TrainingLog` that writes its lines as scalars for TensorBoard, in optimizer steps.

    Writing needs no tensorboard package; looking at them does.

    Args:
        folder: where the event file goes.
    """

    def __init__(self, folder: str | os.PathLike):
        import tensorflow as tf

        self._raw_ops = tf.raw_ops
        self._writer = tf.summary.create_file_writer(os.fspath(folder))

    def __call__(self, line: dict) -> None:
        for name, value in line.items():
            if name != "step":
                self._raw_ops.WriteScalarSummary(
                    writer=self._writer._resource, step=line["step"], tag=name, value=float(value)
                )
        self._writer.flush()


def shown_name(name: str) -> str:
    """Returns Keras's name of a metric as people say it: "mlm_logits_accuracy" becomes "mlm_accuracy"."""
    return name.replace("_logits", "")
