"""`EpochScores`: score a model after each epoch, keep the best weights, and stop early."""

from collections.abc import Callable, Mapping

import keras
import numpy as np


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
        self._weights: dict[str, np.ndarray] = {}

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Score the model, keep its weights if it is the best so far, and stop when patience runs out."""
        scores = dict(self._score())
        self.epochs.append(scores)
        if logs is not None:
            logs.update({f"val_{name}": value for name, value in scores.items()})
        if self.best is None or scores[self._main_score] > self.epochs[self.best][self._main_score]:
            self.best = len(self.epochs) - 1
            self._weights = {name: np.array(variable) for name, variable in _key_variables(self.model).items()}
        num_worse = len(self.epochs) - 1 - self.best
        if self._patience and self._all_reduce_any(num_worse >= self._patience):
            self.model.stop_training = True

    def restore_best(self, model: keras.Model) -> None:
        """Set the model's weights to those of its best epoch."""
        for name, variable in _key_variables(model).items():
            variable.assign(self._weights[name])

    def state(self) -> dict[str, object]:
        """Return the scores for a backup, in values for JSON."""
        return {"epochs": list(self.epochs), "best": self.best}  # a copy: it is written while the training continues

    def best_weights(self) -> dict[str, np.ndarray]:
        """Return the weights of the best epoch, for a backup."""
        return self._weights

    def restore(self, state: Mapping[str, object], best_weights: Mapping[str, np.ndarray]) -> None:
        """Continue from the `state` and the `best_weights` of a backup."""
        self.epochs, self.best = list(state["epochs"]), state["best"]
        self._weights = dict(best_weights)


def _key_variables(model: keras.Model) -> dict[str, keras.Variable]:
    return {f"{index:05}": variable for index, variable in enumerate(model.weights)}
