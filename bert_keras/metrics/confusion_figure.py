"""A picture of a confusion matrix: which class is taken for which, at a glance."""

import os
from collections.abc import Sequence

import numpy as np

from bert_keras.errors import InputError
from bert_keras.figures import check_matplotlib, create_figure, write_figure
from bert_keras.publishing import publish_file

_MOST_CLASSES_WITH_COUNTS = 20
_MOST_NAMED_CLASSES = 150  # of more, every second, third, ... has its name at the axes
_TICKED_SHARES = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 1)
_LONGEST_NAME = 36  # characters; longer names lose their middle


def draw_confusion_matrix(matrix: np.ndarray, labels: Sequence[str], path: str | os.PathLike) -> None:
    """Draws a confusion matrix as a PNG file, which appears whole or not at all.

    The colour of a cell is its share of its row, so that rare classes are seen as well as frequent ones; it goes with
    the root of the share, so that a confusion of 2 % is still seen. Up to 20 classes the cells hold their counts; of
    more, only the colours can be read.

    Args:
        matrix: `(C, C)` counts, rows = truth, as `confusion_matrix` returns.
        labels: the names of the C classes.
        path: the file; its folder is made, an old file is replaced.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: the matrix is not one of counts, the labels are not as many, or `path` is a folder.
    """
    matrix = _checked(matrix, labels)
    figure = _figure(matrix, [_short(str(label)) for label in labels])
    with publish_file(path) as file:
        write_figure(figure, file, "png")


def _figure(matrix: np.ndarray, labels: list[str]):
    check_matplotlib()
    from matplotlib.colors import PowerNorm

    num_classes = len(matrix)
    with_counts = num_classes <= _MOST_CLASSES_WITH_COUNTS
    side = max(3.0, (0.62 if with_counts else 0.165) * min(num_classes, _MOST_NAMED_CLASSES))  # inches of the matrix
    small, large = 9 if with_counts else 7, 10 if side < 6 else 14  # points: names and counts, titles
    name_inches = 0.0085 * small * max(map(len, labels))  # the longest name, at 0.61 of the font's height a character
    margin = 1.0 + name_inches
    figure = create_figure(figsize=(side + margin + 1, side + margin), layout="constrained")
    axes = figure.add_subplot()
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)  # (C, C): a class without examples is a row of 0
    image = axes.imshow(shares, cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=1))
    axes.set_title(_title(matrix), pad=10, fontsize=large + 2)
    axes.set_xlabel("predicted class", labelpad=8, fontsize=large)
    axes.set_ylabel("true class", labelpad=8, fontsize=large)
    _name_classes(axes, labels, small, upright=name_inches > side / num_classes)
    if with_counts:
        _write_counts(axes, matrix, shares, small)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=30, pad=0.02, ticks=_TICKED_SHARES)
    bar.set_ticklabels([f"{share:.0%}" for share in _TICKED_SHARES])
    bar.set_label("share of the true class", fontsize=large)
    bar.outline.set_visible(False)
    return figure


def _name_classes(axes, labels: list[str], font_size: int, *, upright: bool) -> None:
    step = -(-len(labels) // _MOST_NAMED_CLASSES)
    places = range(0, len(labels), step)
    # a "$" in a name is no formula
    axes.set_xticks(places, labels[::step], rotation=90 if upright else 0, fontsize=font_size, parse_math=False)
    axes.set_yticks(places, labels[::step], fontsize=font_size, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if step == 1:
        borders = np.arange(1, len(labels)) - 0.5
        axes.hlines(borders, -0.5, len(labels) - 0.5, color="#e6e6e6", linewidth=0.5)
        axes.vlines(borders, -0.5, len(labels) - 0.5, color="#e6e6e6", linewidth=0.5)


def _write_counts(axes, matrix: np.ndarray, shares: np.ndarray, font_size: int) -> None:
    for row, column in zip(*np.nonzero(matrix), strict=True):
        color = "white" if shares[row, column] > 0.36 else "#333333"
        axes.text(column, row, f"{matrix[row, column]:,}", ha="center", va="center", color=color, fontsize=font_size)


def _title(matrix: np.ndarray) -> str:
    num_examples = int(matrix.sum())
    if not num_examples:
        return "no examples"
    return f"accuracy {np.trace(matrix) / num_examples:.1%} of {num_examples:,} examples"


def _short(label: str) -> str:
    if len(label) <= _LONGEST_NAME:
        return label
    kept = _LONGEST_NAME - 1
    return f"{label[: kept - kept // 2]}…{label[-(kept // 2) :]}"


def _checked(matrix, labels: Sequence[str]) -> np.ndarray:
    matrix = np.asarray(matrix)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] > 0
    if not square or matrix.dtype.kind not in "iu" or matrix.min() < 0:
        raise InputError(
            f"the matrix has shape {matrix.shape} and type {matrix.dtype}; expected whole numbers from 0, (C, C): make "
            "it with confusion_matrix"
        )
    if len(labels) != len(matrix):
        raise InputError(
            f"there are {len(labels)} labels for a matrix of {len(matrix)} classes; expected a name for each class"
        )
    return matrix
