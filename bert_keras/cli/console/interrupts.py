"""Ctrl-C at moments in which Python or a library would lose it, or turn it into something else."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

INTERRUPTED = 130  # exit status: 128 + SIGINT, as shells have it
WHAT_IS_LEFT = "interrupted; what was not finished was not written"
_SOON = 0.01  # seconds


def was_interrupted(error: BaseException | None) -> bool:
    """Return whether an error came up while a `KeyboardInterrupt` was handled.

    Ctrl-C within a `finally` block of argparse, for example, ends in an AttributeError.
    """
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


@contextlib.contextmanager
def lost_interrupts_come_again() -> Iterator[None]:
    """Send an interrupt again that Python drops in the block.

    An exception in a callback of the garbage collector, of which each import has some, cannot be raised: Python calls
    `sys.unraisablehook` and goes on.
    """
    before = sys.unraisablehook

    def send_again(unraisable) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            return before(unraisable)
        again = threading.Timer(_SOON, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
        again.daemon = True
        again.start()  # at once, it would come up within this callback, and be dropped again
        return None

    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextlib.contextmanager
def interrupts_end_the_process() -> Iterator[None]:
    """Let Ctrl-C in the block write its line and end the process at once, without an exception.

    An exception from a signal handler while TensorFlow's C++ calls Python aborts the process with a stack trace. The
    block must have nothing to clean up. Where Ctrl-C does something else than raise `KeyboardInterrupt`, this stays.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    standard_error = os.dup(2)  # the block may turn it away

    def end(*_) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # nobody reads it any more; it is being flushed just now
            sys.stdout.flush()
        with contextlib.suppress(OSError):
            os.write(standard_error, f"bert-keras: {WHAT_IS_LEFT}\n".encode())
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(standard_error)
