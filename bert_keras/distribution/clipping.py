"""Gradient clipping as Keras optimizers define it, for gradients summed over all replicas. Works on any backend."""

from collections.abc import Sequence

import keras
from keras import ops


def clip_gradients(gradients: Sequence, optimizer: keras.optimizers.Optimizer) -> list:
    """Clip gradients by the `clipnorm`, `global_clipnorm` or `clipvalue` of an optimizer, bit for bit as Keras does.

    Keras itself clips the gradients of each replica before it sums them, and a sum of clipped gradients is not a
    clipped sum.

    Args:
        gradients: dense tensors, without None.
        optimizer: a `keras.optimizers.Optimizer`; zero and None mean no clipping.
    """
    if limit := optimizer.clipnorm:
        squares = [ops.sum(ops.square(gradient)) for gradient in gradients]
        norms = [ops.where(one > 0, ops.sqrt(ops.where(one > 0, one, ops.ones_like(one))), one) for one in squares]
        pairs = zip(gradients, norms, strict=True)
        return [gradient * limit / ops.maximum(norm, limit) for gradient, norm in pairs]
    if limit := optimizer.global_clipnorm:
        norm = ops.sqrt(ops.sum(ops.stack([ops.sum(ops.square(gradient)) for gradient in gradients])))
        # norm - norm is NaN where the norm is not finite, so that the error is not hidden
        share = limit * ops.minimum(1.0 / norm, 1.0 / limit) + (norm - norm)
        return [gradient * ops.cast(share, gradient.dtype) for gradient in gradients]
    if limit := optimizer.clipvalue:
        return [ops.clip(gradient, -limit, limit) for gradient in gradients]
    return list(gradients)
