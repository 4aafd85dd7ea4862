"""Search for tokens in text before it is split, in the graph: the leftmost match, and of those the longest.

All tokens of one length are searched at once, by a hash of each window of the text, so that a thousand tokens need no
more operations than ten. Windows with the hash of a token are then compared with it.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

_BASES = range(1_000_003, 1_100_000, 2)  # of the hash; the first without collisions of tokens is used


class WholeTokens:
    """Find leftmost-longest matches of tokens, as the Aho-Corasick search of Hugging Face's library does.

    Args:
        tokens: the values of the characters of each token, and its code.
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
        """Find the tokens in `(C,)` int32 values.

        Returns:
            `(K,)` int32 starts, ascending and without overlaps; `(K,)` int32 lengths; `(K,)` int32 codes.
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
                found, code = self._find_length(hashes, padded, length)
                lengths = tf.tensor_scatter_nd_update(lengths, found[:, tf.newaxis], tf.fill(tf.shape(found), length))
                codes = tf.tensor_scatter_nd_update(codes, found[:, tf.newaxis], code)
        starts = tf.cast(tf.where(lengths > 0)[:, 0], tf.int32)
        lengths = tf.gather(lengths, starts)
        chosen = tf.where(_select_leftmost(starts, starts + lengths))[:, 0]
        starts = tf.gather(starts, chosen)
        return starts, tf.gather(lengths, chosen), tf.gather(codes, starts)

    def _find_length(self, hashes: tf.Tensor, padded: tf.Tensor, length: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the starts of the tokens of one length, and their codes."""
        tokens = sorted(self._by_length[length], key=lambda token: _hash(token, self._base))
        sorted_hashes = tf.constant([_hash(token, self._base) for token in tokens], tf.int64)
        indices = tf.minimum(tf.searchsorted(sorted_hashes, hashes), len(tokens) - 1)
        candidates = tf.where(tf.gather(sorted_hashes, indices) == hashes)[:, 0]
        indices = tf.gather(indices, candidates)
        windows = tf.gather(padded, candidates[:, tf.newaxis] + tf.range(length, dtype=tf.int64))
        is_same = tf.reduce_all(windows == tf.gather(tf.constant(tokens, tf.int32), indices), axis=1)
        codes = tf.constant([self._by_length[length][token] for token in tokens], tf.int32)
        return tf.boolean_mask(candidates, is_same), tf.gather(codes, tf.boolean_mask(indices, is_same))


def _hash(values: Sequence[int], base: int) -> int:
    """Return the polynomial hash in int64 arithmetic, which wraps around."""
    result = 0
    for value in values:
        result = (result * base + value) % 2**64
    return int(np.uint64(result).astype(np.int64))


def _select_leftmost(starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Select ranges, sorted by start, that do not overlap one selected before: `(K,)` bool."""

    def select_one_by_one():
        def select(index, last_end, selected):
            is_free = starts[index] >= last_end
            return index + 1, tf.where(is_free, ends[index], last_end), selected.write(index, is_free)

        selected = tf.TensorArray(tf.bool, tf.size(starts), element_shape=[])
        state = tf.while_loop(lambda index, *_: index < tf.size(starts), select, (0, 0, selected))
        return state[2].stack()

    return tf.cond(tf.reduce_any(starts[1:] < ends[:-1]), select_one_by_one, lambda: tf.ones_like(starts, tf.bool))
