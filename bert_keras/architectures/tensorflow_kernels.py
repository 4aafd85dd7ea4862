"""TensorFlow kernels that `keras.ops` does not offer. The only module of `architectures` that imports TensorFlow.

The layers import it on the TensorFlow backend only; on JAX they use `keras.ops` throughout.
"""

from collections.abc import Callable

import tensorflow as tf

_PHILOX = 1  # TensorFlow's number for the algorithm (Salmon et al. 2011)
_VALUES_PER_COUNT = 4  # uint32 values that one increment of the counter yields


def gather_rows(x: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Return the rows of `x` at `indices` `(T,)`; the gradient is dense, while that of `tf.gather` is sparse."""
    return tf.gather_nd(x, indices[:, tf.newaxis])


def scatter_rows(rows: tf.Tensor, indices: tf.Tensor, shape: tuple) -> tf.Tensor:
    """Return a tensor of `shape` with `rows` at `indices` `(T,)` and zeros elsewhere."""
    return tf.scatter_nd(indices[:, tf.newaxis], rows, shape)


def in_own_graph(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Return a function of tensors that TensorFlow traces separately, once per combination of shapes.

    TensorFlow keeps every custom gradient until the process ends, together with the graph it was created in. Without
    this, that graph is the whole training step: 20 MB for a tiny model.
    """
    return tf.function(function, autograph=False)


def philox_bits(seed: tf.Tensor, shape: tuple, first_index: int | tf.Tensor = 0) -> tf.Tensor:
    """Draw uint32 values of `shape`, 32 random bits each: a function of `seed` and the index of the value.

    The generator is counter-based, so any part of a draw can be computed by itself. It is one multi-threaded kernel;
    `layers.random_bits` makes twelve passes over memory unless a compiler fuses them. 14 million values take 0.11 s
    instead of 0.28 s on two cores.

    Args:
        seed: `(2,)` integers, 0 to 2**32 - 1.
        shape: integers or integer tensors.
        first_index: index of the first value, an integer or a tensor.
    """
    num_values = tf.reduce_prod(tf.stack(shape))
    key, salt = tf.unstack(tf.cast(seed, tf.uint64))
    if isinstance(first_index, int) and first_index == 0:
        return tf.reshape(_draw(key, salt, tf.constant(0, tf.uint64), num_values), shape)
    first_index = tf.cast(first_index, tf.int64)
    skipped = tf.cast(first_index % _VALUES_PER_COUNT, tf.int32)  # values of the first count that precede first_index
    count = tf.cast(first_index // _VALUES_PER_COUNT, tf.uint64)
    values = _draw(key, salt, count, num_values + _VALUES_PER_COUNT)  # a size that XLA knows, as TPUs need
    return tf.reshape(tf.slice(values, skipped[tf.newaxis], num_values[tf.newaxis]), shape)


def _draw(key: tf.Tensor, salt: tf.Tensor, count: tf.Tensor, num_values: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=num_values[tf.newaxis], key=key[tf.newaxis], counter=tf.stack([count, salt]), alg=_PHILOX, dtype=tf.uint32
    )
