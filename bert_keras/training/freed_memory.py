"""Keeps freed memory in the process: a training step asks for the same buffers again and again."""

import ctypes
import logging

_LOG = logging.getLogger(__name__)
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4  # numbers of glibc's mallopt
_KEPT_BYTES = 2**31 - 1  # mallopt takes an int; what is free at the top of the heap beyond this goes back


def keep_freed_memory() -> bool:
    """Tells glibc to keep freed memory for the next allocation instead of giving it back to the kernel.

    TensorFlow on a CPU allocates the large tensors of each step anew, and glibc maps every one of them
    afresh; the kernel then zeroes it page by page. Kept, a tiny model's step took 29 % less processor time. The
    process holds on to the most memory it ever needed. Calling it again changes nothing.

    It changes the whole process, so the commands that train call it and no function of the library does.

    Returns:
        Whether it was done: False where the C library is not glibc (macOS, Windows, Alpine).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    done = all(mallopt(*setting) for setting in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _KEPT_BYTES)))
    _LOG.debug("glibc keeps freed memory: %s", done)
    return done
