"""How a training step is divided: into parts, over replicas, over workers, and what TensorFlow alone can do in one.

Knows `tf.distribute`, nothing of BERT.

On another backend than TensorFlow a step is what Keras makes of it.
"""

import keras

from bert_keras.distribution.clipping import clip_gradients
from bert_keras.distribution.step import Step, current_step, salted_step, within_step
from bert_keras.errors import InputError

BACKENDS = ("tensorflow", "jax")  # on others the models were not compared with anything

if keras.backend.backend() not in BACKENDS:
    raise InputError(
        f"Keras's backend is {keras.backend.backend()}; bert_keras runs on {' and '.join(BACKENDS)}: "
        "set the environment variable KERAS_BACKEND=tensorflow"
    )
if keras.backend.backend() == "tensorflow":
    from bert_keras.distribution.divided_step import DividedStep
    from bert_keras.distribution.own_graph import in_own_graph
    from bert_keras.distribution.philox import philox_bits
    from bert_keras.distribution.real_rows import RealRows
    from bert_keras.distribution.updates import compile_update, to_dense, update_copies
else:
    philox_bits = RealRows = None

    class DividedStep:
        """Nothing: Keras's own step."""

        divides_steps = False

    def compile_update(update):
        """Return `update`: the backend compiles the whole step."""
        return update

    def in_own_graph(function):
        """Return `function`: the backend keeps no graphs."""
        return function

    def to_dense(gradient):
        """Return `gradient`, which is dense."""
        return gradient

    def update_copies(update, variables, gradients, *numbers):
        """Call `update(index, gradient, *numbers)` for each variable."""
        for index, gradient in enumerate(gradients):
            update(index, gradient, *numbers)


__all__ = [
    "DividedStep",
    "RealRows",
    "Step",
    "clip_gradients",
    "compile_update",
    "current_step",
    "in_own_graph",
    "philox_bits",
    "salted_step",
    "to_dense",
    "update_copies",
    "within_step",
]
