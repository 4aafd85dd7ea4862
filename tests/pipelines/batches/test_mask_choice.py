"""Whole words and spans: complete, of the right lengths, and chosen by Google's rule."""

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.pipelines.batches.mask_choice import (
    choose_tokens,
    choose_words,
    draw_spans,
    find_word_starts,
    span_length_rates,
)
from bert_keras.pipelines.batches.masking import MaskingTokens, mask_tokens
from bert_keras.pipelines.batches.seeds import example_seeds, uniform, uniform_at

# a vocabulary of 5 special tokens, 40 words and 20 tokens that continue one
SPECIAL, MASK_ID, FIRST_CONTINUATION, VOCABULARY_SIZE = 5, 4, 45, 65
IDS = np.arange(VOCABULARY_SIZE)
TOKENS = MaskingTokens(MASK_ID, IDS < SPECIAL, IDS >= FIRST_CONTINUATION, IDS[SPECIAL:].astype(np.int32))


def rows_of(num_rows, length, continuation_rate=0.25, special_rate=0.03, seed=0):
    """Rows of tokens with special tokens strewn in, as in packed rows; "##" tokens stand anywhere, also behind them."""
    rng = np.random.default_rng(seed)
    continues = rng.random((num_rows, length)) < continuation_rate
    words = rng.integers(SPECIAL, FIRST_CONTINUATION, (num_rows, length))
    ids = np.where(continues, rng.integers(FIRST_CONTINUATION, VOCABULARY_SIZE, (num_rows, length)), words)
    special = rng.random((num_rows, length)) < special_rate
    special[:, 0] = special_rate > 0
    return np.where(special, rng.integers(2, 4, (num_rows, length)), ids).astype(np.int32)


def words_of(row):
    """The words of a row, as lists of positions, spelt out."""
    words = []
    for position, index in enumerate(row):
        if index < SPECIAL:
            continue
        if index >= FIRST_CONTINUATION and position > 0 and row[position - 1] >= SPECIAL:
            words[-1].append(position)
        else:
            words.append([position])
    return words


def masked(ids, unit, mask_rate=0.15, max_predictions=None, seed=0):
    """Returns `(B, S)` bool, what was chosen, and the new ids."""
    features = {"token_ids": tf.constant(ids), "padding_mask": tf.ones_like(ids)}
    seeds = example_seeds(seed, 0, tf.range(len(ids)))
    new, labels = mask_tokens(
        features, TOKENS, seeds=seeds, mask_rate=mask_rate, unit=unit, max_predictions=max_predictions
    )
    chosen = np.zeros(ids.shape, bool)
    rows, slots = np.nonzero(labels["mask_weights"].numpy())
    chosen[rows, new["mask_positions"].numpy()[rows, slots]] = True
    return chosen, new["token_ids"].numpy()


def candidates_of(ids):
    return tf.constant(ids >= SPECIAL), tf.constant(ids >= FIRST_CONTINUATION)


@pytest.mark.parametrize("unit", ["whole_word", "span"])
def test_no_word_is_chosen_in_part(unit):
    ids = rows_of(1001, 97)
    chosen, _ = masked(ids, unit)
    num_chosen_words = 0
    for row, of_row in zip(ids, chosen, strict=True):
        for word in words_of(row):
            assert len(set(of_row[word])) == 1
            num_chosen_words += of_row[word[0]]
    assert num_chosen_words > 5000


def test_single_tokens_are_chosen_out_of_words_too():
    ids = rows_of(101, 97)
    chosen, _ = masked(ids, "token")
    assert any(len(set(of_row[word])) == 2 for row, of_row in zip(ids, chosen, strict=True) for word in words_of(row))


def test_words_begin_at_special_tokens_whatever_token_follows():
    ids = np.array([[50, 51, 2, 52, 7, 53, 3, 3, 54]], np.int32)
    begins = find_word_starts(*candidates_of(ids)).numpy()[0]
    assert begins.nonzero()[0].tolist() == [0, 3, 4, 8]


def googles_choice(words, scores, budget):
    """`create_masked_lm_predictions` of Google's create_pretraining_data.py, on an order given by scores."""
    chosen = []
    for word in sorted(words, key=lambda word: -scores[word[0]]):  # stable: equal scores from the left
        if len(chosen) >= budget:
            break
        if len(chosen) + len(word) <= budget:
            chosen += word
    return sorted(chosen)


@settings(max_examples=60, deadline=None)
@given(
    num_rows=st.integers(1, 5),
    length=st.integers(1, 41),
    continuation_rate=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    special_rate=st.sampled_from([0.0, 0.1, 1.0]),
    max_predictions=st.integers(1, 50),
    spans=st.booleans(),
    seed=st.integers(0, 2**31 - 1),
)
def test_words_are_chosen_by_googles_rule(
    num_rows, length, continuation_rate, special_rate, max_predictions, spans, seed
):
    ids = rows_of(num_rows, length, continuation_rate, special_rate, seed)
    candidates, continues = candidates_of(ids)
    budget = np.random.default_rng(seed).integers(0, max_predictions + 1, (num_rows, 1)).astype(np.int32)
    seeds = example_seeds(seed, 0, tf.range(num_rows))
    span_ids = draw_spans(candidates, continues, seeds) if spans else None
    scores = (uniform_at(seeds, 0, span_ids) if spans else uniform(seeds, 0, length)).numpy()
    given = choose_words(candidates, continues, span_ids, seeds, tf.constant(budget), max_predictions).numpy()
    assert given.shape == (num_rows, max_predictions)
    for row in range(num_rows):
        expected = googles_choice(words_of(ids[row]), scores[row], budget[row, 0])
        assert given[row].tolist() == expected + [length] * (max_predictions - len(expected))


