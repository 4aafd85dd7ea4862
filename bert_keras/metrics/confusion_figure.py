"""Figure of a confusion matrix."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.errors import InputError
from bert_keras.figures import check_matplotlib, create_figure, render_figure

_MAX_CLASSES_WITH_COUNTS = 20
_MAX_NAMED_CLASSES = 150  # of more classes, only every second, third, ... is named at the axes
_TICKED_SHARES = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 1)
_MAX_NAME_LENGTH = 36  # characters; longer names lose their middle


def render_confusion_matrix(matrix: np.ndarray, labels: Sequence[str]) -> bytes:
    """Render a confusion matrix as a PNG image.

    The colour of a cell is its share of the true class, so that rare classes are as visible as frequent ones; the
    square root of the share makes a confusion of 2 % visible. With up to 20 classes the cells also show their counts.

    Args:
        matrix: `(C, C)` counts, true classes on axis 0, as `confusion_matrix` returns.
        labels: the names of the C classes.

    Returns:
        The PNG file.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: the matrix is not square or has numbers other than counts, or there is not one label per class.
    """
    matrix = np.asarray(matrix)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] > 0
    if not square or matrix.dtype.kind not in "iu" or matrix.min() < 0:
        raise InputError(
            f"the matrix has shape {matrix.shape} and type {matrix.dtype}; expected non-negative integers, (C, C): "
            "make it with confusion_matrix"
        )
    if len(labels) != len(matrix):
        raise InputError(
            f"there are {len(labels)} labels for a matrix of {len(matrix)} classes; expected one name per class"
        )
    return render_figure(_make_figure(matrix, [_shorten(str(label)) for label in labels]), "png")


def _make_figure(matrix: np.ndarray, labels: list[str]) -> Any:
    check_matplotlib()
    from matplotlib.colors import PowerNorm

    num_classes = len(matrix)
    with_counts = num_classes <= _MAX_CLASSES_WITH_COUNTS
    # lengths in inches; a character of the longest name is 0.61 of the font size wide
    side = max(3.0, (0.62 if with_counts else 0.165) * min(num_classes, _MAX_NAMED_CLASSES))
    small = 9 if with_counts else 7  # font size of names and counts, in points
    large = 10 if side < 6 else 14  # font size of titles
    name_inches = 0.0085 * small * max(map(len, labels))
    margin = 1.0 + name_inches
    figure = create_figure(figsize=(side + margin + 1, side + margin), layout="constrained")
    axes = figure.add_subplot()
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)  # (C, C); 0 for a class without examples
    image = axes.imshow(shares, cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=1))
    num_examples = int(matrix.sum())
    accuracy = f"accuracy {np.trace(matrix) / max(num_examples, 1):.1%} of {num_examples:,} examples"
    axes.set_title(accuracy if num_examples else "no examples", pad=10, fontsize=large + 2)
    axes.set_xlabel("predicted class", labelpad=8, fontsize=large)
    axes.set_ylabel("true class", labelpad=8, fontsize=large)
    _name_classes(axes, labels, small, upright=name_inches > side / num_classes)
    if with_counts:
        for row, column in zip(*np.nonzero(matrix), strict=True):
            text = {"color": "white" if shares[row, column] > 0.36 else "#333333", "fontsize": small}
            axes.text(column, row, f"{matrix[row, column]:,}", ha="center", va="center", **text)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=30, pad=0.02, ticks=_TICKED_SHARES)
    bar.set_ticklabels([f"{share:.0%}" for share in _TICKED_SHARES])
    bar.set_label("share of the true class", fontsize=large)
    bar.outline.set_visible(False)
    return figure


def _name_classes(axes: Any, labels: list[str], font_size: int, *, upright: bool) -> None:
    step = -(-len(labels) // _MAX_NAMED_CLASSES)
    places = range(0, len(labels), step)
    # without `parse_math`, "$" in a name would begin a formula
    axes.set_xticks(places, labels[::step], rotation=90 if upright else 0, fontsize=font_size, parse_math=False)
    axes.set_yticks(places, labels[::step], fontsize=font_size, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if step == 1:
        lines = np.arange(1, len(labels)) - 0.5
        axes.hlines(lines, -0.5, len(labels) - 0.5, color="#e6e6e6", linewidth=0.5)
        axes.vlines(lines, -0.5, len(labels) - 0.5, color="#e6e6e6", linewidth=0.5)


def _shorten(label: str) -> str:
    if len(label) <= _MAX_NAME_LENGTH:
        return label
    end = (_MAX_NAME_LENGTH - 1) // 2  # the rest without the ellipsis is the beginning
    return f"{label[: _MAX_NAME_LENGTH - 1 - end]}…{label[-end:]}"
