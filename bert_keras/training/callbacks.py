"""Callbacks that count steps, stop a training, record how it goes, receive its scores, or keep its best weights."""

import math
import time
from collections.abc import Callable, Mapping

import keras
import numpy as np

from bert_keras.errors import DivergedTrainingError
from bert_keras.files import format_json

WINDOW_STEPS = 50  # steps per line
HELD_OUT = "held_out_"
NOT_METRICS = ("step", "seconds", "num_steps", "tokens", "learning_rate")


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


class TrainingLog(ScoreListener):
    """Record a training in lines, each with the mean losses and accuracies over a window of 50 steps.

    A window continues across epochs, phases, evaluations and resumed trainings, so all lines are means over the same
    number of steps. Only `finish` writes a shorter window; `num_steps` in the line has its size. Evaluations have
    separate lines with names that start with `held_out_`.

    Later callbacks find in their `logs` the means over the current window and, under "tokens", the real tokens so far;
    at the end of an epoch they find the means over the epoch, as usual in Keras.

    Args:
        tokens_per_step: average number of real tokens per step; None = unknown, and not logged.
        listeners: functions that are called with each line.
        window_steps: steps per line.

    Attributes:
        tokens_per_step: as the argument; it differs between phases.
        lines: dicts with `step`, `seconds` (since the training began) and, in lines of training, `num_steps`, `tokens`
            (real tokens so far), `learning_rate`, the losses and the accuracies.
    """

    def __init__(
        self,
        tokens_per_step: float | None,
        listeners: tuple[Callable[[dict], None], ...] = (),
        window_steps: int = WINDOW_STEPS,
    ):
        super().__init__()
        self.lines: list[dict] = []
        self.tokens_per_step = tokens_per_step
        self._listeners = listeners
        self._window_steps = window_steps
        self._tokens = 0.0
        self._begin: float | None = None
        self._sums: dict[str, float] = {}  # over the current window
        self._num_summed = 0
        self._epoch_sums: dict[str, float] = {}
        self._num_in_epoch = 0
        self._continues_epoch = False

    def continue_epoch(self) -> None:
        """Treat the next epoch as the rest of the one in which the resumed training was interrupted."""
        self._continues_epoch = True

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Start the clock, if this is the first `fit`."""
        self._begin = self._begin or time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Reset the means over the epoch, unless it continues an interrupted one."""
        super().on_epoch_begin(epoch, logs)
        if not self._continues_epoch:
            self._epoch_sums, self._num_in_epoch = {}, 0
        self._continues_epoch = False

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Replace Keras's logs by the means over the epoch."""
        if logs is not None and self._num_in_epoch:  # Keras's own values are those of the last step
            logs.update(_divide(self._epoch_sums, self._num_in_epoch))
        super().on_epoch_end(epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Reset Keras's metrics, so that the logs of a step are its own."""
        self.model.reset_metrics()  # Keras averages over an epoch, and we over a window; 0.4 ms

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Add the step to the window, and write a line when the window is full."""
        before = self.num_steps
        num_steps = self.count(batch) - before
        for name, value in (logs or {}).items():
            for sums in (self._sums, self._epoch_sums):
                sums[name] = sums.get(name, 0.0) + num_steps * float(value)
        self._num_summed += num_steps
        self._num_in_epoch += num_steps
        self._tokens += num_steps * (self.tokens_per_step or 0.0)
        if logs is not None:
            logs.update(_divide(self._sums, self._num_summed))
            if self.tokens_per_step is not None:
                logs["tokens"] = round(self._tokens)
        if self._num_summed >= self._window_steps:
            self.finish()

    def on_scores(self, scores: dict[str, float]) -> None:
        """Write a line with held-out scores."""
        self._write({HELD_OUT + name: value for name, value in scores.items()})

    def finish(self) -> None:
        """Write the line of the current window, unless it is empty."""
        if self._num_summed:
            tokens = {} if self.tokens_per_step is None else {"tokens": round(self._tokens)}
            learning_rate = float(self.model.optimizer.learning_rate)
            means = use_display_names(_divide(self._sums, self._num_summed))
            self._write({"num_steps": self._num_summed, **tokens, "learning_rate": learning_rate, **means})
        self._sums, self._num_summed = {}, 0

    def _write(self, values: dict) -> None:
        self._begin = self._begin or time.monotonic()
        line = {"step": self.num_steps, "seconds": round(time.monotonic() - self._begin, 3), **values}
        self.lines.append(line)
        for listener in self._listeners:
            listener(line)

    def metrics(self) -> dict[str, float]:
        """Return the means over the last full window and the steps after it, and the last held-out scores."""
        held_out, training = [], []
        for line in self.lines:
            (held_out if any(name.startswith(HELD_OUT) for name in line) else training).append(line)
        last = training[-2:]
        weights = [line.get("num_steps", self._window_steps) for line in last]  # release 0.1 wrote no `num_steps`
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
        """Return the state of the log for a backup, in values for JSON."""
        return {
            "lines": list(self.lines),  # a copy, because the backup is written while the training continues
            "tokens": self._tokens,
            "sums": dict(self._sums),
            "num_summed": self._num_summed,
            "epoch_sums": dict(self._epoch_sums),
            "num_in_epoch": self._num_in_epoch,
            "seconds": 0.0 if self._begin is None else time.monotonic() - self._begin,
        }

    def restore(self, state: Mapping) -> None:
        """Continue from what `state` returned."""
        self.lines = list(state["lines"])
        self._tokens = state["tokens"]
        self._sums = dict(state.get("sums", {}))  # release 0.1 wrote none of these four
        self._num_summed = state.get("num_summed", 0)
        self._epoch_sums = dict(state.get("epoch_sums", {}))
        self._num_in_epoch = state.get("num_in_epoch", 0)
        self._begin = time.monotonic() - state["seconds"]

    def to_json_lines(self) -> str:
        """Return the lines as JSON Lines."""
        return "".join(format_json(line) + "\n" for line in self.lines)


def choose_window_steps(num_steps: int | None) -> int:
    """Return the steps per line of a training log: 50, or a tenth of a training of less than 500 steps.

    Args:
        num_steps: steps of the whole training; None = unknown.
    """
    return WINDOW_STEPS if num_steps is None else max(1, min(WINDOW_STEPS, num_steps // 10))


def _divide(sums: Mapping[str, float], num_steps: int) -> dict[str, float]:
    return {name: total / num_steps for name, total in sums.items()}


def _key_variables(model: keras.Model) -> dict[str, keras.Variable]:
    return {f"{index:05}": variable for index, variable in enumerate(model.weights)}


def use_display_names(values: dict | None) -> dict[str, float]:
    """Return Keras metrics as floats, keyed by display name."""
    return {shorten_metric_name(name): float(value) for name, value in (values or {}).items()}


def shorten_metric_name(name: str) -> str:
    """Shorten a Keras metric name: "mlm_logits_accuracy" becomes "mlm_accuracy"."""
    return name.replace("_logits", "")
