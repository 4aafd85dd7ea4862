"""How the server's process and those of the workers share the cores.

While all cores compute, each packet of a client would interrupt a computation and push its data out of the caches. With
Linux's policy for batches the server's process waits for the end of a time slice instead, a few milliseconds, and then
handles all packets that have come. A core without work serves it at once, as before. And both kinds of processes
answer many short requests, so Python's garbage collector works less in them.
"""

import contextlib
import gc
import os

_NEW_OBJECTS = 20_000  # between two collections; Python's 700 are a few requests


def rest_garbage_collector() -> None:
    """Collect garbage once, and from now on neither look at what is loaded nor collect often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)


def yield_to_computations() -> None:
    """Let this thread, and the threads and processes that it starts, not interrupt others."""
    _set_policy("SCHED_BATCH")


def compute_normally() -> None:
    """Undo `yield_to_computations`, which a worker inherits from the server."""
    _set_policy("SCHED_OTHER")


def _set_policy(name: str) -> None:
    with contextlib.suppress(AttributeError, OSError):  # not on every system
        os.sched_setscheduler(0, getattr(os, name), os.sched_param(0))
