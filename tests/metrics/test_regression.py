"""Regression scores equal their definitions and hand-computed cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.errors import InputError
from bert_keras.metrics.regression import regression_scores

CLOSE = {"rel": 0, "abs": 3e-15}  # measured in 1,500 draws: at most 3.3e-16

number_pairs = st.lists(
    st.tuples(*[st.integers(-12, 12).map(lambda number: number / 4)] * 2), min_size=2, max_size=40
).map(lambda pairs: np.array(pairs).T)


def correlation(first, second) -> float:
    first, second = first - first.mean(), second - second.mean()
    spread = np.sqrt(np.sum(first**2) * np.sum(second**2))
    return np.sum(first * second) / spread if spread else 0.0


def ranks(numbers) -> np.ndarray:
    """Return ranks from 1; equal numbers share their mean rank."""
    below = np.sum(numbers[:, None] > numbers, axis=1)
    return below + (1 + np.sum(numbers[:, None] == numbers, axis=1)) / 2


def test_hand_computed_scores():
    scores = regression_scores([1, 2, 3, 4], [1.0, 3.0, 2.0, 10.0])
    # deviations -1.5 -0.5 0.5 1.5 and -3 -1 -2 6: products 4.5 + 0.5 - 1 + 9 = 13, squares 5 and 50
    # ranks 1 2 3 4 and 1 3 2 4: 1 - 6 * (1 + 1) / (4 * 15) = 0.8; errors 0 1 -1 6
    assert scores["pearson"] == pytest.approx(13 / np.sqrt(5 * 50), **CLOSE)
    assert scores["spearman"] == pytest.approx(0.8, **CLOSE)
    assert scores["rmse"] == pytest.approx(np.sqrt(38 / 4), **CLOSE)
    assert all(type(score) is float for score in scores.values())


@settings(max_examples=60, deadline=None)
@given(number_pairs)
def test_scores_equal_their_definitions(drawn):
    truth, predicted = drawn
    scores = regression_scores(truth, predicted)
    assert scores["pearson"] == pytest.approx(correlation(truth, predicted), **CLOSE)
    assert scores["spearman"] == pytest.approx(correlation(ranks(truth), ranks(predicted)), **CLOSE)
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((truth - predicted) ** 2)), **CLOSE)


@pytest.mark.parametrize(("truth", "predicted"), [([1, 2, 3], [2.5] * 3), ([2.5] * 3, [1, 2, 3]), ([1], [2])])
def test_correlation_with_a_constant_is_zero(truth, predicted):
    scores = regression_scores(truth, predicted)
    assert scores["pearson"] == scores["spearman"] == 0.0
    assert scores["rmse"] > 0


def test_nearly_equal_numbers_raise_no_warning():
    nearly = 1e6 + np.array([0, 1, 2, 3]) * 2e-10
    scores = regression_scores([1, 2, 3, 4], nearly)
    assert scores["spearman"] == pytest.approx(1, **CLOSE)
    assert 0.9 < scores["pearson"] <= 1
    assert regression_scores([0.0, 5e-324], [0, 1])["pearson"] == pytest.approx(1, **CLOSE)


def test_float32_numbers_are_scored_in_float64():
    truth, predicted = np.random.default_rng(0).normal(size=(2, 50)).astype("float32")
    assert regression_scores(truth, predicted) == regression_scores(truth.astype(float), predicted.astype(float))


@pytest.mark.parametrize(
    ("truth", "predicted", "message"),
    [
        ([1.0, 2.0], [1.0], r"there are 1 predictions for 2 examples"),
        ([], [], r"there are no examples to score"),
        ([1.0, 2.0], [[1.0], [2.0]], r"predicted has shape \(2, 1\) and type float64; .* squeeze"),
        ([1.0, 2.0], [1.0, float("nan")], r"predicted\[1\] is nan; expected finite numbers"),
        ([float("inf"), 2.0], [1.0, 2.0], r"truth\[0\] is inf"),
        (["a", "b"], [1.0, 2.0], r"truth has shape \(2,\) and type <U1"),
    ],
)
def test_invalid_numbers_are_errors(truth, predicted, message):
    with pytest.raises(InputError, match=message):
        regression_scores(truth, predicted)
