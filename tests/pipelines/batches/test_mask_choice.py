"""Words and spans are masked as a whole, spans have the right lengths, and the choice equals Google's algorithm."""

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.pipelines.batches.epochs import make_example_seeds, uniform, uniform_at
from bert_keras.pipelines.batches.masking import (
    MaskingTokens,
    choose_tokens,
    choose_words,
    compute_span_length_rates,
    draw_spans,
    find_word_starts,
    mask_tokens,
)

# a vocabulary of 5 special tokens, 40 words and 20 "##" tokens
SPECIAL, MASK_ID, FIRST_CONTINUATION, VOCABULARY_SIZE = 5, 4, 45, 65
IDS = np.arange(VOCABULARY_SIZE)
TOKENS = MaskingTokens(MASK_ID, IDS < SPECIAL, IDS >= FIRST_CONTINUATION, IDS[SPECIAL:].astype(np.int32))


def make_sequences(num_sequences, length, continuation_rate=0.25, special_rate=0.03, seed=0):
    """Make sequences with special tokens in between, as if packed; "##" tokens can be anywhere."""
    rng = np.random.default_rng(seed)
    continues = rng.random((num_sequences, length)) < continuation_rate
    words = rng.integers(SPECIAL, FIRST_CONTINUATION, (num_sequences, length))
    ids = np.where(continues, rng.integers(FIRST_CONTINUATION, VOCABULARY_SIZE, (num_sequences, length)), words)
    special = rng.random((num_sequences, length)) < special_rate
    special[:, 0] = special_rate > 0
    return np.where(special, rng.integers(2, 4, (num_sequences, length)), ids).astype(np.int32)


def list_words(sequence):
    """Return the words of a sequence as lists of positions."""
    words = []
    for position, index in enumerate(sequence):
        if index < SPECIAL:
            continue
        if index >= FIRST_CONTINUATION and position > 0 and sequence[position - 1] >= SPECIAL:
            words[-1].append(position)
        else:
            words.append([position])
    return words


def mask(ids, unit, mask_rate=0.15, max_predictions=None, seed=0):
    """Return the masked positions as a `(B, S)` bool array, and the new ids."""
    features = {"token_ids": tf.constant(ids), "padding_mask": tf.ones_like(ids)}
    seeds = make_example_seeds(seed, 0, tf.range(len(ids)))
    new, labels = mask_tokens(
        features, TOKENS, seeds=seeds, mask_rate=mask_rate, unit=unit, max_predictions=max_predictions
    )
    chosen = np.zeros(ids.shape, bool)
    sequences, columns = np.nonzero(labels["mask_weights"].numpy())
    chosen[sequences, new["mask_positions"].numpy()[sequences, columns]] = True
    return chosen, new["token_ids"].numpy()


def find_candidates(ids):
    return tf.constant(ids >= SPECIAL), tf.constant(ids >= FIRST_CONTINUATION)


@pytest.mark.parametrize("unit", ["whole_word", "span"])
def test_words_are_masked_completely_or_not_at_all(unit):
    ids = make_sequences(1001, 97)
    chosen, _ = mask(ids, unit)
    num_chosen_words = 0
    for sequence, is_masked in zip(ids, chosen, strict=True):
        for word in list_words(sequence):
            assert len(set(is_masked[word])) == 1
            num_chosen_words += is_masked[word[0]]
    assert num_chosen_words > 5000


def test_unit_token_masks_single_tokens_of_words():
    ids = make_sequences(101, 97)
    chosen, _ = mask(ids, "token")
    assert any(
        len(set(is_masked[word])) == 2
        for sequence, is_masked in zip(ids, chosen, strict=True)
        for word in list_words(sequence)
    )


def test_token_after_a_special_token_starts_a_word():
    ids = np.array([[50, 51, 2, 52, 7, 53, 3, 3, 54]], np.int32)
    begins = find_word_starts(*find_candidates(ids)).numpy()[0]
    assert begins.nonzero()[0].tolist() == [0, 3, 4, 8]


