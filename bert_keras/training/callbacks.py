"""Callbacks that count steps, stop a training, or receive its scores on held-out data."""

import math

import keras

from bert_keras.errors import DivergedTrainingError


class StepCounter(keras.callbacks.Callback):
    """Count steps over all epochs and all calls of `fit`, also with `steps_per_execution` above 1.

    Attributes:
        num_steps: the steps done so far.
    """

    def __init__(self):
        super().__init__()
        self.num_steps = 0
        self._last_batch = -1

    def start_at(self, num_steps: int) -> None:
        """Set the number of steps that a resumed training has already done."""
        self.num_steps = num_steps

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Restart the batch index."""
        self._last_batch = -1

    def count(self, batch: int) -> int:
        """Count the steps up to `batch`, an index within the epoch, and return the total."""
        self.num_steps += batch - self._last_batch
        self._last_batch = batch
        return self.num_steps


class FiniteLoss(StepCounter):
    """Stop a training whose loss becomes infinite or NaN.

    Raises:
        DivergedTrainingError: in `fit`, after the step; the message has its number.
    """

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Check the loss of the step."""
        done, loss = self.count(batch), (logs or {}).get("loss", 0.0)
        if not math.isfinite(loss):
            raise DivergedTrainingError(
                f"the loss became {loss} at step {done:,}, and no model was written; expected a finite loss: train "
                "again with a lower learning rate, a longer warm-up or gradient clipping"
            )


class StopAfter(StepCounter):
    """Stop a training after a number of steps, also within an epoch, so that epochs can span two evaluations.

    Args:
        num_steps: steps of this call of `fit`.
    """

    def __init__(self, num_steps: int):
        super().__init__()
        self._limit = num_steps

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Stop at the last step."""
        if self.count(batch) >= self._limit:
            self.model.stop_training = True


class ScoreListener(StepCounter):
    """Base class of callbacks that receive each evaluation on held-out data, in `on_scores(scores)`.

    The scores come from `model.evaluate`, from the validation within `fit`, or from an earlier callback, such as
    `EpochScores`, that adds `val_...` to the logs of an epoch.
    """

    _has_epoch_scores = False

    def on_scores(self, scores: dict[str, float]) -> None:
        """Receive the scores after `num_steps` steps, keyed by their names in the log."""
        raise NotImplementedError

    def on_test_end(self, logs: dict | None = None) -> None:
        """Pass on the scores of an evaluation."""
        self.on_scores(use_display_names(logs))
        self._has_epoch_scores = True

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Pass on the scores of the epoch, unless an evaluation has already done so."""
        scores = {name.removeprefix("val_"): one for name, one in (logs or {}).items() if name.startswith("val_")}
        if scores and not self._has_epoch_scores:
            self.on_scores(use_display_names(scores))
        self._has_epoch_scores = False


def use_display_names(values: dict | None) -> dict[str, float]:
    """Return Keras metrics as floats, keyed by display name."""
    return {shorten_metric_name(name): float(value) for name, value in (values or {}).items()}


def shorten_metric_name(name: str) -> str:
    """Shorten a Keras metric name: "mlm_logits_accuracy" becomes "mlm_accuracy"."""
    return name.replace("_logits", "")
