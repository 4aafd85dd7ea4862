"""Kinds and statistics of attention heads, on constructed attention."""

import numpy as np
import pytest

from bert_keras.analysis.inspection.head_summaries import summarize_heads

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