def choose_as_google(words, scores, budget):
    """Choose words by score like `create_masked_lm_predictions` of Google's create_pretraining_data.py."""
    chosen = []
    for word in sorted(words, key=lambda word: -scores[word[0]]):  # stable, so the left of equal scores is first
        if len(chosen) >= budget:
            break
        if len(chosen) + len(word) <= budget:
            chosen += word
    return sorted(chosen)


@settings(max_examples=30, deadline=None)
@given(
    num_sequences=st.integers(1, 5),
    length=st.integers(1, 41),
    continuation_rate=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    special_rate=st.sampled_from([0.0, 0.1, 1.0]),
    max_predictions=st.integers(1, 50),
    spans=st.booleans(),
    seed=st.integers(0, 2**31 - 1),
)
def test_chosen_words_equal_google(
    num_sequences, length, continuation_rate, special_rate, max_predictions, spans, seed
):
    ids = make_sequences(num_sequences, length, continuation_rate, special_rate, seed)
    candidates, continues = find_candidates(ids)
    budget = np.random.default_rng(seed).integers(0, max_predictions + 1, (num_sequences, 1)).astype(np.int32)
    seeds = make_example_seeds(seed, 0, tf.range(num_sequences))
    span_ids = draw_spans(candidates, continues, seeds) if spans else None
    scores = (uniform_at(seeds, 0, span_ids) if spans else uniform(seeds, 0, length)).numpy()
    positions = choose_words(candidates, continues, span_ids, seeds, tf.constant(budget), max_predictions).numpy()
    assert positions.shape == (num_sequences, max_predictions)
    for sequence in range(num_sequences):
        expected = choose_as_google(list_words(ids[sequence]), scores[sequence], budget[sequence, 0])
        assert positions[sequence].tolist() == expected + [length] * (max_predictions - len(expected))


@settings(max_examples=30, deadline=None)
@given(num_sequences=st.integers(1, 5), length=st.integers(1, 41), max_predictions=st.integers(1, 50))
def test_candidates_with_the_highest_scores_are_chosen(num_sequences, length, max_predictions):
    ids = make_sequences(num_sequences, length, special_rate=0.2)
    candidates = find_candidates(ids)[0]
    seeds = make_example_seeds(0, 0, tf.range(num_sequences))
    budget = np.minimum(np.arange(num_sequences) + 1, (ids >= SPECIAL).sum(1)).clip(max=max_predictions)
    positions = choose_tokens(candidates, seeds, tf.constant(budget[:, None], tf.int32), max_predictions).numpy()
    scores = np.where(ids >= SPECIAL, uniform(seeds, 0, length).numpy(), -1)
    for sequence in range(num_sequences):
        expected = sorted(np.argsort(-scores[sequence])[: budget[sequence]].tolist())
        assert positions[sequence].tolist() == expected + [length] * (max_predictions - len(expected))


def test_span_lengths_follow_the_truncated_geometric_distribution():
    """Chi-square over the ten lengths is at most five standard deviations (4.2) above its mean (9)."""
    rates = compute_span_length_rates()
    np.testing.assert_allclose(rates[1:] / rates[:-1], 0.8)
    assert len(rates) == 10
    assert rates.sum() == pytest.approx(1)
    assert rates @ np.arange(1, 11) == pytest.approx(3.8, abs=0.01)  # SpanBERT, section 3.1
    ids = make_sequences(2501, 400, continuation_rate=0.2, special_rate=0.0)
    counts = np.zeros(11)
    spans = draw_spans(*find_candidates(ids), make_example_seeds(1, 0, tf.range(len(ids)))).numpy()
    for sequence, span_ids in zip(ids, spans, strict=True):
        lengths = np.unique([span_ids[word[0]] for word in list_words(sequence)], return_counts=True)[1]
        counts += np.bincount(lengths[:40], minlength=11)  # the sequence ends within the last span, about the 84th
    expected = counts.sum() * rates
    assert counts.sum() == 2501 * 40
    assert counts[0] == 0
    assert ((counts[1:] - expected) ** 2 / expected).sum() < 9 + 5 * math.sqrt(18)


