"""Imports TensorFlow without its greeting.

TensorFlow logs a dozen lines while it is imported and looks for devices, whatever its switches say: about CUDA
on machines without a GPU, about instruction sets. Between a verb's settings and its progress bar they
hide what matters, so standard error is turned away for just that long. An import that fails still raises.
"""

import contextlib
import os
import sys
from collections.abc import Iterator


def load_tensorflow() -> None:
    """Imports TensorFlow and tensorflow-text, quietly. `TF_CPP_MIN_LOG_LEVEL=0` brings the lines back."""
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        return
    with _no_standard_error():
        import tensorflow
        import tensorflow_text  # noqa: F401

        tensorflow.config.list_physical_devices()  # looks for a GPU, and says so when there is none


@contextlib.contextmanager
def _no_standard_error() -> Iterator[None]:
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
