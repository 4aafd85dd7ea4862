"""Imports TensorFlow without its greeting.

TensorFlow logs a dozen lines while it is imported and looks for devices, whatever its switches say: about CUDA
on machines without a GPU, about instruction sets. Between a verb's settings and its progress bar they
hide what matters, so standard error is turned away for just that long. An import that fails still raises.
"""

import os

from bert_keras.pipelines.standard_error import no_standard_error


def load_tensorflow() -> None:
    """Imports TensorFlow and tensorflow-text, quietly. `TF_CPP_MIN_LOG_LEVEL=0` brings the lines back."""
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        return
    with no_standard_error():
        import tensorflow
        import tensorflow_text  # noqa: F401

        tensorflow.config.list_physical_devices()  # looks for a GPU, and says so when there is none
