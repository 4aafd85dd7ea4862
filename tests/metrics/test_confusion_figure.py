"""The figure of a confusion matrix is complete and readable, and is drawn without global state."""

import io
import itertools
import sys

import numpy as np
import pytest
from matplotlib import image
from matplotlib.figure import Figure

from bert_keras.errors import InputError, MissingExtraError
from bert_keras.metrics.confusion_figure import render_confusion_matrix

NAMES = (
    "age_limit",
    "card_payment_fee_charged",
    "balance_not_updated_after_bank_transfer",
    "balance_not_updated_after_cheque_or_cash_deposit",
)


@pytest.fixture
def capture_figure(monkeypatch):
    """Function that draws a matrix and returns the figure."""
    figures = []

    def draw(matrix, labels):
        monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: figures.append(figure))
        render_confusion_matrix(matrix, labels)
        return figures[-1]

    return draw


def make_matrix(num_classes: int) -> np.ndarray:
    rng = np.random.default_rng(num_classes)
    return rng.poisson(0.3, (num_classes, num_classes)) + 40 * np.eye(num_classes, dtype=int)


def test_equal_matrices_give_equal_images():
    first, second = (
        render_confusion_matrix(make_matrix(3), ["contradiction", "entailment", "neutral"]) for _ in range(2)
    )
    assert first == second
    height, width, _ = image.imread(io.BytesIO(first)).shape
    assert 400 < height < 1000
    assert 400 < width < 1200


@pytest.mark.parametrize("num_classes", [2, 3, 20, 45])  # with 21 or more classes, cells have a fixed size
def test_names_of_an_axis_do_not_overlap(num_classes, capture_figure):
    figure = capture_figure(make_matrix(num_classes), [NAMES[index % 4] for index in range(num_classes)])
    figure.draw_without_rendering()
    axes = figure.axes[0]
    for names in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert len(names) == num_classes
        boxes = [name.get_window_extent() for name in names]
        assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))


def test_short_names_are_horizontal_and_long_names_vertical(capture_figure):
    for label, rotation in (("neutral", 0), (NAMES[1], 90)):
        axes = capture_figure(make_matrix(3), [label] * 3).axes[0]
        assert {name.get_rotation() for name in axes.get_xticklabels()} == {rotation}


def test_middle_of_a_very_long_name_is_omitted(capture_figure):
    [_, name, *_] = capture_figure(make_matrix(3), NAMES[1:]).axes[0].get_yticklabels()
    assert name.get_text() == "balance_not_update…ter_bank_transfer"
    assert len(name.get_text()) == 36


def test_cells_show_counts_for_up_to_twenty_classes(capture_figure):
    matrix = np.array([[1234, 0], [3, 5]])
    texts = capture_figure(matrix, ["a", "b"]).axes[0].texts
    assert {text.get_position()[::-1]: text.get_text() for text in texts} == {(0, 0): "1,234", (1, 0): "3", (1, 1): "5"}
    assert len(capture_figure(make_matrix(20), ["a"] * 20).axes[0].texts) == np.count_nonzero(make_matrix(20))
    assert not capture_figure(make_matrix(21), ["a"] * 21).axes[0].texts


def test_colours_show_proportions_of_the_true_classes(capture_figure):
    figure = capture_figure(np.array([[1, 3, 0], [0, 0, 0], [0, 2, 2]]), list("abc"))
    [cells] = figure.axes[0].get_images()
    np.testing.assert_allclose(cells.get_array(), [[0.25, 0.75, 0], [0, 0, 0], [0, 0.5, 0.5]])
    assert cells.get_clim() == (0, 1)


def test_title_shows_the_accuracy(capture_figure):
    assert (
        capture_figure(np.array([[7, 1], [0, 1000]]), ["a", "b"]).axes[0].get_title()
        == "accuracy 99.9% of 1,008 examples"
    )
    assert capture_figure(np.zeros((2, 2), int), ["a", "b"]).axes[0].get_title() == "no examples"


def test_names_are_thinned_out_for_many_classes(capture_figure):
    axes = capture_figure(make_matrix(301), [f"class {index}" for index in range(301)]).axes[0]
    assert [name.get_text() for name in axes.get_xticklabels()] == [f"class {index}" for index in range(0, 301, 3)]


def test_unusual_names_are_drawn():
    assert len(render_confusion_matrix(make_matrix(4), ["$5 a_b^{c$", "東京", "", "\U0010fffd"])) > 10_000


def test_missing_matplotlib_is_an_error_with_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"'matplotlib', which is not .* pip install 'bert-keras\[plots\]'"):
        render_confusion_matrix(make_matrix(3), list("abc"))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (
            np.zeros((2, 3), int),
            r"the matrix has shape \(2, 3\) and type int64; expected non-negative integers, \(C, C\)",
        ),
        (np.eye(3), r"the matrix has shape \(3, 3\) and type float64"),
        (-np.eye(3, dtype=int), r"expected non-negative integers"),
        (np.zeros((0, 0), int), r"the matrix has shape \(0, 0\)"),
        (np.eye(4, dtype=int), r"there are 3 labels for a matrix of 4 classes"),
    ],
)
def test_invalid_matrix_is_an_error(matrix, message):
    with pytest.raises(InputError, match=message):
        render_confusion_matrix(matrix, list("abc"))
