"""Runs a SavedModel with TensorFlow and tensorflow-text alone, as a server would: no import of ours.

    python run_saved_model.py SAVED_MODEL EXCHANGE

EXCHANGE: see `exchange.py`.
"""

import sys


def load(path):
    """Opens the SavedModel."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the ops of the tokenizer

    model = tf.saved_model.load(path)

    def answer(signature, inputs):
        outputs = model.signatures[signature](**{name: tf.constant(values) for name, values in inputs.items()})
        return {name: values.numpy() for name, values in outputs.items()}

    return answer, {name: _described(function) for name, function in model.signatures.items()}


def _described(function):
    described = {}
    for side, specs in (("inputs", function.structured_input_signature[1]), ("outputs", function.structured_outputs)):
        described[side] = {name: [spec.dtype.name, [*spec.shape]] for name, spec in specs.items()}
    return described


if __name__ == "__main__":
    from exchange import serve

    serve(lambda: load(sys.argv[1]), sys.argv[2])
