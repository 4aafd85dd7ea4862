"""`EpochScores`: how good a model is after each epoch, which epoch was the best, and when to stop."""

from collections.abc import Callable, Mapping

import keras
import numpy as np


class EpochScores(keras.callbacks.Callback):
    """Scores a model on held-out examples at the end of each epoch.

    The scores join Keras's own logs as `val_...`. The weights of the best epoch are kept.

    Args:
        score: returns the scores of the model as it is.
        main_score: the one that tells which epoch is better; more is better.
        patience: stop after so many epochs without a better one; 0: never.
        all_reduce_any: whether any of several workers wants to stop, see `make_all_reduce_any`: if their scores differed
            in a last digit, one would wait for another that has stopped.

    Attributes:
        epochs: the scores of each epoch.
        best: the number of the best one, from 0; None before the first.
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
        self._agreed = all_reduce_any
        self._weights: dict[str, np.ndarray] = {}

    def on_epoch_end(self, epoch, logs=None):
        scores = dict(self._score())
        self.epochs.append(scores)
        if logs is not None:
            logs.update({f"val_{name}": value for name, value in scores.items()})
        if self.best is None or scores[self._main_score] > self.epochs[self.best][self._main_score]:
            self.best = len(self.epochs) - 1
            self._weights = _weights_of(self.model)
        num_no_better = len(self.epochs) - 1 - self.best
        if self._patience and self._agreed(num_no_better >= self._patience):
            self.model.stop_training = True

    def restore_best(self, model: keras.Model) -> None:
        """Gives the model the weights of its best epoch."""
        for name, variable in _named(model).items():
            variable.assign(self._weights[name])

    def facts(self) -> dict:
        """Returns what a backup says of the epochs."""
        return {"epochs": list(self.epochs), "best": self.best}  # a copy: it is written while the training goes on

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the weights of the best epoch, for a backup."""
        return self._weights

    def restore(self, facts: Mapping, arrays: Mapping[str, np.ndarray]) -> None:
        """Goes on where another one was."""
        self.epochs, self.best = list(facts["epochs"]), facts["best"]
        self._weights = dict(arrays)


def _weights_of(model: keras.Model) -> dict[str, np.ndarray]:
    return {name: np.array(variable) for name, variable in _named(model).items()}


def _named(model: keras.Model) -> dict[str, keras.Variable]:
    return {f"{place:05}": variable for place, variable in enumerate(model.weights)}
