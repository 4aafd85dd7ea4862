"""Random numbers of a whole batch that depend only on the seeds of each example.

`tf.random.stateless_uniform` accepts one seed per call, so it would need one call per example. This hash in plain
integer ops handles all seeds at once: masking 128 x 256 tokens takes 4 ms on two cores.
"""

import tensorflow as tf

from bert_keras.checks import check_integer

_GOLDEN_GAMMA = 0x9E3779B97F4A7C15  # SplitMix64 (Steele et al. 2014): its step and its two multipliers
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MAX_SEED = 2**31 - 1


def check_seed(seed: int) -> None:
    """Raise `InputError` unless `seed` is an integer from 0 to 2**31 - 1."""
    check_integer("seed", seed, 0, _MAX_SEED)


def make_example_seeds(seed: int, epoch: tf.Tensor | int, example_indices: tf.Tensor) -> tf.Tensor:
    """Return the seeds `(B, 2)` int64 of B examples, distinct for every seed, epoch and example.

    Args:
        seed: from 0 to 2**31 - 1.
        epoch: integer scalar from 0 to 2**32 - 1.
        example_indices: `(B,)` integers, the indices of the examples in their data set.
    """
    check_seed(seed)
    indices = tf.cast(example_indices, tf.int64)
    run = tf.constant(seed, tf.int64) * 2**32 + tf.cast(epoch, tf.int64)
    return tf.stack([tf.fill(tf.shape(indices), run), indices], axis=1)


def uniform(seeds: tf.Tensor, draw: int, length: tf.Tensor | int) -> tf.Tensor:
    """Return `(B, length)` float32 in [0, 1). Each has 24 random bits, as many as float32 holds."""
    return uniform_at(seeds, draw, tf.range(length)[tf.newaxis])


def uniform_at(seeds: tf.Tensor, draw: int, positions: tf.Tensor) -> tf.Tensor:
    """Return the values of `uniform` at `positions`, `(B, n)` integers from 0: `(B, n)` float32."""
    bits = tf.bitwise.right_shift(random_bits_at(seeds, draw, positions), tf.constant(63 - 24, tf.int64))
    return tf.cast(bits, tf.float32) * 2.0**-24


def draw_order(seed: int, epoch: tf.Tensor, example_indices: tf.Tensor, draw: int) -> tf.Tensor:
    """Return B examples in the random order of an epoch, as positions in `example_indices`: `(B,)` int32."""
    bits = random_bits_at(make_example_seeds(seed, epoch, example_indices), draw, tf.constant([[0]]))
    return tf.argsort(bits[:, 0])


def random_bits_at(seeds: tf.Tensor, draw: int, positions: tf.Tensor) -> tf.Tensor:
    """Return `(B, n)` int64 of 63 random bits each: a hash of the example's seeds, the draw and the position.

    Args:
        seeds: `(B, 2)` integers.
        draw: number of the draw; an example's draws are independent of each other.
        positions: `(B, n)` or `(1, n)` integers from 0.
    """
    seeds = tf.cast(seeds, tf.uint64)  # (B, 2)
    state = _mix(_mix(seeds[:, 0]) ^ seeds[:, 1])
    state = _mix(state ^ tf.constant(draw, tf.uint64))
    counters = tf.cast(positions + 1, tf.uint64) * tf.constant(_GOLDEN_GAMMA, tf.uint64)
    return tf.cast(_shift(_mix(state[:, tf.newaxis] + counters), 1), tf.int64)


def _mix(state: tf.Tensor) -> tf.Tensor:
    """Finalizer of SplitMix64: every bit of the result depends on every bit of `state`."""
    for bits, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        state = (state ^ _shift(state, bits)) * tf.constant(multiplier, tf.uint64)
    return state ^ _shift(state, 31)


def _shift(state: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.right_shift(state, tf.constant(bits, tf.uint64))
