"""Masked language modelling: choose the tokens to mask and replace them.

Masks are a pure function of an example and its seeds. They do not depend on the batch, the number of workers or
earlier draws.

All units follow one rule: words are put in a random order, and each word that still fits into the budget of the
sequence is taken. With "token" every token is a word; with "span" neighbouring words share one index in the order. A
word never spans a special token, so a sequence may hold several packed examples.
"""

import dataclasses
import math
import re

import numpy as np
import tensorflow as tf

from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.pipelines.batches.epochs import random_bits_at, uniform, uniform_at
from bert_keras.pipelines.text.tokenizer import BertTokenizer

BERT_REPLACE_RATES = (0.8, 0.1)  # Devlin et al. 2018, section 3.1: 80 % [MASK], 10 % random, 10 % unchanged
ELECTRA_REPLACE_RATES = (0.85, 0.0)  # electra/pretrain/pretrain_helpers.py: 85 % [MASK], 15 % unchanged
UNITS = ("token", "whole_word", "span")
_SPAN_END_RATE, _MAX_SPAN_WORDS = 0.2, 10  # p and l_max of SpanBERT (Joshi et al. 2019, section 3.1)
_ORDER, _COUNT, _ACTION, _TOKEN, _SPAN_LENGTH = range(5)  # draws of an example


@dataclasses.dataclass(frozen=True, eq=False)
class MaskingTokens:
    """The facts about a vocabulary of V tokens that masking needs.

    Attributes:
        mask_id: the id of [MASK].
        is_special: `(V,)` bool, special tokens, which are never masked.
        continues_word: `(V,)` bool, tokens that continue a word ("##").
        random_ids: `(R,)` int32, the tokens that may replace a masked one: all but special tokens and tokens like
            [unused1], which occur in no text.
    """

    mask_id: int
    is_special: np.ndarray
    continues_word: np.ndarray
    random_ids: np.ndarray

    @classmethod
    def from_tokenizer(cls, tokenizer: BertTokenizer) -> "MaskingTokens":
        """Classify the tokens of a `BertTokenizer`.

        Raises:
            InputError: all tokens are special or unused.
        """
        vocabulary, special = tokenizer.vocabulary, set(tokenizer.special_tokens)
        is_special = np.array([token in special for token in vocabulary])
        is_unused = np.array([re.fullmatch(r"\[unused\d+\]", token) is not None for token in vocabulary])
        random_ids = np.flatnonzero(~is_special & ~is_unused).astype(np.int32)
        if not len(random_ids):
            raise InputError(
                "every token of the vocabulary is special or unused, so none can replace a masked token; expected "
                "ordinary tokens: learn a vocabulary from the text first"
            )
        continues_word = np.array([token.startswith("##") for token in vocabulary])
        return cls(tokenizer.mask_id, is_special, continues_word, random_ids)


def get_default_max_predictions(length: int, mask_rate: float = 0.15) -> int:
    """Return the default number of masked positions of `length` tokens, rounded up. BERT's 20 for 128, 77 for 512."""
    return max(1, math.ceil(round(length * mask_rate, 6)))  # 0.07 * 100 is 7.000000000000001


