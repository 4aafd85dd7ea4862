"""Suppress what TensorFlow prints while it is imported."""

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def silence_standard_error() -> Iterator[None]:
    """Discard standard error in a `with` block: TensorFlow prints messages on import that no setting turns off."""
    sys.stderr.flush()
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
