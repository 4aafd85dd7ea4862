"""Ctrl-C that is heeded, also where a library loses the exception.

Python raises `KeyboardInterrupt` wherever the main thread happens to be: in a callback whose errors C code drops, say,
and then the work goes on. So it is also written down, and long work asks for it between two steps.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator

_interrupted = threading.Event()


@contextlib.contextmanager
def heeded_interrupts() -> Iterator[None]:
    """Writes Ctrl-C down while the block runs."""
    _interrupted.clear()
    is_ours = threading.current_thread() is threading.main_thread()  # only it may ask for signals
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # a job that ignores Ctrl-C
        yield
        return

    def interrupt(number, frame):
        _interrupted.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def check_interrupt() -> None:
    """Raises `KeyboardInterrupt` if one came before and was lost."""
    if _interrupted.is_set():
        _interrupted.clear()
        raise KeyboardInterrupt
