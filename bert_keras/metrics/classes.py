"""Scores of classes: one class an example, or a set of tags an example.

Scikit-learn computes them; here its inputs are checked, and its advice to other callers is kept quiet.
"""

import contextlib
import warnings
from collections.abc import Iterator

import numpy as np

from bert_keras.errors import InputError
from bert_keras.metrics.prediction_counts import check_pairs


def class_scores(truth: np.ndarray, predicted: np.ndarray, *, num_classes: int) -> dict[str, float]:
    """Returns how well one class an example was told.

    Args:
        truth: `(N,)` integers, the right classes.
        predicted: `(N,)` integers, the classes that the model chose.
        num_classes: C; every class is from 0 to C - 1.

    Returns:
        `accuracy`: the share of right answers.
        `macro_f1`: the mean F1 of the classes that occur in `truth` or `predicted`; a class that was never told
            right counts 0.
        `micro_f1`: F1 over all decisions, which equals the accuracy where each example has one class.
        `matthews`: the correlation of Matthews (1975), -1 to 1, as GLUE scores CoLA; 0 where `truth` or
            `predicted` is the same everywhere.

    Raises:
        InputError: the classes are not what the arguments say, or there are none.

    Example:
        >>> class_scores([0, 1, 1, 0], [0, 1, 0, 0], num_classes=2)["accuracy"]
        0.75
    """
    from sklearn import metrics

    truth, predicted = _checked_classes(truth, predicted, num_classes)
    with _without_advice():
        return {
            "accuracy": float(metrics.accuracy_score(truth, predicted)),
            "macro_f1": float(metrics.f1_score(truth, predicted, average="macro", zero_division=0)),
            "micro_f1": float(metrics.f1_score(truth, predicted, average="micro", zero_division=0)),
            "matthews": float(metrics.matthews_corrcoef(truth, predicted)),
        }


def tag_set_scores(truth: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Returns how well a set of tags an example was told.

    Args:
        truth: `(N, C)` of 0 and 1: 1 = the example has the tag.
        predicted: `(N, C)` of 0 and 1.

    Returns:
        `micro_f1`: F1 over all decisions; `macro_f1`: the mean F1 of the C tags; a tag that is neither in `truth`
        nor in `predicted` counts 0 in both. `exact_match`: the share of examples whose whole set is right.

    Raises:
        InputError: the shapes differ, a number is neither 0 nor 1, or there are no examples.

    Example:
        >>> tag_set_scores([[1, 0], [1, 1]], [[1, 0], [0, 1]])["exact_match"]
        0.5
    """
    from sklearn import metrics

    truth, predicted = _checked_tag_sets(truth, predicted)
    tags = np.arange(truth.shape[1])
    # scikit-learn reads a single column as two classes, so a column of no tag stands beside; `labels` leaves it out
    truth, predicted = (np.pad(sets, ((0, 0), (0, 1))) for sets in (truth, predicted))
    return {
        "micro_f1": float(metrics.f1_score(truth, predicted, labels=tags, average="micro", zero_division=0)),
        "macro_f1": float(metrics.f1_score(truth, predicted, labels=tags, average="macro", zero_division=0)),
        "exact_match": float(metrics.accuracy_score(truth, predicted)),
    }


def confusion_matrix(truth: np.ndarray, predicted: np.ndarray, *, num_classes: int) -> np.ndarray:
    """Counts which class was taken for which.

    Args:
        truth: `(N,)` integers, the right classes.
        predicted: `(N,)` integers, the classes that the model chose.
        num_classes: C; every class is from 0 to C - 1.

    Returns:
        `(C, C)` int64: row t, column p holds how many examples of class t were taken for p.

    Raises:
        InputError: the classes are not what the arguments say, or there are none.

    Example:
        >>> confusion_matrix([0, 1, 1], [0, 1, 0], num_classes=2).tolist()
        [[1, 0], [1, 1]]
    """
    from sklearn import metrics

    truth, predicted = _checked_classes(truth, predicted, num_classes)
    with _without_advice():
        return metrics.confusion_matrix(truth, predicted, labels=np.arange(num_classes))


@contextlib.contextmanager
def _without_advice() -> Iterator[None]:
    """Keeps quiet that few examples of many classes look like a regression, and that there is one class only."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater", UserWarning)
        warnings.filterwarnings("ignore", "A single label was found", UserWarning)
        yield


def _checked_classes(truth, predicted, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    checked = []
    for name, values in (("truth", truth), ("predicted", predicted)):
        classes = np.asarray(values)
        if classes.ndim != 1 or (classes.size and classes.dtype.kind not in "iu"):
            raise InputError(
                f"{name} has shape {classes.shape} and type {classes.dtype}; expected one integer an example, (N,): "
                "of scores, take the argmax of each row"
            )
        wrong = np.flatnonzero((classes < 0) | (classes >= num_classes))
        if wrong.size:
            raise InputError(
                f"{name}[{wrong[0]}] is {classes[wrong[0]]}; expected a class from 0 to {num_classes - 1}: mend it, or "
                f"give another num_classes than {num_classes}"
            )
        checked.append(classes)
    check_pairs(*map(len, checked))
    return checked[0], checked[1]


def _checked_tag_sets(truth, predicted) -> tuple[np.ndarray, np.ndarray]:
    truth, predicted = np.asarray(truth), np.asarray(predicted)
    if truth.ndim != 2 or truth.shape != predicted.shape:
        raise InputError(
            f"truth has shape {truth.shape} and predicted {predicted.shape}; expected one shape for both, (N, C): a "
            "row for each example, a column for each tag"
        )
    check_pairs(len(truth), len(predicted))
    for name, sets in (("truth", truth), ("predicted", predicted)):
        wrong = np.argwhere((sets != 0) & (sets != 1))
        if wrong.size:
            row, column = wrong[0]
            raise InputError(
                f"{name}[{row}, {column}] is {sets[row, column]}; expected 0 or 1: of probabilities, write which are "
                "above a threshold"
            )
    return truth.astype(np.int64), predicted.astype(np.int64)
