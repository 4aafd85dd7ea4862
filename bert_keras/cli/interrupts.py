"""Ctrl-C at moments when Python or a library would lose it or turn it into another error; the import of TensorFlow.

The import creates a million objects that live as long as the process, and Python's garbage collector would scan them
again and again. Switching it off during the import and freezing the objects afterwards saves a fifth of the 5 s.
"""

import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

from bert_keras.display.printing import find_log_format, format_event, is_json
from bert_keras.errors import InputError

INTERRUPTED = 130  # exit status: 128 + SIGINT, the convention of shells
INTERRUPTED_MESSAGE = "interrupted; unfinished output was not written"
_RESEND_SECONDS = 0.01


def was_interrupted(error: BaseException | None) -> bool:
    """Return whether an error was raised while a `KeyboardInterrupt` was handled.

    Ctrl-C inside a `finally` block of argparse, for example, ends in an AttributeError.
    """
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def format_interrupt(reason: str, *, as_json: bool) -> str:
    """Return the line that an interrupted command prints."""
    text = f"bert-keras: {reason}"
    return format_event("error", text, "error", exit_status=INTERRUPTED) if as_json else text


def is_json_wanted(argv: Sequence[str] | None) -> bool:
    """Return whether the command line or the environment asks for JSON, before a command has started."""
    with contextlib.suppress(InputError):
        return find_log_format(list(sys.argv[1:] if argv is None else argv)) == "json"
    return False


@contextlib.contextmanager
def resend_dropped_interrupts() -> Iterator[None]:
    """Send an interrupt again if Python drops it inside the block.

    An exception in a callback of the garbage collector cannot be raised: Python calls `sys.unraisablehook` and
    continues. Every import runs such callbacks.
    """
    before = sys.unraisablehook

    def resend(unraisable: "sys.UnraisableHookArgs") -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            before(unraisable)
            return
        # without the delay, the signal would arrive inside this callback and be dropped again
        timer = threading.Timer(_RESEND_SECONDS, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
        timer.daemon = True
        timer.start()

    sys.unraisablehook = resend
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextlib.contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """Make Ctrl-C inside the block print its message and end the process at once, without an exception.

    An exception from a signal handler while TensorFlow's C++ code calls Python aborts the process with a stack trace.
    The block must have nothing to clean up. A SIGINT handler other than Python's default one is left in place.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    standard_error = os.dup(2)  # the block may redirect it
    message = format_interrupt(INTERRUPTED_MESSAGE, as_json=is_json()) + "\n"

    def end(*_: object) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # closed by its reader, or in the middle of another flush
            sys.stdout.flush()
        with contextlib.suppress(OSError):
            os.write(standard_error, message.encode())
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(standard_error)


def load_tensorflow() -> None:
    """Import TensorFlow and tensorflow-text quietly. `TF_CPP_MIN_LOG_LEVEL=0` keeps the log lines.

    Ctrl-C ends the process during the import, so no output may be half-written when this function is called.
    """
    if "tensorflow_text" in sys.modules:
        return
    from bert_keras.pipelines.quiet_import import import_tensorflow_quietly

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _without_garbage_collection(), exit_on_interrupt():
        import_tensorflow_quietly()


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection inside the block, then freeze all existing objects so that they are never scanned."""
    if not gc.isenabled():  # the caller has disabled it on purpose
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
