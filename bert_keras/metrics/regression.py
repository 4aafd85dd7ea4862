"""Scores of regression."""

import math
import warnings
from collections.abc import Callable

import numpy as np

from bert_keras.errors import InputError
from bert_keras.metrics.classes import check_counts


def regression_scores(truth: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Compute correlations and the error of predicted numbers.

    Args:
        truth: `(N,)`, the true numbers.
        predicted: `(N,)`, the predicted numbers, in the same unit.

    Returns:
        `pearson`: the linear correlation, from -1 to 1. `spearman`: the correlation of the ranks, where equal numbers
        share their mean rank. Both are 0.0 instead of NaN if `truth` or `predicted` is constant, because NaN cannot be
        compared with the scores of other models. `rmse`: the root mean squared error, in the unit of the numbers.

    Raises:
        InputError: the shapes differ, a number is not finite, or there are no numbers.

    Example:
        >>> regression_scores([1.0, 2.0, 4.0], [2.0, 3.0, 5.0])["rmse"]
        1.0
    """
    from scipy import stats

    truth, predicted = _check_numbers(truth, "truth"), _check_numbers(predicted, "predicted")
    check_counts(len(truth), len(predicted))
    return {
        "pearson": _correlate(stats.pearsonr, truth, predicted),
        "spearman": _correlate(stats.spearmanr, truth, predicted),
        "rmse": math.sqrt(np.mean(np.square(predicted - truth))),
    }


def _correlate(correlate: Callable, truth: np.ndarray, predicted: np.ndarray) -> float:
    if np.ptp(truth) == 0 or np.ptp(predicted) == 0:
        return 0.0
    with warnings.catch_warnings():
        # SciPy warns about numbers that are nearly constant, but the correlation is still valid
        warnings.simplefilter("ignore", RuntimeWarning)
        correlation = float(correlate(truth, predicted).statistic)
    return correlation if math.isfinite(correlation) else 0.0


def _check_numbers(values: np.ndarray, name: str) -> np.ndarray:
    numbers = np.asarray(values)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iuf"):
        raise InputError(
            f"{name} has shape {numbers.shape} and type {numbers.dtype}; expected one number per example, (N,): "
            "squeeze (N, 1)"
        )
    numbers = numbers.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise InputError(
            f"{name}[{wrong[0]}] is {numbers[wrong[0]]}; expected finite numbers: check the inputs of the model, or "
            "remove the example"
        )
    return numbers
