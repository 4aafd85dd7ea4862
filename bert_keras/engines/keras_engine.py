"""`KerasEngine`: runs a Keras model."""

import functools
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from bert_keras.checkpoints.checkpoint import check_finite_outputs
from bert_keras.engines.engine import Engine, Features
from bert_keras.pipelines.text.graph.text_batches import without_autograph


class KerasEngine(Engine):
    """Engine that runs a Keras model, as a graph on the TensorFlow backend and eagerly on others.

    On TensorFlow a single batch runs eagerly (`once`), which is faster than tracing a graph.

    Args:
        model: an encoder with a head.
    """

    # larger batches are no faster on a CPU; on a GPU 64 sequences of 64 tokens are a reasonable load
    tokens_per_batch = 4096

    def __init__(self, model: keras.Model):
        self._model = model
        if keras.backend.backend() == "tensorflow":
            self._run_eagerly = without_autograph(lambda features: model(features, training=False))
        else:  # eagerly, because JAX would compile each new batch length
            self._run_eagerly = functools.partial(model, training=False)
        self._graphs: dict[tuple[str, ...], Callable] = {}  # keyed by the names of the features

    def run(self, features: Features, *, once: bool = False) -> dict[str, np.ndarray]:
        """Run the model on one batch."""
        run = self._run_eagerly if once else self._get_graph(features)
        return {name: keras.ops.convert_to_numpy(values) for name, values in run(dict(features)).items()}

    def check_finite(self, values: np.ndarray) -> None:
        """Raise `InputError` if an output contains NaN or infinity; the message names weights that do too."""
        check_finite_outputs(self._model, values)

    def _get_graph(self, features: Features) -> Callable:
        """Return the model as a graph of these features, traced once for batches of any shape."""
        if keras.backend.backend() != "tensorflow":
            return self._run_eagerly
        names = tuple(sorted(features))
        if names not in self._graphs:
            signature = {name: tf.TensorSpec([None, None], tf.int32) for name in names}
            self._graphs[names] = tf.function(self._run_eagerly, input_signature=[signature])
        return self._graphs[names]
