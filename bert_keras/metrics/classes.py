"""Scores of classification with one class or several classes per example.

scikit-learn computes them, after checks of the inputs.
"""

import contextlib
import warnings
from collections.abc import Iterator

import numpy as np

from bert_keras.errors import InputError


def check_counts(num_examples: int, num_predictions: int, *, what: str = "examples") -> None:
    """Raise `InputError` unless there is one prediction per example, and at least one example.

    Args:
        num_examples, num_predictions: their numbers.
        what: the word for examples in messages.
    """
    if num_examples != num_predictions:
        raise InputError(
            f"there are {num_predictions:,} predictions for {num_examples:,} {what}; expected one for each: predict "
            "all of them, in the same order"
        )
    if not num_examples:
        raise InputError(f"there are no {what} to score; expected at least one: check how they were read")


def class_scores(truth: np.ndarray, predicted: np.ndarray, *, num_classes: int) -> dict[str, float]:
    """Compute the scores of a single-label classification.

    Args:
        truth: `(N,)` integers, the true classes.
        predicted: `(N,)` integers, the predicted classes.
        num_classes: C; classes are integers from 0 to C - 1.

    Returns:
        `accuracy`: the share of correct predictions.
        `macro_f1`: the mean F1 of the classes in `truth` or `predicted`; a class that is never predicted correctly
            counts 0.
        `micro_f1`: F1 over all decisions, which equals the accuracy.
        `matthews`: Matthews correlation coefficient (1975), from -1 to 1, GLUE's score of CoLA; 0 if `truth` or
            `predicted` is constant.

    Raises:
        InputError: a class is not an integer from 0 to C - 1, the lengths differ, or there are no examples.

    Example:
        >>> class_scores([0, 1, 1, 0], [0, 1, 0, 0], num_classes=2)["accuracy"]
        0.75
    """
    from sklearn import metrics

    truth, predicted = _check_classes(truth, predicted, num_classes)
    with _ignore_warnings():
        return {
            "accuracy": float(metrics.accuracy_score(truth, predicted)),
            "macro_f1": float(metrics.f1_score(truth, predicted, average="macro", zero_division=0)),
            "micro_f1": float(metrics.f1_score(truth, predicted, average="micro", zero_division=0)),
            "matthews": float(metrics.matthews_corrcoef(truth, predicted)),
        }


def multi_label_scores(truth: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Compute the scores of a multi-label classification.

    Args:
        truth: `(N, C)` of 0 and 1; 1 = the example has the class.
        predicted: `(N, C)` of 0 and 1.

    Returns:
        `micro_f1`: F1 over all decisions. `macro_f1`: the mean F1 of the C classes; a class that is neither in `truth`
        nor in `predicted` counts 0. `exact_match`: the share of examples with all classes correct.

    Raises:
        InputError: the shapes differ, a number is neither 0 nor 1, or there are no examples.

    Example:
        >>> multi_label_scores([[1, 0], [1, 1]], [[1, 0], [0, 1]])["exact_match"]
        0.5
    """
    from sklearn import metrics

    truth, predicted = np.asarray(truth), np.asarray(predicted)
    if truth.ndim != 2 or truth.shape != predicted.shape:
        raise InputError(
            f"truth has shape {truth.shape} and predicted {predicted.shape}; expected the same shape (N, C), with "
            "one column per class"
        )
    check_counts(len(truth), len(predicted))
    for name, sets in (("truth", truth), ("predicted", predicted)):
        wrong = np.argwhere((sets != 0) & (sets != 1))
        if wrong.size:
            row, column = wrong[0]
            raise InputError(
                f"{name}[{row}, {column}] is {sets[row, column]}; expected 0 or 1: compare probabilities with a "
                "threshold"
            )
    columns = np.arange(truth.shape[1])
    # scikit-learn treats a single column as two classes, so an empty column is added, which `labels` leaves out
    truth, predicted = (np.pad(sets.astype(np.int64), ((0, 0), (0, 1))) for sets in (truth, predicted))
    return {
        "micro_f1": float(metrics.f1_score(truth, predicted, labels=columns, average="micro", zero_division=0)),
        "macro_f1": float(metrics.f1_score(truth, predicted, labels=columns, average="macro", zero_division=0)),
        "exact_match": float(metrics.accuracy_score(truth, predicted)),
    }


def confusion_matrix(truth: np.ndarray, predicted: np.ndarray, *, num_classes: int) -> np.ndarray:
    """Count the predictions of each class for each true class.

    Args:
        truth: `(N,)` integers, the true classes.
        predicted: `(N,)` integers, the predicted classes.
        num_classes: C; classes are integers from 0 to C - 1.

    Returns:
        `(C, C)` int64; `[t, p]` is the number of examples of class t that were predicted as p.

    Raises:
        InputError: a class is not an integer from 0 to C - 1, the lengths differ, or there are no examples.

    Example:
        >>> confusion_matrix([0, 1, 1], [0, 1, 0], num_classes=2).tolist()
        [[1, 0], [1, 1]]
    """
    from sklearn import metrics

    truth, predicted = _check_classes(truth, predicted, num_classes)
    with _ignore_warnings():
        return metrics.confusion_matrix(truth, predicted, labels=np.arange(num_classes))


@contextlib.contextmanager
def _ignore_warnings() -> Iterator[None]:
    """Ignore the warnings about many classes with few examples, and about a single class."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater", UserWarning)
        warnings.filterwarnings("ignore", "A single label was found", UserWarning)
        yield


def _check_classes(truth: np.ndarray, predicted: np.ndarray, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    checked = []
    for name, values in (("truth", truth), ("predicted", predicted)):
        classes = np.asarray(values)
        if classes.ndim != 1 or (classes.size and classes.dtype.kind not in "iu"):
            raise InputError(
                f"{name} has shape {classes.shape} and type {classes.dtype}; expected one integer per example, "
                "(N,): take the argmax of scores"
            )
        wrong = np.flatnonzero((classes < 0) | (classes >= num_classes))
        if wrong.size:
            raise InputError(
                f"{name}[{wrong[0]}] is {classes[wrong[0]]}; expected a class from 0 to {num_classes - 1}: correct "
                f"it, or num_classes, which is {num_classes}"
            )
        checked.append(classes)
    truth, predicted = checked
    check_counts(len(truth), len(predicted))
    return truth, predicted
