"""Which tokens of a row are masked: single ones, whole words, or spans of words.

One rule for the three: words come into a random order and are taken one after the other, each that still fits into
the row's budget of tokens. For "token" every token is a word of its own; for "span" neighbouring words share one place
in the order.

A word never reaches over a special token, so rows may hold several examples.
"""

import numpy as np
import tensorflow as tf

from bert_keras.pipelines.batches.seeds import uniform, uniform_at

UNITS = ("token", "whole_word", "span")

_SPAN_END_RATE, _MAX_SPAN_WORDS = 0.2, 10  # p and l_max of SpanBERT (Joshi et al. 2019, section 3.1)
_ORDER, _SPAN_LENGTH = 0, 4  # draws of an example; `masking.py` has 1 to 3


def span_length_rates() -> np.ndarray:
    """Returns the probability of spans of 1 to 10 words: geometric, cut at 10 and scaled to 1; the mean is 3.8."""
    rates = _SPAN_END_RATE * (1 - _SPAN_END_RATE) ** np.arange(_MAX_SPAN_WORDS)
    return rates / rates.sum()


def choose_tokens(candidates: tf.Tensor, seeds: tf.Tensor, budget: tf.Tensor, max_predictions: int):
    """Draws `budget` candidates of each row, all alike.

    Args:
        candidates: `(B, S)` bool, the tokens that may be masked.
        seeds: `(B, 2)`.
        budget: `(B, 1)` int32, how many to mask, at most `max_predictions` and the row's candidates.
        max_predictions: M.

    Returns:
        Positions `(B, M)` int32, ascending, S in unused slots.
    """
    length = tf.shape(candidates)[1]
    scores = tf.where(candidates, uniform(seeds, _ORDER, length), -1.0)
    scores = tf.pad(scores, [[0, 0], [0, tf.maximum(max_predictions - length, 0)]], constant_values=-1.0)
    best = tf.math.top_k(scores, k=max_predictions).indices
    return tf.sort(tf.where(tf.range(max_predictions) < budget, best, length), axis=1)


def choose_words(candidates, continues, span_ids, seeds, budget, max_predictions: int) -> tf.Tensor:
    """Draws whole words, or spans of them, of at most `budget` tokens together.

    A word that does not fit into what is left of the budget is passed over, as in Google's
    `create_pretraining_data.py`. So the last span can lack its end; SpanBERT ends it with the budget too, in the
    middle of a word if need be.

    Args:
        candidates, seeds, budget, max_predictions: as in `choose_tokens`.
        continues: `(B, S)` bool, tokens that continue a word ("##").
        span_ids: what `draw_spans` gave: words of one span stand side by side in the order. None: each by itself.

    Returns:
        Positions `(B, M)` int32, ascending, S in unused slots.
    """
    length = tf.shape(candidates)[1]
    begins = find_word_starts(candidates, continues)
    scores = uniform(seeds, _ORDER, length) if span_ids is None else uniform_at(seeds, _ORDER, span_ids)
    max_words = tf.maximum(tf.reduce_max(tf.reduce_sum(tf.cast(begins, tf.int32), axis=1)), 1)
    order = tf.math.top_k(tf.where(begins, scores, -1.0), k=max_words).indices  # (B, W); equal scores: from the left
    sizes = tf.gather(_word_sizes(begins, candidates), order, batch_dims=1)  # (B, W), 0 = no word
    sizes = _those_that_fit(sizes, budget)
    ends = tf.cumsum(sizes, axis=1)  # in slots
    slots = tf.broadcast_to(tf.range(max_predictions), (tf.shape(candidates)[0], max_predictions))
    word = tf.searchsorted(ends, slots, side="right")  # (B, M): the place of the slot's word in the order
    word = tf.minimum(word, max_words - 1)
    offsets = slots - tf.gather(ends - sizes, word, batch_dims=1)
    positions = tf.gather(order, word, batch_dims=1) + offsets
    return tf.sort(tf.where(slots < ends[:, -1:], positions, length), axis=1)


def draw_spans(candidates: tf.Tensor, continues: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
    """Divides each row's words into spans of random length (SpanBERT); the number of each position's span, `(B, S)`.

    Lengths are independent draws of `span_length_rates`. A special token ends a span early.
    """
    thresholds = tf.constant(np.cumsum(span_length_rates())[:-1], tf.float32)
    draws = uniform(seeds, _SPAN_LENGTH, tf.shape(candidates)[1])  # as many spans as there could be words
    lengths = 1 + tf.reshape(tf.searchsorted(thresholds, tf.reshape(draws, [-1]), side="right"), tf.shape(draws))
    word_numbers = tf.cumsum(tf.cast(find_word_starts(candidates, continues), tf.int32), axis=1) - 1
    spans = tf.searchsorted(tf.cumsum(lengths, axis=1), tf.maximum(word_numbers, 0), side="right")
    return spans + tf.cumsum(tf.cast(~candidates, tf.int32), axis=1)  # grows with either, so each pair has its number


def find_word_starts(candidates: tf.Tensor, continues: tf.Tensor) -> tf.Tensor:
    """Returns `(B, S)` bool: where words begin. Behind a special token even a "##" token begins one."""
    follows = tf.pad(candidates[:, :-1], [[0, 0], [1, 0]])
    return candidates & ~(continues & follows)


def _word_sizes(begins: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
    """Returns the number of tokens of each word at its first token, `(B, S)` int32, and 0 elsewhere."""
    bounds = tf.reshape(begins | ~candidates, [-1])  # what is no candidate ends a word
    starts = tf.cast(tf.where(bounds)[:, 0], tf.int32)
    sizes = tf.concat([starts[1:], [tf.size(bounds)]], axis=0) - starts
    numbers = tf.reshape(tf.cumsum(tf.cast(bounds, tf.int32)) - 1, tf.shape(begins))
    return tf.where(begins, tf.gather(sizes, numbers), 0)


def _those_that_fit(sizes: tf.Tensor, budget: tf.Tensor) -> tf.Tensor:
    """Goes along each row of sizes `(B, W)`, keeps each that fits into what is left of the budget, makes the rest 0.

    A round takes all up to the first that does not fit, for all rows at once. That one is larger than what is
    left, so the largest size that can still come shrinks with every round: two or three rounds for English words.
    """

    def take(taken, still, left):
        fits = (still > 0) & (tf.cumsum(still, axis=1) <= left)
        now = tf.where(fits, still, 0)
        left -= tf.reduce_sum(now, axis=1, keepdims=True)
        return taken + now, tf.where(fits | (still > left), 0, still), left

    loop = (tf.zeros_like(sizes), sizes, budget)
    return tf.while_loop(lambda taken, still, left: tf.reduce_any(still > 0), take, loop)[0]
