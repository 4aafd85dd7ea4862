"""Imports TensorFlow without its greeting.

TensorFlow logs a dozen lines while it is imported and looks for devices, whatever its switches say: about CUDA
on machines without a GPU, about instruction sets. Between a verb's settings and its progress bar they
hide what matters, so standard error is turned away for just that long. An import that fails still raises.

The import makes a million objects that live as long as the process. Python's garbage collector would look at them again
and again: it is off while they are made, and leaves them alone after. That saves a fifth of the 5 s of the import.
"""

import contextlib
import gc
import os
import sys
from collections.abc import Iterator

from bert_keras.cli.console.interrupts import interrupts_end_the_process
from bert_keras.pipelines.corpus.quiet_import import silence_standard_error


def load_tensorflow() -> None:
    """Imports TensorFlow and tensorflow-text, quietly. `TF_CPP_MIN_LOG_LEVEL=0` brings the lines back.

    Ctrl-C ends the process meanwhile, so nothing may be half-written when this is called.
    """
    if "tensorflow_text" in sys.modules:
        return
    is_quiet = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") != "0"
    quiet = silence_standard_error() if is_quiet else contextlib.nullcontext()
    with _without_garbage_collection(), interrupts_end_the_process(), quiet:
        import tensorflow
        import tensorflow_text  # noqa: F401

        tensorflow.config.list_physical_devices()  # looks for a GPU, and says so when there is none


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Keeps what is made in the block, and what was there before, out of the garbage collector's sight for good."""
    if not gc.isenabled():  # whoever switched it off knows better
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
