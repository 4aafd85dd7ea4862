"""Make glibc's malloc keep freed memory, because every training step allocates the same buffers again."""

import ctypes
import logging

_LOG = logging.getLogger(__name__)
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # the parameter numbers of mallopt in glibc's malloc.h
_MAX_INT = 2**31 - 1  # mallopt accepts an int; free memory at the top of the heap beyond this goes back to the kernel


def keep_freed_memory() -> bool:
    """Make glibc keep freed memory for later allocations instead of returning it to the kernel.

    TensorFlow on a CPU allocates the large tensors of each step again. glibc maps each of them with a new `mmap`, and
    the kernel zeroes it page by page. With this setting a step of a tiny model took 29 % less processor time. The
    process never uses less memory than its peak. A second call changes nothing.

    The setting affects the whole process, so only the commands that train call this function, never the library.

    Returns:
        False if the C library is not glibc (macOS, Windows, Alpine), and nothing changed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    done = all(mallopt(*setting) for setting in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _MAX_INT)))
    _LOG.debug("glibc keeps freed memory: %s", done)
    return done
