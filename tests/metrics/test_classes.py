"""Scores of classes and sets of classes equal their definitions and hand-computed cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.errors import InputError
from bert_keras.metrics.classes import class_scores, confusion_matrix, multi_label_scores

CLOSE = {"rel": 0, "abs": 2e-15}  # measured in 1,500 draws: 2.8e-16 for Matthews, 0 for the others

class_pairs = st.integers(1, 6).flatmap(
    lambda num_classes: st.tuples(
        st.just(num_classes),
        st.lists(
            st.tuples(st.integers(0, num_classes - 1), st.integers(0, num_classes - 1)), min_size=1, max_size=60
        ).map(lambda pairs: np.array(pairs).T),
    )
)
class_sets = st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(0, 2**32 - 1)).map(
    lambda drawn: np.random.default_rng(drawn[2]).integers(0, 2, (2, drawn[0], drawn[1]))
)


def compute_f1(truth, predicted) -> float:
    """Return the F1 of one class from a 0/1 array over the examples."""
    both, either = np.sum(truth & predicted), np.sum(truth) + np.sum(predicted)
    return 2 * both / either if either else 0.0


def test_hand_computed_class_scores():
    scores = class_scores([0, 0, 1, 1, 1, 3], [0, 1, 1, 1, 1, 0], num_classes=5)
    # F1: class 0: 2*1/(2+2) = 1/2, class 1: 2*3/(3+4) = 6/7, class 3: 0; classes 2 and 4 do not occur
    # Matthews: 4 of 6 correct; (4*6 - (2*2 + 3*4 + 1*0)) / sqrt((36 - (4+16)) * (36 - (4+9+1))) = 8 / sqrt(16 * 22)
    assert scores == {
        "accuracy": pytest.approx(4 / 6, **CLOSE),
        "macro_f1": pytest.approx((1 / 2 + 6 / 7 + 0) / 3, **CLOSE),
        "micro_f1": pytest.approx(4 / 6, **CLOSE),
        "matthews": pytest.approx(8 / np.sqrt(16 * 22), **CLOSE),
    }
    assert all(type(score) is float for score in scores.values())


@settings(max_examples=60, deadline=None)
@given(class_pairs)
def test_class_scores_equal_their_definitions(drawn):
    num_classes, (truth, predicted) = drawn
    scores = class_scores(truth, predicted, num_classes=num_classes)
    occurring = np.union1d(truth, predicted)
    one_hots = [(values[:, None] == np.arange(num_classes)).astype(float) for values in (truth, predicted)]
    centered = [one_hot - one_hot.mean(0) for one_hot in one_hots]
    spread = np.sqrt(np.sum(centered[0] ** 2) * np.sum(centered[1] ** 2))
    assert scores["accuracy"] == pytest.approx(np.mean(truth == predicted), **CLOSE)
    assert scores["macro_f1"] == pytest.approx(
        np.mean([compute_f1(truth == label, predicted == label) for label in occurring]), **CLOSE
    )
    assert scores["micro_f1"] == pytest.approx(scores["accuracy"], **CLOSE)
    expected = np.sum(centered[0] * centered[1]) / spread if spread > 1e-9 else 0.0
    assert scores["matthews"] == pytest.approx(expected, **CLOSE)


@settings(max_examples=60, deadline=None)
@given(class_pairs)
def test_confusion_matrix_counts_every_example_once(drawn):
    num_classes, (truth, predicted) = drawn
    expected = np.zeros((num_classes, num_classes), int)
    np.add.at(expected, (truth, predicted), 1)
    matrix = confusion_matrix(truth, predicted, num_classes=num_classes)
    assert matrix.dtype == np.int64
    np.testing.assert_array_equal(matrix, expected)


def test_few_examples_of_many_classes_raise_no_warning():
    """Scikit-learn 1.7 warns that the labels look like regression targets; here a warning is an error."""
    classes = np.array([1, *range(1, 30)])
    assert class_scores(classes, classes[::-1], num_classes=77)["accuracy"] == 0
    assert class_scores([4, 4], [4, 4], num_classes=77)["macro_f1"] == 1
    assert confusion_matrix(classes, classes, num_classes=30).trace() == 30


def test_constant_predictions_have_no_correlation():
    assert class_scores([0, 1, 1], [1, 1, 1], num_classes=2)["matthews"] == 0
    assert class_scores([1, 1, 1], [1, 1, 1], num_classes=2)["matthews"] == 0


def test_hand_computed_multi_label_scores():
    truth = [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    predicted = [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    assert multi_label_scores(truth, predicted) == {
        "micro_f1": pytest.approx(2 * 2 / (3 + 3), **CLOSE),
        "macro_f1": pytest.approx((1 + 2 / 3 + 0 + 0) / 4, **CLOSE),
        "exact_match": pytest.approx(1 / 3, **CLOSE),
    }


@settings(max_examples=60, deadline=None)
@given(class_sets)
def test_multi_label_scores_equal_their_definitions_even_for_a_single_class(drawn):
    truth, predicted = drawn
    scores = multi_label_scores(truth.astype(bool), predicted.astype("float32"))
    assert scores["micro_f1"] == pytest.approx(compute_f1(truth, predicted), **CLOSE)
    by_class = [compute_f1(truth[:, column], predicted[:, column]) for column in range(truth.shape[1])]
    assert scores["macro_f1"] == pytest.approx(np.mean(by_class), **CLOSE)
    assert scores["exact_match"] == pytest.approx(np.mean(np.all(truth == predicted, axis=1)), **CLOSE)


@pytest.mark.parametrize("score", [class_scores, confusion_matrix])
@pytest.mark.parametrize(
    ("truth", "predicted", "message"),
    [
        ([0, 1], [0], r"there are 1 predictions for 2 examples; expected one for each: predict all of them"),
        ([], [], r"there are no examples to score"),
        ([0, 3], [0, 1], r"truth\[1\] is 3; expected a class from 0 to 2: .* num_classes, which is 3"),
        ([0, 1], [-1, 1], r"predicted\[0\] is -1; expected a class from 0 to 2"),
        ([0, 1], [[0.9, 0.1], [0.2, 0.8]], r"predicted has shape \(2, 2\) and type float64; .* take the argmax"),
        ([0, 1], [0.0, 1.0], r"predicted has shape \(2,\) and type float64; expected one integer per example"),
        (["0", "1"], [0, 1], r"truth has shape \(2,\) and type <U1"),
    ],
)
def test_invalid_classes_are_errors(score, truth, predicted, message):
    with pytest.raises(InputError, match=message):
        score(truth, predicted, num_classes=3)


@pytest.mark.parametrize(
    ("truth", "predicted", "message"),
    [
        ([[0, 1]], [[0, 1], [0, 1]], r"truth has shape \(1, 2\) and predicted \(2, 2\); expected the same shape"),
        ([0, 1], [0, 1], r"truth has shape \(2,\)"),
        (np.zeros((0, 2)), np.zeros((0, 2)), r"there are no examples to score"),
        ([[0, 1]], [[0.0, 0.7]], r"predicted\[0, 1\] is 0.7; expected 0 or 1: .* with a threshold"),
        ([[0, 2]], [[0, 1]], r"truth\[0, 1\] is 2; expected 0 or 1"),
    ],
)
def test_invalid_class_sets_are_errors(truth, predicted, message):
    with pytest.raises(InputError, match=message):
        multi_label_scores(truth, predicted)
