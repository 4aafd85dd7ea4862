"""A function with a custom gradient, traced separately from the training step that calls it."""

from collections.abc import Callable

import tensorflow as tf


def in_own_graph(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Returns a function of tensors that is traced separately, once for each combination of shapes.

    TensorFlow keeps every custom gradient until the process ends, and with it the graph in which it was made. Without
    this, that is the graph of the whole training step: 20 MB for a tiny model.
    """
    return tf.function(function, autograph=False)
