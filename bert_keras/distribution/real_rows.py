"""`RealRows`: the rows of a padded batch that hold a token, so that padding need not be computed."""

import tensorflow as tf


class RealRows:
    """The rows of (B*S, ...) that are no padding, T of them. Not for XLA: T is known only as it runs.

    The first row of each example is one of them also where the example is empty: it is always read.

    Args:
        padding_mask: (B, S), 1 = real token, 0 = padding.
    """

    def __init__(self, padding_mask: tf.Tensor):
        is_first = tf.range(tf.shape(padding_mask)[1]) == 0
        self._is_real = tf.reshape(tf.cast(padding_mask, tf.bool) | is_first, [-1])
        self._places = tf.cast(tf.where(self._is_real), tf.int32)  # (T, 1)

    def only(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns the real ones (T, ...) of `rows` (B*S, ...)."""
        return tf.gather_nd(rows, self._places)  # whose gradient is `spread`; that of `gather` is sparse

    def spread(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns (B*S, ...) with `rows` (T, ...) at their places, and 0 elsewhere."""
        return tf.scatter_nd(self._places, rows, self.shape_of_all(rows))

    def numbers_of(self, places: tf.Tensor) -> tf.Tensor:
        """Returns which of the T rows stand at `places` (...) of (B*S, ...)."""
        return tf.gather(tf.cumsum(tf.cast(self._is_real, tf.int32)) - 1, places)

    def shape_of_all(self, rows: tf.Tensor) -> tuple:
        """Returns the shape that `rows` (T, ...) have when spread."""
        return (tf.shape(self._is_real)[0], *rows.shape[1:])
