"""Tokens that are cut out of a text before it is split, found in the graph: the leftmost, and of those the longest.

All tokens of one length are looked for at once, by a hash of each window of the text, so that a thousand tokens take
no more operations than ten; what has a token's hash is then compared with it.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

_BASES = range(1_000_003, 1_100_000, 2)  # of the hash; the first under which no two tokens have one hash


class WholeTokens:
    """Finds tokens as Aho-Corasick does where the leftmost and longest counts, as in Hugging Face's library.

    Args:
        tokens: each token as the values of its characters, and the code that it gets.
    """

    def __init__(self, tokens: Iterable[tuple[Sequence[int], int]]):
        self._by_length: dict[int, dict[tuple[int, ...], int]] = {}
        for values, code in tokens:
            self._by_length.setdefault(len(values), {})[tuple(values)] = code
        everything = [token for tokens in self._by_length.values() for token in tokens]
        self._base = next(
            base for base in _BASES if len({_hash(token, base) for token in everything}) == len(everything)
        )

    def find(self, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns where the tokens are in `(C,)` int32 values.

        Returns:
            `(K,)` int32 starts, rising, without overlaps; `(K,)` int32 lengths; `(K,)` int32 codes.
        """
        size = tf.size(values)
        lengths, codes = tf.zeros_like(values), tf.zeros_like(values)
        longest = max(self._by_length)
        padded = tf.concat([values, tf.zeros([longest], tf.int32)], axis=0)
        hashes = tf.zeros([size], tf.int64)
        for length in range(1, longest + 1):
            letters = tf.cast(padded[length - 1 : size + length - 1], tf.int64)
            hashes = hashes * self._base + letters
            if length in self._by_length:
                found, code = self._found(hashes, padded, length)
                lengths = tf.tensor_scatter_nd_update(lengths, found[:, tf.newaxis], tf.fill(tf.shape(found), length))
                codes = tf.tensor_scatter_nd_update(codes, found[:, tf.newaxis], code)
        starts = tf.cast(tf.where(lengths > 0)[:, 0], tf.int32)
        lengths = tf.gather(lengths, starts)
        chosen = tf.where(_leftmost(starts, starts + lengths))[:, 0]
        starts = tf.gather(starts, chosen)
        return starts, tf.gather(lengths, chosen), tf.gather(codes, starts)

    def _found(self, hashes: tf.Tensor, padded: tf.Tensor, length: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns where tokens of one length begin, and their codes."""
        tokens = sorted(self._by_length[length], key=lambda token: _hash(token, self._base))
        sorted_hashes = tf.constant([_hash(token, self._base) for token in tokens], tf.int64)
        places = tf.minimum(tf.searchsorted(sorted_hashes, hashes), len(tokens) - 1)
        maybe = tf.where(tf.gather(sorted_hashes, places) == hashes)[:, 0]
        places = tf.gather(places, maybe)
        windows = tf.gather(padded, maybe[:, tf.newaxis] + tf.range(length, dtype=tf.int64))
        is_same = tf.reduce_all(windows == tf.gather(tf.constant(tokens, tf.int32), places), axis=1)
        codes = tf.constant([self._by_length[length][token] for token in tokens], tf.int32)
        return tf.boolean_mask(maybe, is_same), tf.gather(codes, tf.boolean_mask(places, is_same))


def _hash(values: Sequence[int], base: int) -> int:
    """Returns the polynomial hash that int64 arithmetic gives, which wraps around."""
    result = 0
    for value in values:
        result = (result * base + value) % 2**64
    return int(np.uint64(result).astype(np.int64))


def _leftmost(starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns which of some ranges, by rising starts, do not overlap one that was taken before, `(K,)` bool."""

    def one_by_one():
        def take(index, last_end, taken):
            is_free = starts[index] >= last_end
            return index + 1, tf.where(is_free, ends[index], last_end), taken.write(index, is_free)

        taken = tf.TensorArray(tf.bool, tf.size(starts), element_shape=[])
        state = tf.while_loop(lambda index, *_: index < tf.size(starts), take, (0, 0, taken))
        return state[2].stack()

    return tf.cond(tf.reduce_any(starts[1:] < ends[:-1]), one_by_one, lambda: tf.ones_like(starts, tf.bool))
