"""Random numbers that depend on an example's own seed only, for a whole batch at once.

`tf.random.stateless_uniform` takes one seed a call, so it would need a call an example. A hash in
plain integer ops takes all seeds together: masking 128 x 256 tokens takes 4 ms on two cores.
"""

import tensorflow as tf

from bert_keras.checks import check_integer

_GOLDEN_GAMMA = 0x9E3779B97F4A7C15  # SplitMix64 (Steele et al. 2014): its step and its two multipliers
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MAX_SEED = 2**31 - 1


def check_seed(seed: int) -> None:
    """Raises `InputError` unless `seed` is a whole number from 0 to 2**31 - 1."""
    check_integer("seed", seed, 0, _MAX_SEED)


def example_seeds(seed: int, epoch, example_indices) -> tf.Tensor:
    """Returns the seeds `(B, 2)` int64 of examples: different for every seed, epoch and example.

    Args:
        seed: 0 to 2**31 - 1.
        epoch: integer scalar, 0 to 2**32 - 1.
        example_indices: `(B,)` integers, the places of the examples in their records.
    """
    check_seed(seed)
    indices = tf.cast(example_indices, tf.int64)
    run = tf.constant(seed, tf.int64) * 2**32 + tf.cast(epoch, tf.int64)
    return tf.stack([tf.fill(tf.shape(indices), run), indices], axis=1)


def uniform(seeds: tf.Tensor, draw: int, length) -> tf.Tensor:
    """Returns `(B, length)` float32 from 0 to below 1, of 24 random bits each, all that float32 can hold."""
    return uniform_at(seeds, draw, _first_places(length))


def uniform_at(seeds: tf.Tensor, draw: int, places: tf.Tensor) -> tf.Tensor:
    """Returns what `uniform` gives at `places`, `(B, n)` integers from 0: `(B, n)` float32."""
    bits = tf.bitwise.right_shift(random_bits_at(seeds, draw, places), tf.constant(63 - 24, tf.int64))
    return tf.cast(bits, tf.float32) * 2.0**-24


def random_bits(seeds: tf.Tensor, draw: int, length) -> tf.Tensor:
    """Returns `(B, length)` int64, each of 63 random bits: a hash of (an example's seeds, draw, position).

    Args:
        seeds: `(B, 2)` integers.
        draw: tells the independent draws of one example apart, from 0.
        length: how many numbers an example gets; the first ones are the same whatever the length.
    """
    return random_bits_at(seeds, draw, _first_places(length))


def random_bits_at(seeds: tf.Tensor, draw: int, places: tf.Tensor) -> tf.Tensor:
    """Returns what `random_bits` gives at `places`, `(B, n)` integers from 0: `(B, n)` int64."""
    seeds = tf.cast(seeds, tf.uint64)  # (B, 2)
    state = _mixed(_mixed(seeds[:, 0]) ^ seeds[:, 1])
    state = _mixed(state ^ tf.constant(draw, tf.uint64))
    counters = tf.cast(places + 1, tf.uint64) * tf.constant(_GOLDEN_GAMMA, tf.uint64)
    return tf.cast(_shifted(_mixed(state[:, tf.newaxis] + counters), 1), tf.int64)


def _first_places(length) -> tf.Tensor:
    return tf.range(length)[tf.newaxis]


def _mixed(state: tf.Tensor) -> tf.Tensor:
    """SplitMix64's finalizer: every bit of the result depends on every bit of `state`."""
    for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        state = (state ^ _shifted(state, shift)) * tf.constant(multiplier, tf.uint64)
    return state ^ _shifted(state, 31)


def _shifted(state: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.right_shift(state, tf.constant(bits, tf.uint64))