@settings(max_examples=30, deadline=None)
@given(num_rows=st.integers(1, 5), length=st.integers(1, 41), max_predictions=st.integers(1, 50))
def test_the_best_of_the_candidates_are_chosen(num_rows, length, max_predictions):
    ids = rows_of(num_rows, length, special_rate=0.2)
    candidates = candidates_of(ids)[0]
    seeds = example_seeds(0, 0, tf.range(num_rows))
    budget = np.minimum(np.arange(num_rows) + 1, (ids >= SPECIAL).sum(1)).clip(max=max_predictions)
    given = choose_tokens(candidates, seeds, tf.constant(budget[:, None], tf.int32), max_predictions).numpy()
    scores = np.where(ids >= SPECIAL, uniform(seeds, 0, length).numpy(), -1)
    for row in range(num_rows):
        expected = sorted(np.argsort(-scores[row])[: budget[row]].tolist())
        assert given[row].tolist() == expected + [length] * (max_predictions - len(expected))


def test_span_lengths_follow_the_cut_geometric_law():
    """Chi-square over the ten lengths, within five standard deviations of its mean: 9, which has a deviation of 4.2."""
    rates = span_length_rates()
    np.testing.assert_allclose(rates[1:] / rates[:-1], 0.8)
    assert len(rates) == 10
    assert rates.sum() == pytest.approx(1)
    assert rates @ np.arange(1, 11) == pytest.approx(3.8, abs=0.01)  # SpanBERT, section 3.1
    ids = rows_of(2501, 400, continuation_rate=0.2, special_rate=0.0)
    counts = np.zeros(11)
    spans = draw_spans(*candidates_of(ids), example_seeds(1, 0, tf.range(len(ids)))).numpy()
    for row, of_row in zip(ids, spans, strict=True):
        lengths = np.unique([of_row[word[0]] for word in words_of(row)], return_counts=True)[1]
        counts += np.bincount(lengths[:40], minlength=11)  # the end of the row cuts the last one, the 84th or so
    expected = counts.sum() * rates
    assert counts.sum() == 2501 * 40
    assert counts[0] == 0
    assert ((counts[1:] - expected) ** 2 / expected).sum() < 9 + 5 * math.sqrt(18)


def test_tokens_of_a_span_are_of_one_word_run_and_special_tokens_end_it():
    ids = rows_of(301, 61, special_rate=0.1)
    spans = draw_spans(*candidates_of(ids), example_seeds(1, 0, tf.range(len(ids)))).numpy()
    for row, of_row in zip(ids, spans, strict=True):
        assert all(len(set(of_row[word])) == 1 for word in words_of(row))
        assert (np.diff(of_row) >= 0).all()
        specials = (row < SPECIAL).nonzero()[0]
        for left, right in zip([-1, *specials], [*specials, len(row)], strict=True):
            assert not set(of_row[left + 1 : right]) & set(of_row[right + 1 :])


def test_chosen_spans_are_several_words_long():
    """Mean length of runs: 1.2 words for words, and near the law's 3.8 for spans, of which the last is cut and
    neighbours grow together. One token in four continues a word."""
    ids = rows_of(1001, 509, special_rate=0.0)
    means = {}
    for unit in ("whole_word", "span"):
        chosen, _ = masked(ids, unit)
        begins = find_word_starts(*candidates_of(ids)).numpy()
        num_runs = (chosen & ~np.pad(chosen[:, :-1], ((0, 0), (1, 0)))).sum()
        means[unit] = (chosen & begins).sum() / num_runs
    assert 1.1 < means["whole_word"] < 1.25
    assert 3.8 < means["span"] < 4.5


def test_what_becomes_of_a_span_is_drawn_once_and_of_a_word_for_each_token():
    ids = rows_of(301, 201, special_rate=0.0)
    mixed = {}
    for unit in ("whole_word", "span"):
        chosen, new = masked(ids, unit)
        spans = draw_spans(*candidates_of(ids), example_seeds(0, 0, tf.range(len(ids)))).numpy()
        groups = {}
        for row, position in zip(*chosen.nonzero(), strict=True):
            groups.setdefault((row, spans[row, position]), []).append(new[row, position] == MASK_ID)
        mixed[unit] = np.mean([len(set(kinds)) > 1 for kinds in groups.values() if len(kinds) > 1])
    assert mixed["span"] == 0
    assert mixed["whole_word"] > 0.3  # of two tokens 2 * 0.8 * 0.2


@pytest.mark.parametrize("unit", ["whole_word", "span"])
def test_rates_hold_for_words_and_spans(unit):
    """80/10/10 within three standard errors. Tokens of a span are alike, so its standard error is wider by
    the root of the spans' mean square length over their mean, 2.4; measured on 118,000 chosen tokens."""
    ids = rows_of(4001, 201)
    chosen, new = masked(ids, unit)
    count = chosen.sum()
    assert count > 100_000
    wider = 1.0 if unit == "whole_word" else 2.6
    same = 0.1 / len(TOKENS.random_ids)
    for measured, rate in (
        ((new == MASK_ID) & chosen, 0.8),
        ((new == ids) & chosen, 0.1 + same),
    ):
        assert abs(measured.sum() / count - rate) < 3 * wider * math.sqrt(rate * (1 - rate) / count)


def test_a_budget_that_no_word_fits_into_is_left():
    ids = np.array([[2, 7, 50, 50, 50, 3, 50, 50, 50, 50, 3]], np.int32)  # two words of four tokens
    assert not masked(ids, "whole_word")[0].any()
    assert masked(ids, "whole_word", mask_rate=0.5)[0].sum() == 4
    assert not masked(np.full((3, 4), 2, np.int32), "span")[0].any()
