"""A function with a gradient of its own, traced apart from the training step that calls it."""

from collections.abc import Callable

import tensorflow as tf


def in_own_graph(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Returns a function of tensors that is traced by itself, once for each of their shapes.

    TensorFlow keeps every function with a gradient of its own (`custom_gradient`) until the process ends, and with it
    the graph that it was called in: without this, that of the whole training step, 20 MB for a tiny model.
    """
    return tf.function(function, autograph=False)
