"""Cosines between vectors, position tables, activations."""

import math

import numpy as np
import pytest

from bert_keras.analysis.inspection.curves import (
    activation_curves,
    by_distance,
    gelu_difference,
    position_similarity,
    position_tables,
)
from bert_keras.analysis.inspection.token_vectors import similarity


def cosine(one, other):
    return one @ other / (np.linalg.norm(one) * np.linalg.norm(other))


def test_cosines_are_between_the_states_that_they_name():
    states = np.random.default_rng(3).normal(size=(4, 5, 7))
    found = similarity(states)
    assert found.to_previous.shape == (3, 5)
    assert found.to_previous[1, 2] == pytest.approx(cosine(states[2, 2], states[1, 2]))
    assert found.to_embeddings[1, 2] == pytest.approx(cosine(states[2, 2], states[0, 2]))
    assert found.between_tokens[3, 1, 4] == pytest.approx(cosine(states[3, 1], states[3, 4]))


def test_anisotropy_leaves_a_token_and_itself_out():
    states = np.eye(3)[None]  # three vectors at right angles
    assert similarity(np.concatenate([states, states])).anisotropy.tolist() == [0, 0]


def test_learned_positions_stand_beside_sinusoidal_ones(make):
    model = make("encoder")
    tables = position_tables(model)
    np.testing.assert_array_equal(tables["learned"], model.embeddings.position.embeddings)
    assert tables["sinusoidal"].shape == (17, 30)
    assert tables["sinusoidal"][5, :2].tolist() == pytest.approx([math.sin(5), math.cos(5)])


def test_a_model_with_sinusoidal_positions_has_those_alone(make):
    assert list(position_tables(make("encoder", position_type="sinusoidal"))) == ["sinusoidal"]


def test_sinusoidal_positions_know_only_how_far_they_lie_apart(make):
    cosines = position_similarity(position_tables(make("encoder"))["sinusoidal"])
    assert cosines[2, 5] == pytest.approx(cosines[9, 12], abs=5e-7)  # measured: 6e-8
    assert by_distance(cosines)[3] == pytest.approx(cosines[2, 5], abs=5e-7)


def test_activations_are_those_of_the_formulas():
    curves = activation_curves()
    x = curves["x"].astype(np.float64)
    expected = [0.5 * one * (1 + math.erf(one / math.sqrt(2))) for one in x]
    np.testing.assert_allclose(curves["gelu"], expected, rtol=0, atol=1e-6)  # measured: 3.1e-7
    np.testing.assert_array_equal(curves["relu"], np.maximum(curves["x"], 0))


def test_the_tanh_form_differs_from_gelu_by_less_than_a_two_thousandth():
    largest, place = gelu_difference()
    assert largest == pytest.approx(4.732e-4, rel=2e-3)  # float64: 4.7324e-4 at 2.699; measured: 4.7350e-4
    assert abs(place) == pytest.approx(2.70, abs=0.02)
