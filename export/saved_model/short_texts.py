"""Answer short texts with constant weights, which TensorFlow brings into its kernels' order once, not in every call.

For a product of few rows, most of the time goes into that. TensorFlow keeps the ordered weights only if they are
constants of the graph, and the order that suits few rows is slow for many, so a graph needs both: constants for few
rows and variables for the rest.
"""

from collections.abc import Mapping

import keras
import tensorflow as tf

from bert_keras.checkpoints.building import get_encoder
from bert_keras.errors import InputError
from bert_keras.export.saved_model.answers.text_function import RunModel

# Rows (tokens) for which constants are faster. oneDNN chooses one order for 8 to 80 rows and others for fewer or more,
# and TensorFlow keeps that of the first call: within these limits every first call is right.
FEWEST_ROWS, MOST_ROWS = 8, 80
FUNCTION_NAME = "few_rows"  # part of the names of the functions with constant weights
_MAX_BYTES = 2**31 - 2**26  # a graph is one protocol buffer of less than 2 GiB; the rest of it takes less than 64 MiB


class ConstantWeights:
    """The weights of a model's matrix products as constants.

    Args:
        model: an encoder, with or without a head, whose weights do not change any more.


    """

    def __init__(self, model: keras.Model):
        kernels = [variable for block in get_encoder(model).blocks for variable in block.variables]
        kernels = [variable for variable in kernels if variable.name == "kernel"]
        self._values = [(kernel, kernel.numpy()) for kernel in kernels]
        self._functions: dict[tuple[str, ...], tf.types.experimental.ConcreteFunction] = {}

    @property
    def num_bytes(self) -> int:
        """The bytes that the constants add to a SavedModel: once for each function that was traced."""
        return len(self._functions) * sum(value.nbytes for _, value in self._values)

    def use_for_few_rows(self, run: RunModel) -> RunModel:
        """Wrap a function of features so that it uses the constants for a batch of 8 to 80 tokens without padding.

        Args:
            run: runs the model on any batch.

        Returns:
            A function that may be used in several signatures. Tracing it raises `InputError` if the constants become
            too large for a graph.
        """

        def run_any(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            with tf.init_scope():
                few = self._trace(run, features)
            rows = tf.size(features["padding_mask"])
            is_full = tf.equal(tf.reduce_sum(tf.cast(features["padding_mask"], tf.int32)), rows)
            is_few = is_full & (rows >= FEWEST_ROWS) & (rows <= MOST_ROWS)
            return tf.cond(is_few, lambda: few(features), lambda: run(features))

        return run_any

    def _trace(self, run: RunModel, features: Mapping[str, tf.Tensor]) -> tf.types.experimental.ConcreteFunction:
        """Return the function with constants; one for all callers with the same features, so that they share it."""

        def few_rows(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            with keras.StatelessScope([(kernel, tf.constant(value)) for kernel, value in self._values]):
                return run(features)

        names = tuple(sorted(features))
        if names not in self._functions:
            specs = {name: tf.TensorSpec([None] * values.shape.rank, values.dtype) for name, values in features.items()}
            # not inlined, so that TensorFlow makes one instance of it, and of its constants, for all signatures
            function = tf.function(few_rows, autograph=False, experimental_attributes={"_noinline": True})
            self._functions[names] = function.get_concrete_function(specs)
            self._check_size()
        return self._functions[names]

    def _check_size(self) -> None:
        if self.num_bytes > _MAX_BYTES:
            raise InputError(
                f"the constant weights for short texts take {self.num_bytes:,} bytes, and a graph can hold at most "
                f"{_MAX_BYTES:,}: leave out fast_short_texts (--fast-short-texts)"
            )
