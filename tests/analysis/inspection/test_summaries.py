"""Summaries of attention heads, similarity of vectors, and curves, against direct computations."""

import math

import numpy as np
import pytest

from bert_keras.analysis.inspection.summaries import (
    average_by_distance,
    compute_activations,
    compute_position_similarity,
    compute_similarity,
    get_position_tables,
    measure_gelu_difference,
    summarize_heads,
)

SIZE = 12
TOKENS = ["[CLS]", *["word"] * 4, "[SEP]", *["word"] * 5, "[SEP]"]


def attend_to(*keys):
    """Uniform attention of every query to some keys."""
    attention = np.zeros((SIZE, SIZE))
    attention[:, keys] = 1 / len(keys)
    return attention


def shift(offset):
    """Attention of each query to the key `offset` after it; at the ends to itself."""
    positions = np.clip(np.arange(SIZE) + offset, 0, SIZE - 1)
    return np.eye(SIZE)[positions]


def attend_near():
    """Uniform attention to the keys within 2 tokens."""
    positions = np.arange(SIZE)
    attention = (np.abs(positions[:, None] - positions[None, :]) <= 2).astype(float)
    return attention / attention.sum(1, keepdims=True)


KINDS = {
    "[CLS]": 0.6 * attend_to(0) + 0.4 * attend_to(*range(SIZE)),
    "[SEP]": 0.6 * attend_to(5, 11) + 0.4 * attend_to(*range(SIZE)),
    "itself": shift(0),
    "previous": shift(-1),
    "next": shift(1),
    "broad": attend_to(*range(SIZE)),
    "local": attend_near(),
    "mixed": attend_to(1, 2, 9),
}


def summarize(attention):
    [summary] = summarize_heads(attention[None, None], TOKENS)
    return summary


@pytest.mark.parametrize("kind", KINDS)
def test_heads_are_classified(kind):
    assert summarize(KINDS[kind]).kind == kind


def test_at_least_half_of_the_attention_determines_the_kind():
    assert summarize(0.49 * attend_to(0) + 0.51 * attend_to(1)).kind == "mixed"
    assert summarize(0.51 * attend_to(0) + 0.49 * attend_to(1)).kind == "[CLS]"


def test_statistics_of_uniform_attention():
    summary = summarize(attend_to(*range(SIZE)))
    assert summary.entropy == pytest.approx(np.log2(SIZE))
    assert summary.distance == pytest.approx((SIZE**2 - 1) / (3 * SIZE))
    assert summary.cls == pytest.approx(1 / SIZE)
    assert summary.sep == pytest.approx(2 / SIZE)
    assert summary.itself == pytest.approx(1 / SIZE)


def test_attention_to_a_single_key_has_entropy_0():
    assert summarize(attend_to(3)).entropy == 0
    assert summarize(shift(0)).distance == 0
    assert summarize(shift(-1)).distance == pytest.approx((SIZE - 1) / SIZE)


def test_previous_and_next_are_distinguished():
    assert (summarize(shift(-1)).previous, summarize(shift(-1)).next) == (1, 0)
    assert (summarize(shift(1)).previous, summarize(shift(1)).next) == (0, 1)


def test_summaries_are_ordered_by_layer():
    attention = np.stack([np.stack([shift(0), shift(1)]), np.stack([attend_to(0), shift(-1)])])
    found = [(head.layer, head.head, head.kind) for head in summarize_heads(attention, TOKENS)]
    assert found == [(0, 0, "itself"), (0, 1, "next"), (1, 0, "[CLS]"), (1, 1, "previous")]


def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


def test_cosines_compare_the_documented_states():
    states = np.random.default_rng(3).normal(size=(4, 5, 7))
    similarity = compute_similarity(states)
    assert similarity.to_previous.shape == (3, 5)
    assert similarity.to_previous[1, 2] == pytest.approx(cosine(states[2, 2], states[1, 2]))
    assert similarity.to_embeddings[1, 2] == pytest.approx(cosine(states[2, 2], states[0, 2]))
    assert similarity.between_tokens[3, 1, 4] == pytest.approx(cosine(states[3, 1], states[3, 4]))


def test_anisotropy_excludes_pairs_of_a_token_with_itself():
    states = np.eye(3)[None]  # three orthogonal vectors
    assert compute_similarity(np.concatenate([states, states])).anisotropy.tolist() == [0, 0]


def test_learned_and_sinusoidal_positions(make):
    model = make("encoder")
    tables = get_position_tables(model)
    np.testing.assert_array_equal(tables["learned"], model.embeddings.position.embeddings)
    assert tables["sinusoidal"].shape == (17, 30)
    assert tables["sinusoidal"][5, :2].tolist() == pytest.approx([math.sin(5), math.cos(5)])


def test_a_model_with_sinusoidal_positions_has_no_learned_ones(make):
    assert list(get_position_tables(make("encoder", position_type="sinusoidal"))) == ["sinusoidal"]


def test_the_similarity_of_sinusoidal_positions_depends_only_on_their_distance(make):
    cosines = compute_position_similarity(get_position_tables(make("encoder"))["sinusoidal"])
    assert cosines[2, 5] == pytest.approx(cosines[9, 12], abs=5e-7)  # measured: 6e-8
    assert average_by_distance(cosines)[3] == pytest.approx(cosines[2, 5], abs=5e-7)


def test_activations_match_their_formulas():
    curves = compute_activations()
    x = curves["x"].astype(np.float64)
    expected = [0.5 * value * (1 + math.erf(value / math.sqrt(2))) for value in x]
    np.testing.assert_allclose(curves["gelu"], expected, rtol=0, atol=1e-6)  # measured: 3.1e-7
    np.testing.assert_array_equal(curves["relu"], np.maximum(curves["x"], 0))


def test_the_tanh_approximation_of_gelu_has_the_documented_error():
    largest, place = measure_gelu_difference()
    assert largest == pytest.approx(4.732e-4, rel=2e-3)  # float64: 4.7324e-4 at 2.699; measured: 4.7350e-4
    assert abs(place) == pytest.approx(2.70, abs=0.02)
