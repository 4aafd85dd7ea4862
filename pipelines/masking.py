"""Masked words: which pieces of an example are hidden, and what stands in their place.

A pure function of the example and its seed: masks do not depend on the batch, the number
of workers or what was drawn before.
"""

from collections.abc import Collection

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.pipelines.seeds import random_bits, uniform

_MASK_RATE_OF_CHOSEN = 0.8  # of the chosen pieces become [MASK] (Devlin et al. 2018, section 3.1),
_RANDOM_RATE_OF_CHOSEN = 0.1  # become a random piece, and the rest stay as they are

_CHOICE, _COUNT, _ACTION, _WORD = range(4)  # the independent draws of one example


def mask_tokens(
    features: dict[str, tf.Tensor],
    *,
    seeds: tf.Tensor,
    max_predictions: int,
    mask_rate: float = 0.15,
    mask_id: int,
    vocabulary_size: int,
    special_ids: Collection[int],
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Hides pieces of packed examples for masked language modelling (Devlin et al. 2018).

    Of an example's n ordinary pieces, `n * mask_rate` are chosen (rounded up or down at random, so
    that the mean is exact; at least 1, at most `max_predictions`). Of those 80 % become [MASK], 10 % a
    random piece, 10 % stay. Special tokens and padding are neither chosen nor put in.

    Args:
        features: with `token_ids` and `padding_mask` (1 = real token, 0 = padding), `(B, S)` int32.
        seeds: `(B, 2)` integers (see `seeds.example_seeds`). An example's masks depend on its own row only.
        max_predictions: M, the number of slots.
        mask_rate: the share of the ordinary pieces to choose.
        mask_id: the id of [MASK].
        vocabulary_size: V; random pieces are drawn below it.
        special_ids: ids that are never chosen and never put in.

    Returns:
        The features with `token_ids` replaced and `mask_positions` `(B, M)` int32 added, ascending; and the labels:
        `mask_ids` `(B, M)` int32, the original ids, and `mask_weights` `(B, M)` float32. Unused slots are 0.

    Raises:
        InputError: `max_predictions` or `mask_rate` is out of range, or no id is left to draw from.
    """
    ordinary_ids = np.setdiff1d(np.arange(vocabulary_size, dtype=np.int32), np.asarray(list(special_ids), np.int32))
    check_masking(max_predictions, mask_rate)
    if not len(ordinary_ids):
        raise InputError("every id of the vocabulary is special: there is none to put in the place of a masked word")
    token_ids = features["token_ids"]
    is_ordinary = tf.reduce_all(token_ids[..., tf.newaxis] != tf.constant(list(special_ids), tf.int32), axis=-1)
    candidates = is_ordinary & (features["padding_mask"] == 1)  # (B, S)
    positions, used = _choose(candidates, seeds, max_predictions, mask_rate)  # (B, M), (B, M)
    mask_ids = tf.where(used, tf.gather(token_ids, positions, batch_dims=1), 0)
    slots = tf.where(used, positions, -1)  # -1 stands nowhere in the sequence
    chosen = tf.reduce_any(slots[..., tf.newaxis] == tf.range(tf.shape(token_ids)[1]), axis=1)  # (B, S)
    masked = tf.where(chosen, _replacements(token_ids, seeds, mask_id, ordinary_ids), token_ids)
    return (
        {**features, "token_ids": masked, "mask_positions": positions},
        {"mask_ids": mask_ids, "mask_weights": tf.cast(used, tf.float32)},
    )


def _choose(candidates, seeds, max_predictions: int, mask_rate: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws each example's positions: `(B, M)` int32, ascending, 0 in unused slots; and which slots are used."""
    length = tf.shape(candidates)[1]
    num_candidates = tf.reduce_sum(tf.cast(candidates, tf.int32), axis=1)
    wanted = tf.floor(tf.cast(num_candidates, tf.float32) * mask_rate + uniform(seeds, _COUNT, 1)[:, 0])
    wanted = tf.minimum(tf.clip_by_value(tf.cast(wanted, tf.int32), 1, max_predictions), num_candidates)
    scores = tf.where(candidates, uniform(seeds, _CHOICE, length), -1.0)
    scores = tf.pad(scores, [[0, 0], [0, tf.maximum(max_predictions - length, 0)]], constant_values=-1.0)
    positions = tf.math.top_k(scores, k=max_predictions).indices  # (B, M), the best candidates first
    beyond = tf.shape(scores)[1]
    positions = tf.where(tf.range(max_predictions) < wanted[:, tf.newaxis], positions, beyond)
    positions = tf.sort(positions, axis=1)
    used = positions < beyond
    return tf.where(used, positions, 0), used


def _replacements(token_ids, seeds, mask_id: int, ordinary_ids: np.ndarray) -> tf.Tensor:
    """Returns what each position would become if it were chosen, `(B, S)` int32."""
    length = tf.shape(token_ids)[1]
    draws = tf.cast(random_bits(seeds, _WORD, length) % len(ordinary_ids), tf.int32)  # bias below V / 2**63
    random_ids = tf.gather(tf.constant(ordinary_ids), draws)
    action = uniform(seeds, _ACTION, length)
    kept_or_random = tf.where(action < _MASK_RATE_OF_CHOSEN + _RANDOM_RATE_OF_CHOSEN, random_ids, token_ids)
    return tf.where(action < _MASK_RATE_OF_CHOSEN, mask_id, kept_or_random)


def check_masking(max_predictions: int, mask_rate: float) -> None:
    """Raises `InputError` unless masks can be drawn with these settings."""
    if max_predictions < 1:
        raise InputError(f"max_predictions is {max_predictions}; expected 1 or more masked slots an example")
    if not 0 < mask_rate < 1:
        raise InputError(f"mask_rate is {mask_rate}; expected a share above 0 and below 1, such as 0.15")
