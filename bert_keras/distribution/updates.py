"""How an optimizer changes variables in TensorFlow: on every device that holds a copy, in one compiled pass."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from bert_keras.distribution.clipping import clip_gradients


def to_dense(gradient) -> tf.Tensor:
    """Return a gradient as a dense tensor; that of an embedding is `tf.IndexedSlices`."""
    return tf.convert_to_tensor(gradient)


def compile_update(update: Callable) -> Callable:
    """Return `update` compiled with XLA; as it is in eager mode and under a strategy."""
    if tf.executing_eagerly() or tf.distribute.has_strategy():
        return update
    return tf.function(update, jit_compile=True, autograph=False)


def update_copies(update: Callable, variables: Sequence[keras.Variable], gradients: Sequence, *numbers) -> None:
    """Call `update(index, gradient, *numbers)` for each variable, on every device that holds a copy of it.

    Args:
        update: changes the variable of that index and the optimizer's variables that belong to it.
        variables: as many as gradients.
        gradients: the same in every replica.
        numbers: further tensors that the update reads.
    """
    if not tf.distribute.has_strategy():
        for index, gradient in enumerate(gradients):
            update(index, gradient, *numbers)
        return

    def update_all(strategy, gradients, numbers):
        for index, (variable, gradient) in enumerate(zip(variables, gradients, strict=True)):

            def update_copy(_, gradient, *numbers, index=index):
                update(index, gradient, *numbers)

            strategy.extended.update(variable.value, update_copy, args=(gradient, *numbers), group=False)

    tf.distribute.get_replica_context().merge_call(update_all, args=(list(gradients), numbers))


def apply_over_replicas(
    optimizer: keras.optimizers.Optimizer, gradients: Sequence[tf.Tensor | None], weights: Sequence[keras.Variable]
) -> None:
    """Change the weights by the sum of the gradients of all replicas, clipped when it is whole.

    Optimizers of ours take the sum as it is (`takes_whole_gradients`). Those of Keras clip first and sum over replicas
    then, so they get the clipped sum divided by the number of replicas: it is within the limits already, and their own
    sum restores it. That is a second all-reduce.

    Args:
        optimizer: any, also in a `LossScaleOptimizer`.
        gradients: of this replica; None where the loss does not depend on a weight.
        weights: of these gradients.
    """
    replica = tf.distribute.get_replica_context()
    pairs = [(gradient, weight) for gradient, weight in zip(gradients, weights, strict=True) if gradient is not None]
    weights = [weight for _, weight in pairs]
    whole = replica.all_reduce(tf.distribute.ReduceOp.SUM, [gradient for gradient, _ in pairs])
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if not getattr(inner, "takes_whole_gradients", False):
        scale = 1.0 if inner is optimizer else optimizer.dynamic_scale
        whole = [gradient / replica.num_replicas_in_sync for gradient in _clip_scaled(whole, inner, scale)]
    optimizer.apply(whole, weights)


def _clip_scaled(gradients: Sequence[tf.Tensor], optimizer: keras.optimizers.Optimizer, scale) -> list[tf.Tensor]:
    """Clip gradients of a scaled loss. A power of two rounds nothing; what is not finite stays, to be found."""
    clipped = clip_gradients([gradient / scale for gradient in gradients], optimizer)
    pairs = zip(gradients, clipped, strict=True)
    return [tf.where(tf.math.is_finite(gradient), value * scale, gradient) for gradient, value in pairs]
