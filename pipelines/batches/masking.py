"""Masked words: which tokens of an example are hidden, and what stands in their place.

A pure function of the example and its seed: masks do not depend on the batch, the number
of workers or what was drawn before.
"""

import dataclasses
import math
import re

import numpy as np
import tensorflow as tf

from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.pipelines.batches.mask_choice import UNITS, choose_tokens, choose_words, draw_spans
from bert_keras.pipelines.batches.seeds import random_bits_at, uniform, uniform_at

BERT_REPLACE_RATES = (0.8, 0.1)  # Devlin et al. 2018, section 3.1: 80 % [MASK], 10 % a random token, 10 % as it was
ELECTRA_REPLACE_RATES = (0.85, 0.0)  # electra/pretrain/pretrain_helpers.py: 85 % [MASK], 15 % as it was

_COUNT, _ACTION, _TOKEN = 1, 2, 3  # draws of an example; `mask_choice.py` has 0 and 4


@dataclasses.dataclass(frozen=True, eq=False)
class MaskingTokens:
    """What masking knows of a vocabulary of V tokens.

    Attributes:
        mask_id: the id of [MASK].
        is_special: `(V,)` bool, tokens that are never masked: special tokens.
        continues_word: `(V,)` bool, tokens that continue a word ("##").
        random_ids: `(R,)` int32, what is put in the place of a word: neither special tokens nor [unused1] and its
            like, which stand in no text.
    """

    mask_id: int
    is_special: np.ndarray
    continues_word: np.ndarray
    random_ids: np.ndarray

    @classmethod
    def from_tokenizer(cls, tokenizer) -> "MaskingTokens":
        """Sorts the tokens of a `BertTokenizer`.

        Raises:
            InputError: nothing is left to put in the place of a word.
        """
        vocabulary, special = tokenizer.vocabulary, set(tokenizer.special_tokens)
        is_special = np.array([token in special for token in vocabulary])
        is_unused = np.array([re.fullmatch(r"\[unused\d+\]", token) is not None for token in vocabulary])
        random_ids = np.flatnonzero(~is_special & ~is_unused).astype(np.int32)
        if not len(random_ids):
            raise InputError(
                "every token of the vocabulary is special or unused: there is none to put in the place of a masked "
                "word; learn a vocabulary of the text first"
            )
        continues_word = np.array([token.startswith("##") for token in vocabulary])
        return cls(tokenizer.mask_id, is_special, continues_word, random_ids)


def default_max_predictions(length: int, mask_rate: float = 0.15) -> int:
    """Returns the slots that rows of `length` tokens need: their share, rounded up. 20 for 128, 77 for 512, as BERT."""
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
    """Hides tokens of rows for masked language modelling (Devlin et al. 2018).

    Of a row's n ordinary tokens `n * mask_rate` are the budget, rounded up or down at random, so that the mean is
    exact; at least 1, at most `max_predictions`. Special tokens and padding are never chosen and never put in. Units:

    - "token": each token by itself. Exactly the budget is masked.
    - "whole_word": all tokens of a word or none. A word that does not fit into the rest of the budget is passed over,
      as in Google's `create_pretraining_data.py`, so less is masked where no short word is left; English text filled
      the budget of every row (`docs/pretraining.md`). What becomes of a token is drawn for each token.
    - "span": runs of 1 to 10 whole words, 3.8 on average (Joshi et al. 2019); what becomes of it is drawn for a span.

    Args:
        features: with `token_ids` and `padding_mask` (1 = real token, 0 = padding), `(B, S)` int32; several examples in
            a row share its budget.
        tokens: the vocabulary's.
        seeds: `(B, 2)` integers (see `seeds.example_seeds`). A row's masks depend on its own tokens and seeds only.
        max_predictions: M, the number of slots. Default: `default_max_predictions(S, mask_rate)`; S is then static.
        mask_rate: the share of the ordinary tokens to choose.
        unit: one of `UNITS`.
        replace_rates: the share of the chosen that becomes [MASK], and the share that becomes a random token; the
            rest stays as it is. `BERT_REPLACE_RATES` or `ELECTRA_REPLACE_RATES`.

    Returns:
        The features with `token_ids` replaced and `mask_positions` `(B, M)` int32 added, ascending; and the labels:
        `mask_ids` `(B, M)` int32, the original ids, and `mask_weights` `(B, M)` float32. Unused slots are 0.

    Raises:
        InputError: a setting is out of range.
    """
    token_ids = features["token_ids"]
    if max_predictions is None:
        max_predictions = default_max_predictions(token_ids.shape[1], mask_rate)
    check_masking(max_predictions, mask_rate, unit, replace_rates)
    length = tf.shape(token_ids)[1]
    candidates = (features["padding_mask"] == 1) & ~tf.gather(tf.constant(tokens.is_special), token_ids)  # (B, S)
    budget = _budget(candidates, seeds, max_predictions, mask_rate)
    span_ids = None
    if unit == "token":
        positions = choose_tokens(candidates, seeds, budget, max_predictions)
    else:
        continues = tf.gather(tf.constant(tokens.continues_word), token_ids)
        span_ids = draw_spans(candidates, continues, seeds) if unit == "span" else None
        positions = choose_words(candidates, continues, span_ids, seeds, budget, max_predictions)
    used = positions < length
    positions = tf.where(used, positions, 0)
    mask_ids = tf.where(used, tf.gather(token_ids, positions, batch_dims=1), 0)
    decided_at = positions if span_ids is None else tf.gather(span_ids, positions, batch_dims=1)
    new_ids = _replacements(mask_ids, positions, decided_at, seeds, tokens, replace_rates)
    masked = _put(token_ids, positions, used, new_ids)
    return (
        {**features, "token_ids": masked, "mask_positions": positions},
        {"mask_ids": mask_ids, "mask_weights": tf.cast(used, tf.float32)},
    )


