"""What the words for heads mean, on attention made by hand."""

import numpy as np
import pytest

from bert_keras.analysis.inspection.head_summaries import head_summaries

SIZE = 12
TOKENS = ["[CLS]", *["word"] * 4, "[SEP]", *["word"] * 5, "[SEP]"]


def rows_to(*columns):
    """Attention of which each column gets the same."""
    attention = np.zeros((SIZE, SIZE))
    attention[:, columns] = 1 / len(columns)
    return attention


def shifted(offset):
    """Attention of each token to the one `offset` after it; at the border to itself."""
    places = np.clip(np.arange(SIZE) + offset, 0, SIZE - 1)
    return np.eye(SIZE)[places]


def near():
    """Attention alike to all tokens within 2, and 3 % far away."""
    places = np.arange(SIZE)
    attention = (np.abs(places[:, None] - places[None, :]) <= 2).astype(float)
    return attention / attention.sum(1, keepdims=True)


KINDS = {
    "[CLS]": 0.6 * rows_to(0) + 0.4 * rows_to(*range(SIZE)),
    "[SEP]": 0.6 * rows_to(5, 11) + 0.4 * rows_to(*range(SIZE)),
    "itself": shifted(0),
    "previous": shifted(-1),
    "next": shifted(1),
    "broad": rows_to(*range(SIZE)),
    "local": near(),
    "mixed": rows_to(1, 2, 9),
}


def of(attention):
    [found] = head_summaries(attention[None, None], TOKENS)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_heads_are_named_after_what_they_do(kind):
    assert of(KINDS[kind]).kind == kind


def test_half_of_the_attention_names_a_head_and_less_does_not():
    assert of(0.49 * rows_to(0) + 0.51 * rows_to(1)).kind == "mixed"
    assert of(0.51 * rows_to(0) + 0.49 * rows_to(1)).kind == "[CLS]"


def test_uniform_attention_has_the_numbers_of_the_book():
    found = of(rows_to(*range(SIZE)))
    assert found.entropy == pytest.approx(np.log2(SIZE))
    assert found.distance == pytest.approx((SIZE**2 - 1) / (3 * SIZE))
    assert found.cls == pytest.approx(1 / SIZE)
    assert found.sep == pytest.approx(2 / SIZE)
    assert found.itself == pytest.approx(1 / SIZE)


def test_attention_to_one_token_has_no_entropy():
    assert of(rows_to(3)).entropy == 0
    assert of(shifted(0)).distance == 0
    assert of(shifted(-1)).distance == pytest.approx((SIZE - 1) / SIZE)


def test_before_and_after_are_told_apart():
    assert (of(shifted(-1)).previous, of(shifted(-1)).next) == (1, 0)
    assert (of(shifted(1)).previous, of(shifted(1)).next) == (0, 1)


def test_summaries_come_layer_by_layer():
    attention = np.stack([np.stack([shifted(0), shifted(1)]), np.stack([rows_to(0), shifted(-1)])])
    found = [(head.layer, head.head, head.kind) for head in head_summaries(attention, TOKENS)]
    assert found == [(0, 0, "itself"), (0, 1, "next"), (1, 0, "[CLS]"), (1, 1, "previous")]
