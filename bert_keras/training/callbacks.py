"""Callbacks that count steps, stop a training, receive its scores on held-out data, or keep its best weights."""

import math
from collections.abc import Callable, Mapping

import keras
import numpy as np

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

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Count the step; a subclass that overrides this calls `count`."""
        self.count(batch)

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


class EpochScores(keras.callbacks.Callback):
    """Score a model on held-out examples at the end of each epoch, and keep the weights of the best epoch.

    The scores are added to Keras's logs as `val_...`.

    Args:
        score: function that returns the scores of the model, keyed by name.
        main_score: the name of the score that selects the best epoch; higher is better.
        patience: stop after this many epochs without a better score; 0 = never.
        all_reduce_any: function of `make_all_reduce_any`. Without it, workers whose scores differ in the last digit
            could disagree about stopping, and some would wait forever for the others.

    Attributes:
        epochs: the scores of each epoch.
        best: the index of the best epoch, from 0; None before the first epoch has ended.
        best_weights: the weights of the best epoch, keyed by index.
    """

    def __init__(
        self,
        score: Callable[[], Mapping[str, float]],
        main_score: str,
        *,
        patience: int,
        all_reduce_any: Callable[[bool], bool] = bool,
    ):
        super().__init__()
        self.epochs: list[dict[str, float]] = []
        self.best: int | None = None
        self._score = score
        self._main_score = main_score
        self._patience = patience
        self._all_reduce_any = all_reduce_any
        self.best_weights: dict[str, np.ndarray] = {}

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Score the model, keep its weights if it is the best so far, and stop when patience runs out."""
        scores = dict(self._score())
        self.epochs.append(scores)
        if logs is not None:
            logs.update({f"val_{name}": value for name, value in scores.items()})
        if self.best is None or scores[self._main_score] > self.epochs[self.best][self._main_score]:
            self.best = len(self.epochs) - 1
            self.best_weights = {name: np.array(variable) for name, variable in _key_variables(self.model).items()}
        num_worse = len(self.epochs) - 1 - self.best
        if self._patience and self._all_reduce_any(num_worse >= self._patience):
            self.model.stop_training = True

    def restore_best(self, model: keras.Model) -> None:
        """Set the model's weights to those of its best epoch."""
        for name, variable in _key_variables(model).items():
            variable.assign(self.best_weights[name])

    def state(self) -> dict[str, object]:
        """Return the scores for a backup, in values for JSON."""
        return {"epochs": list(self.epochs), "best": self.best}  # a copy: it is written while the training continues

    def restore(self, state: Mapping[str, object], best_weights: Mapping[str, np.ndarray]) -> None:
        """Continue from the `state` and the `best_weights` of a backup."""
        self.epochs, self.best = list(state["epochs"]), state["best"]
        self.best_weights = dict(best_weights)


def _key_variables(model: keras.Model) -> dict[str, keras.Variable]:
    return {f"{index:05}": variable for index, variable in enumerate(model.weights)}


def use_display_names(values: dict | None) -> dict[str, float]:
    """Return Keras metrics as floats, keyed by display name."""
    return {shorten_metric_name(name): float(value) for name, value in (values or {}).items()}


def shorten_metric_name(name: str) -> str:
    """Shorten a Keras metric name: "mlm_logits_accuracy" becomes "mlm_accuracy"."""
    return name.replace("_logits", "")
