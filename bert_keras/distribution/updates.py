"""Variable updates in TensorFlow: on every device that holds a copy, and compiled into one pass."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_keras.distribution.clipping import clip_gradients


def to_dense(gradient: Any) -> tf.Tensor:
    """Return a gradient as a dense tensor; an embedding's is a `tf.IndexedSlices`."""
    return tf.convert_to_tensor(gradient)


def compile_update(update: Callable) -> Callable:
    """Return `update` compiled with XLA; unchanged in eager mode and under a strategy."""
    if tf.executing_eagerly() or tf.distribute.has_strategy():
        return update
    return tf.function(update, jit_compile=True, autograph=False)


def update_copies(update: Callable, variables: Sequence[keras.Variable], gradients: Sequence, *numbers) -> None:
    """Call `update(index, gradient, *numbers)` for each variable, on every device that holds a copy of it.

    Args:
        update: updates the variable with that index and its optimizer variables.
        variables: one per gradient.
        gradients: the same in every replica.
        numbers: further tensors that `update` needs.
    """
    if not tf.distribute.has_strategy():
        for index, gradient in enumerate(gradients):
            update(index, gradient, *numbers)
        return

    def update_all(strategy: tf.distribute.Strategy, gradients: list, numbers: tuple):
        """Update every variable on every device."""
        for index, (variable, gradient) in enumerate(zip(variables, gradients, strict=True)):

            def update_copy(_: Any, gradient: Any, *numbers, index: int = index):
                """Update one copy of the variable."""
                update(index, gradient, *numbers)

            strategy.extended.update(variable.value, update_copy, args=(gradient, *numbers), group=False)

    tf.distribute.get_replica_context().merge_call(update_all, args=(list(gradients), numbers))


def apply_over_replicas(
    optimizer: keras.optimizers.Optimizer, gradients: Sequence[tf.Tensor | None], weights: Sequence[keras.Variable]
) -> None:
    """Update the weights with the gradients summed over all replicas and then clipped.

    Our optimizers take the sum (`takes_summed_gradients`). Keras's optimizers clip first and then sum over replicas, so
    they get the clipped sum divided by the number of replicas: it is within the limits, and their sum restores it. This
    costs a second all-reduce.

    Args:
        optimizer: any Keras optimizer, also wrapped in a `LossScaleOptimizer`.
        gradients: of this replica; None where the loss ignores a weight.
        weights: the weights of these gradients.
    """
    replica = tf.distribute.get_replica_context()
    pairs = [(gradient, weight) for gradient, weight in zip(gradients, weights, strict=True) if gradient is not None]
    weights = [weight for _, weight in pairs]
    summed = replica.all_reduce(tf.distribute.ReduceOp.SUM, [gradient for gradient, _ in pairs])
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if not getattr(inner, "takes_summed_gradients", False):
        scale = 1.0 if inner is optimizer else optimizer.dynamic_scale
        summed = [gradient / replica.num_replicas_in_sync for gradient in _clip_scaled(summed, inner, scale)]
    optimizer.apply(summed, weights)


def _clip_scaled(gradients: Sequence[tf.Tensor], optimizer: keras.optimizers.Optimizer, scale: Any) -> list[tf.Tensor]:
    """Clip gradients of a scaled loss. The scale is a power of two, so it rounds nothing; NaN and infinity are kept."""
    clipped = clip_gradients([gradient / scale for gradient in gradients], optimizer)
    pairs = zip(gradients, clipped, strict=True)
    return [tf.where(tf.math.is_finite(gradient), value * scale, gradient) for gradient, value in pairs]
