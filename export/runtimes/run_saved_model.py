"""Run a SavedModel with TensorFlow and tensorflow-text, as a server does, without importing this package.

    python run_saved_model.py SAVED_MODEL EXCHANGE

EXCHANGE is the folder of requests and answers described in `exchange.py`.
"""

import sys
from collections.abc import Callable, Mapping

import numpy as np


def load(path: str) -> tuple[Callable, Mapping]:
    """Open the SavedModel; return the function that runs a signature, and a description of all signatures."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the ops of the tokenizer

    model = tf.saved_model.load(path)

    def answer(signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = model.signatures[signature](**{name: tf.constant(values) for name, values in inputs.items()})
        return {name: values.numpy() for name, values in outputs.items()}

    return answer, {name: _describe(function) for name, function in model.signatures.items()}


def _describe(function) -> dict[str, dict[str, list]]:
    sides = {"inputs": function.structured_input_signature[1], "outputs": function.structured_outputs}
    return {
        side: {name: [spec.dtype.name, [*spec.shape]] for name, spec in specs.items()} for side, specs in sides.items()
    }


if __name__ == "__main__":
    from exchange import serve

    serve(lambda: load(sys.argv[1]), sys.argv[2])
