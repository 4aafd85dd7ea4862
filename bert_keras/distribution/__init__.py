"""The training step under `tf.distribute` and with gradient accumulation. Knows nothing of BERT.

Start with `distributed_step.py`. On another backend than TensorFlow the step is Keras's own.
"""

from collections.abc import Callable
from typing import Any

import keras

from bert_keras.distribution.clipping import clip_gradients
from bert_keras.distribution.step import Step, get_current_step, salted_step, within_step
from bert_keras.errors import InputError
from bert_keras.extras import BACKENDS

if keras.backend.backend() not in BACKENDS:
    raise InputError(
        f"Keras's backend is {keras.backend.backend()}; bert_keras runs on {' and '.join(BACKENDS)}: "
        "set the environment variable KERAS_BACKEND=tensorflow"
    )
if keras.backend.backend() == "tensorflow":
    from bert_keras.distribution.distributed_step import DistributedStep, compile_update, to_dense, update_copies
else:

    class DistributedStep:
        """Keras's own step."""

        has_tensorflow_step = False

    def compile_update(update: Callable):
        """Return `update`: the backend compiles the whole step."""
        return update

    def to_dense(gradient: Any):
        """Return `gradient`, which is dense."""
        return gradient

    def update_copies(update: Callable, variables: list, gradients: list, *numbers):
        """Call `update(index, gradient, *numbers)` for each variable."""
        for index, gradient in enumerate(gradients):
            update(index, gradient, *numbers)


__all__ = [
    "DistributedStep",
    "Step",
    "clip_gradients",
    "compile_update",
    "get_current_step",
    "salted_step",
    "to_dense",
    "update_copies",
    "within_step",
]