def test_span_is_a_run_of_words_without_special_tokens():
    ids = make_sequences(301, 61, special_rate=0.1)
    spans = draw_spans(*find_candidates(ids), make_example_seeds(1, 0, tf.range(len(ids)))).numpy()
    for sequence, span_ids in zip(ids, spans, strict=True):
        assert all(len(set(span_ids[word])) == 1 for word in list_words(sequence))
        assert (np.diff(span_ids) >= 0).all()
        specials = (sequence < SPECIAL).nonzero()[0]
        for left, right in zip([-1, *specials], [*specials, len(sequence)], strict=True):
            assert not set(span_ids[left + 1 : right]) & set(span_ids[right + 1 :])


def test_masked_spans_are_several_words_long():
    """Masked runs have 1.2 words on average for words and about 3.8 for spans.

    The last span is truncated, and adjacent spans merge. A quarter of the tokens continue a word.
    """
    ids = make_sequences(1001, 509, special_rate=0.0)
    means = {}
    for unit in ("whole_word", "span"):
        chosen, _ = mask(ids, unit)
        begins = find_word_starts(*find_candidates(ids)).numpy()
        num_runs = (chosen & ~np.pad(chosen[:, :-1], ((0, 0), (1, 0)))).sum()
        means[unit] = (chosen & begins).sum() / num_runs
    assert 1.1 < means["whole_word"] < 1.25
    assert 3.8 < means["span"] < 4.5


def test_replacement_is_drawn_per_span_and_per_token_of_a_word():
    ids = make_sequences(301, 201, special_rate=0.0)
    mixed = {}
    for unit in ("whole_word", "span"):
        chosen, new = mask(ids, unit)
        spans = draw_spans(*find_candidates(ids), make_example_seeds(0, 0, tf.range(len(ids)))).numpy()
        groups = {}
        for sequence, position in zip(*chosen.nonzero(), strict=True):
            groups.setdefault((sequence, spans[sequence, position]), []).append(new[sequence, position] == MASK_ID)
        mixed[unit] = np.mean([len(set(kinds)) > 1 for kinds in groups.values() if len(kinds) > 1])
    assert mixed["span"] == 0
    assert mixed["whole_word"] > 0.3  # for two tokens: 2 * 0.8 * 0.2


@pytest.mark.parametrize("unit", ["whole_word", "span"])
def test_replace_rates_hold_for_words_and_spans(unit):
    """80/10/10 within three standard errors, measured on 118,000 masked tokens.

    The tokens of a span are replaced in the same way, so the standard error is larger by the root of mean square length
    over mean length of the spans, 2.4.
    """
    ids = make_sequences(4001, 201)
    chosen, new = mask(ids, unit)
    count = chosen.sum()
    assert count > 100_000
    factor = 1.0 if unit == "whole_word" else 2.6
    same = 0.1 / len(TOKENS.random_ids)
    for measured, rate in (
        ((new == MASK_ID) & chosen, 0.8),
        ((new == ids) & chosen, 0.1 + same),
    ):
        assert abs(measured.sum() / count - rate) < 3 * factor * math.sqrt(rate * (1 - rate) / count)


def test_nothing_is_masked_if_no_word_fits_into_the_budget():
    ids = np.array([[2, 7, 50, 50, 50, 3, 50, 50, 50, 50, 3]], np.int32)  # two words of four tokens
    assert not mask(ids, "whole_word")[0].any()
    assert mask(ids, "whole_word", mask_rate=0.5)[0].sum() == 4
    assert not mask(np.full((3, 4), 2, np.int32), "span")[0].any()
