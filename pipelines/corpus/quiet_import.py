"""Quiet around an import that greets."""

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def silence_standard_error() -> Iterator[None]:
    """Turns standard error away for a while: TensorFlow greets whoever imports it, whatever its switches say."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