def mask_tokens(
    features: dict[str, tf.Tensor],
    tokens: MaskingTokens,
    *,
    seeds: tf.Tensor,
    max_predictions: int | None = None,
    mask_rate: float = 0.15,
    unit: str = "token",
    replace_rates: tuple[float, float] = BERT_REPLACE_RATES,
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Mask tokens for masked language modelling (Devlin et al. 2018).

    The budget of a sequence with n ordinary tokens is `n * mask_rate`, rounded up or down at random so that the mean
    is exact, at least 1 and at most `max_predictions`. Special tokens and padding are never masked. Units:

    - "token": single tokens. Exactly the budget is masked.
    - "whole_word": all tokens of a word or none. A word that does not fit into the rest of the budget is skipped, as
      in Google's `create_pretraining_data.py`, so fewer tokens are masked when no short word is left. In English text
      every sequence filled its budget (`docs/guide/pretraining.md`). The replacement is drawn per token.
    - "span": runs of 1 to 10 whole words, 3.8 on average (Joshi et al. 2019). The replacement is drawn per span.

    Args:
        features: `token_ids` and `padding_mask` (1 = real token, 0 = padding), `(B, S)` int32. Packed examples share
            the budget of their sequence.
        tokens: facts about the vocabulary.
        seeds: `(B, 2)` integers from `seeds.make_example_seeds`.
        max_predictions: M, the number of masked positions. Default: `get_default_max_predictions(S, mask_rate)`, which
            requires a static S.
        mask_rate: share of the ordinary tokens to mask.
        unit: one of `UNITS`.
        replace_rates: the share of masked tokens replaced by [MASK], and the share replaced by a random token; the
            rest is unchanged. `BERT_REPLACE_RATES` or `ELECTRA_REPLACE_RATES`.

    Returns:
        The features, with replaced `token_ids` and with `mask_positions` `(B, M)` int32 in ascending order; and the
        labels: `mask_ids` `(B, M)` int32, the original ids, and `mask_weights` `(B, M)` float32. Unused positions are
        0 in all three.

    Raises:
        InputError: a setting is out of range.
    """
    token_ids = features["token_ids"]
    if max_predictions is None:
        max_predictions = get_default_max_predictions(token_ids.shape[1], mask_rate)
    check_masking(max_predictions, mask_rate, unit, replace_rates)
    candidates = (features["padding_mask"] == 1) & ~tf.gather(tf.constant(tokens.is_special), token_ids)  # (B, S)
    num_candidates = tf.reduce_sum(tf.cast(candidates, tf.int32), axis=1, keepdims=True)
    budget = tf.floor(tf.cast(num_candidates, tf.float32) * mask_rate + uniform(seeds, _COUNT, 1))  # (B, 1)
    budget = tf.minimum(tf.clip_by_value(tf.cast(budget, tf.int32), 1, max_predictions), num_candidates)
    continues = tf.gather(tf.constant(tokens.continues_word), token_ids)
    span_ids = draw_spans(candidates, continues, seeds) if unit == "span" else None
    if unit == "token":
        positions = choose_tokens(candidates, seeds, budget, max_predictions)
    else:
        positions = choose_words(candidates, continues, span_ids, seeds, budget, max_predictions)
    is_used = positions < tf.shape(token_ids)[1]
    positions = tf.where(is_used, positions, 0)
    mask_ids = tf.where(is_used, tf.gather(token_ids, positions, batch_dims=1), 0)
    action_keys = positions if span_ids is None else tf.gather(span_ids, positions, batch_dims=1)  # one per span
    action = uniform_at(seeds, _ACTION, action_keys)
    draws = random_bits_at(seeds, _TOKEN, positions) % len(tokens.random_ids)  # bias below V / 2**63
    random_ids = tf.gather(tf.constant(tokens.random_ids), draws)
    new_ids = tf.where(action < sum(replace_rates), random_ids, mask_ids)
    new_ids = tf.where(action < replace_rates[0], tokens.mask_id, new_ids)
    return (
        {**features, "token_ids": _scatter(token_ids, positions, is_used, new_ids), "mask_positions": positions},
        {"mask_ids": mask_ids, "mask_weights": tf.cast(is_used, tf.float32)},
    )


def check_masking(
    max_predictions: int,
    mask_rate: float,
    unit: str = "token",
    replace_rates: tuple[float, float] = BERT_REPLACE_RATES,
) -> None:
    """Raise `InputError` unless the settings of `mask_tokens` are valid."""
    check_integer("max_predictions", max_predictions)
    if not 0 < mask_rate < 1:
        raise InputError(f"mask_rate is {mask_rate}; expected a share above 0 and below 1, such as 0.15")
    if unit not in UNITS:
        raise InputError(f"the unit of masking is {unit!r}; expected one of {', '.join(UNITS)}")
    if len(replace_rates) != 2 or min(replace_rates) < 0 or sum(replace_rates) > 1 + 1e-9:
        raise InputError(
            f"replace_rates is {replace_rates!r}; expected two shares from 0 with a sum of at most 1, for [MASK] and "
            "for a random token: (0.8, 0.1) for example"
        )


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


def compute_span_length_rates() -> np.ndarray:
    """Return the probabilities of spans of 1 to 10 words: geometric, cut at 10 and normalized; the mean is 3.8."""
    rates = _SPAN_END_RATE * (1 - _SPAN_END_RATE) ** np.arange(_MAX_SPAN_WORDS)
    return rates / rates.sum()


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


def _scatter(token_ids: tf.Tensor, positions: tf.Tensor, is_used: tf.Tensor, new_ids: tf.Tensor) -> tf.Tensor:
    """Return `token_ids` `(B, S)` with `new_ids` `(B, M)` at `positions` `(B, M)` where `is_used`."""
    num_sequences, length = tf.unstack(tf.shape(token_ids))
    unused = num_sequences * length  # an extra element, which absorbs the writes of unused positions
    indices = tf.where(is_used, positions + tf.range(num_sequences)[:, tf.newaxis] * length, unused)
    flat = tf.concat([tf.reshape(token_ids, [-1]), [0]], axis=0)
    flat = tf.tensor_scatter_nd_update(flat, indices[..., tf.newaxis], new_ids)
    return tf.ensure_shape(tf.reshape(flat[:-1], (num_sequences, length)), token_ids.shape)
