"""Choose the tokens to mask: single tokens, whole words, or spans of words.

All three follow one rule: words are put in a random order, and each word that still fits into the budget of the
sequence is taken. With "token" every token is a word; with "span" neighbouring words share one place in the order.

A word never spans a special token, so a sequence may hold several packed examples.
"""

import numpy as np
import tensorflow as tf

from bert_keras.pipelines.batches.seeds import uniform, uniform_at

UNITS = ("token", "whole_word", "span")

_SPAN_END_RATE, _MAX_SPAN_WORDS = 0.2, 10  # p and l_max of SpanBERT (Joshi et al. 2019, section 3.1)
_ORDER, _SPAN_LENGTH = 0, 4  # draws of an example; `masking.py` has 1 to 3


def compute_span_length_rates() -> np.ndarray:
    """Return the probabilities of spans of 1 to 10 words: geometric, cut at 10 and normalized; the mean is 3.8."""
    rates = _SPAN_END_RATE * (1 - _SPAN_END_RATE) ** np.arange(_MAX_SPAN_WORDS)
    return rates / rates.sum()


def choose_tokens(candidates: tf.Tensor, seeds: tf.Tensor, budget: tf.Tensor, max_predictions: int) -> tf.Tensor:
    """Choose `budget` candidates of each sequence with equal probability.

    Args:
        candidates: `(B, S)` bool, the tokens that may be masked.
        seeds: `(B, 2)` integers.
        budget: `(B, 1)` int32, the number of tokens to mask, at most `max_predictions` and the number of candidates.
        max_predictions: M.

    Returns:
        Masked positions `(B, M)` int32 in ascending order; unused ones are S.
    """
    length = tf.shape(candidates)[1]
    scores = tf.where(candidates, uniform(seeds, _ORDER, length), -1.0)
    scores = tf.pad(scores, [[0, 0], [0, tf.maximum(max_predictions - length, 0)]], constant_values=-1.0)
    best = tf.math.top_k(scores, k=max_predictions).indices
    return tf.sort(tf.where(tf.range(max_predictions) < budget, best, length), axis=1)


def choose_words(
    candidates: tf.Tensor,
    continues: tf.Tensor,
    span_ids: tf.Tensor | None,
    seeds: tf.Tensor,
    budget: tf.Tensor,
    max_predictions: int,
) -> tf.Tensor:
    """Choose whole words, or spans of words, of at most `budget` tokens in total.

    A word that does not fit into the rest of the budget is skipped, as in Google's `create_pretraining_data.py`. The
    last span can therefore lose its end. SpanBERT cuts its last span too, even inside a word.

    Args:
        candidates, seeds, budget, max_predictions: see `choose_tokens`.
        continues: `(B, S)` bool, tokens that continue a word ("##").
        span_ids: the result of `draw_spans`: words of a span are neighbours in the order. None: each word on its own.

    Returns:
        Masked positions `(B, M)` int32 in ascending order; unused ones are S.
    """
    length = tf.shape(candidates)[1]
    is_start = find_word_starts(candidates, continues)
    scores = uniform(seeds, _ORDER, length) if span_ids is None else uniform_at(seeds, _ORDER, span_ids)
    max_words = tf.maximum(tf.reduce_max(tf.reduce_sum(tf.cast(is_start, tf.int32), axis=1)), 1)
    # top_k puts the left one of equal scores first, so the words of a span keep their order
    order = tf.math.top_k(tf.where(is_start, scores, -1.0), k=max_words).indices  # (B, W)
    sizes = tf.gather(_count_word_tokens(is_start, candidates), order, batch_dims=1)  # (B, W), 0 = no word
    sizes = _keep_fitting(sizes, budget)
    ends = tf.cumsum(sizes, axis=1)  # the number of masked tokens up to each word
    number = tf.broadcast_to(tf.range(max_predictions), (tf.shape(candidates)[0], max_predictions))
    word = tf.searchsorted(ends, number, side="right")  # (B, M): the word of each masked token
    word = tf.minimum(word, max_words - 1)
    offsets = number - tf.gather(ends - sizes, word, batch_dims=1)
    positions = tf.gather(order, word, batch_dims=1) + offsets
    return tf.sort(tf.where(number < ends[:, -1:], positions, length), axis=1)


def draw_spans(candidates: tf.Tensor, continues: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
    """Divide the words of each sequence into spans of random length (SpanBERT). Return the span of each position.

    Lengths are independent draws from `compute_span_length_rates`. A special token ends a span early.

    Returns:
        Span ids `(B, S)` int32.
    """
    thresholds = tf.constant(np.cumsum(compute_span_length_rates())[:-1], tf.float32)
    draws = uniform(seeds, _SPAN_LENGTH, tf.shape(candidates)[1])  # there are at most S words, hence spans
    lengths = 1 + tf.reshape(tf.searchsorted(thresholds, tf.reshape(draws, [-1]), side="right"), tf.shape(draws))
    words = tf.cumsum(tf.cast(find_word_starts(candidates, continues), tf.int32), axis=1) - 1
    spans = tf.searchsorted(tf.cumsum(lengths, axis=1), tf.maximum(words, 0), side="right")
    # both terms only grow along the sequence, so their sum is a new id when either changes
    return spans + tf.cumsum(tf.cast(~candidates, tf.int32), axis=1)


def find_word_starts(candidates: tf.Tensor, continues: tf.Tensor) -> tf.Tensor:
    """Return `(B, S)` bool: the first token of each word. After a special token even a "##" token starts a word."""
    follows_candidate = tf.pad(candidates[:, :-1], [[0, 0], [1, 0]])
    return candidates & ~(continues & follows_candidate)


def _count_word_tokens(is_start: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
    """Return the number of tokens of each word at its first token, and 0 elsewhere, `(B, S)` int32."""
    bounds = tf.reshape(is_start | ~candidates, [-1])  # a token that is not a candidate ends a word
    starts = tf.cast(tf.where(bounds)[:, 0], tf.int32)
    sizes = tf.concat([starts[1:], [tf.size(bounds)]], axis=0) - starts
    numbers = tf.reshape(tf.cumsum(tf.cast(bounds, tf.int32)) - 1, tf.shape(is_start))
    return tf.where(is_start, tf.gather(sizes, numbers), 0)


def _keep_fitting(sizes: tf.Tensor, budget: tf.Tensor) -> tf.Tensor:
    """Keep, from left to right, the sizes `(B, W)` that fit into the rest of the budget; set the others to 0.

    Each round keeps all sizes before the first that does not fit, in all sequences at once, and drops those larger
    than the rest of the budget. The largest remaining size shrinks every round: English words take two or three.
    """

    def keep_next(kept: tf.Tensor, undecided: tf.Tensor, rest: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        fits = (undecided > 0) & (tf.cumsum(undecided, axis=1) <= rest)
        added = tf.where(fits, undecided, 0)
        rest -= tf.reduce_sum(added, axis=1, keepdims=True)
        return kept + added, tf.where(fits | (undecided > rest), 0, undecided), rest

    start = (tf.zeros_like(sizes), sizes, budget)
    return tf.while_loop(lambda kept, undecided, rest: tf.reduce_any(undecided > 0), keep_next, start)[0]
