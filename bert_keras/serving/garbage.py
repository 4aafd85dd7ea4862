"""`rest_garbage_collector`: let Python's garbage collector work less, for processes that answer many short requests."""

import gc

_NEW_OBJECTS = 20_000  # between two collections; Python's 700 are a few requests


def rest_garbage_collector() -> None:
    """Collect garbage once, and from now on neither look at what is loaded nor collect often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)