def _budget(candidates: tf.Tensor, seeds: tf.Tensor, max_predictions: int, mask_rate: float) -> tf.Tensor:
    """Returns how many tokens of each row to mask, `(B, 1)` int32."""
    num_candidates = tf.reduce_sum(tf.cast(candidates, tf.int32), axis=1, keepdims=True)
    wanted = tf.floor(tf.cast(num_candidates, tf.float32) * mask_rate + uniform(seeds, _COUNT, 1))
    return tf.minimum(tf.clip_by_value(tf.cast(wanted, tf.int32), 1, max_predictions), num_candidates)


def _replacements(mask_ids, positions, decided_at, seeds, tokens: MaskingTokens, replace_rates) -> tf.Tensor:
    """Returns what comes into each slot, `(B, M)` int32; slots with the same `decided_at` become the same kind."""
    mask_rate, random_rate = replace_rates
    action = uniform_at(seeds, _ACTION, decided_at)
    draws = random_bits_at(seeds, _TOKEN, positions) % len(tokens.random_ids)  # bias below V / 2**63
    random_ids = tf.gather(tf.constant(tokens.random_ids), draws)
    kept_or_random = tf.where(action < mask_rate + random_rate, random_ids, mask_ids)
    return tf.where(action < mask_rate, tokens.mask_id, kept_or_random)


def _put(token_ids: tf.Tensor, positions: tf.Tensor, used: tf.Tensor, new_ids: tf.Tensor) -> tf.Tensor:
    """Returns `token_ids` `(B, S)` with `new_ids` `(B, M)` at `positions` `(B, M)` where `used`."""
    num_sequences, length = tf.unstack(tf.shape(token_ids))
    places = tf.where(used, positions + tf.range(num_sequences)[:, tf.newaxis] * length, num_sequences * length)
    flat = tf.concat([tf.reshape(token_ids, [-1]), [0]], axis=0)  # the last place is for unused slots
    flat = tf.tensor_scatter_nd_update(flat, places[..., tf.newaxis], new_ids)
    return tf.ensure_shape(tf.reshape(flat[:-1], (num_sequences, length)), token_ids.shape)


def check_masking(
    max_predictions: int,
    mask_rate: float,
    unit: str = "token",
    replace_rates: tuple[float, float] = BERT_REPLACE_RATES,
) -> None:
    """Raises `InputError` unless masks can be drawn with these settings."""
    check_integer("max_predictions", max_predictions)
    if not 0 < mask_rate < 1:
        raise InputError(f"mask_rate is {mask_rate}; expected a share above 0 and below 1, such as 0.15")
    if unit not in UNITS:
        raise InputError(f"the unit of masking is {unit!r}; expected one of {', '.join(UNITS)}")
    if len(replace_rates) != 2 or min(replace_rates) < 0 or sum(replace_rates) > 1 + 1e-9:
        raise InputError(
            f"replace_rates is {replace_rates!r}; expected two shares from 0 that sum to 1 at most: what becomes "
            "[MASK] and what becomes a random token, such as (0.8, 0.1)"
        )
