"""`SavedModelEngine`: runs the signature `ids` of a SavedModel in TensorFlow."""

import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of the signature for texts

from bert_keras.engines.engine import ArtifactEngine, Features, count_threads
from bert_keras.errors import InputError

_SIGNATURE = "ids"


class SavedModelEngine(ArtifactEngine):
    """Engine that runs a SavedModel.

    Args:
        path: the folder that contains `saved_model.pb`.
        wanted: the names of the outputs to compute.
        threads: number of threads per instance; None: one per core, divided by the instances. TensorFlow has one pool
            of threads per process, so this must come before its first operation.
        instances: number of batches that run at the same time.

    Raises:
        InputError: the SavedModel is damaged or of another model, or TensorFlow already runs with other threads.
    """

    def __init__(
        self, path: str | os.PathLike, wanted: Sequence[str], *, threads: int | None = None, instances: int = 1
    ):
        if threads is not None or instances > 1:
            set_tensorflow_threads(instances * (threads or count_threads(instances)))
        try:
            self._model = tf.saved_model.load(os.fspath(path))
            self._function = self._model.signatures[_SIGNATURE]
        except Exception as error:  # OSError, OpError, DecodeError, KeyError, depending on the damaged part
            raise InputError(f"{path} is not a complete SavedModel ({type(error).__name__}): export it again") from None
        inputs = self._function.structured_input_signature[1]
        super().__init__(path, list(inputs), list(self._function.structured_outputs), wanted)
        self.num_instances = instances

    def run(self, features: Features, *, once: bool = False) -> dict[str, np.ndarray]:
        """Run the SavedModel on one batch."""
        outputs = self._function(**{name: tf.constant(v) for name, v in self._select_inputs(features).items()})
        return self._name_outputs([outputs[name].numpy() for name in self._wanted])


def set_tensorflow_threads(threads: int) -> None:
    """Set the number of threads of TensorFlow's products.

    Raises:
        InputError: TensorFlow already runs with another number.
    """
    if tf.config.threading.get_intra_op_parallelism_threads() == threads:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    except RuntimeError:
        raise InputError(
            f"threads is {threads}, and TensorFlow already runs with another number: create the predictor before any "
            "other use of TensorFlow, or leave threads out"
        ) from None
