"""Scores of numbers: how well a regression follows the truth."""

import math
import warnings

import numpy as np

from bert_keras.errors import InputError
from bert_keras.metrics.prediction_counts import check_pairs


def regression_scores(truth: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Returns how well predicted numbers follow the truth.

    Args:
        truth: `(N,)` numbers.
        predicted: `(N,)` numbers, in the same unit.

    Returns:
        `pearson`: the linear correlation, -1 to 1; `spearman`: the correlation of the ranks, equal numbers sharing
        their mean rank. Both are 0.0, not NaN, where `truth` or `predicted` is the same everywhere: such a model
        knows nothing of the order, and a NaN would win or lose every comparison with other models.
        `rmse`: the root of the mean squared error, in the unit of the numbers.

    Raises:
        InputError: the shapes differ, a number is not finite, or there are none.

    Example:
        >>> regression_scores([1.0, 2.0, 4.0], [2.0, 3.0, 5.0])["rmse"]
        1.0
    """
    from scipy import stats

    truth, predicted = _checked(truth, "truth"), _checked(predicted, "predicted")
    check_pairs(len(truth), len(predicted))
    return {
        "pearson": _correlation(stats.pearsonr, truth, predicted),
        "spearman": _correlation(stats.spearmanr, truth, predicted),
        "rmse": math.sqrt(np.mean(np.square(predicted - truth))),
    }


def _correlation(correlate, truth: np.ndarray, predicted: np.ndarray) -> float:
    if np.ptp(truth) == 0 or np.ptp(predicted) == 0:
        return 0.0
    with warnings.catch_warnings():
        # numbers that differ in their last digits only are told so by a warning; the correlation stands
        warnings.simplefilter("ignore", RuntimeWarning)
        correlation = float(correlate(truth, predicted).statistic)
    return correlation if math.isfinite(correlation) else 0.0


def _checked(values, name: str) -> np.ndarray:
    numbers = np.asarray(values)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iuf"):
        raise InputError(
            f"{name} has shape {numbers.shape} and type {numbers.dtype}; expected one number an example, (N,): of "
            "(N, 1), take the only column"
        )
    numbers = numbers.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise InputError(
            f"{name}[{wrong[0]}] is {numbers[wrong[0]]}; expected finite numbers: look at what the model was given, or "
            "leave the example out"
        )
    return numbers
