"""Import TensorFlow without its log lines.

TensorFlow prints a dozen lines when it is imported and looks for devices, whatever its settings: about CUDA on machines
without a GPU, about instruction sets. They would hide the output of a command, once per process.
"""

import contextlib
import os
import sys
from collections.abc import Iterator


def import_tensorflow_quietly() -> None:
    """Import TensorFlow and tensorflow-text while standard error is discarded. An import that fails still raises.

    The environment variable `TF_CPP_MIN_LOG_LEVEL=0` keeps the log lines.
    """
    if "tensorflow_text" in sys.modules:
        return
    keeps_log = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0"
    with contextlib.nullcontext() if keeps_log else _silence_standard_error():
        import tensorflow
        import tensorflow_text  # noqa: F401

        tensorflow.config.list_physical_devices()  # looks for a GPU, and logs a message if it finds no GPU


@contextlib.contextmanager
def _silence_standard_error() -> Iterator[None]:
    """Discard what any code of this process, C++ too, writes to standard error inside the block."""
    sys.stderr.flush()
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
