"""The memory of this machine, or of the container in which the process runs."""

import os
import pathlib

_CGROUP = pathlib.Path("/sys/fs/cgroup")
_MEMINFO = pathlib.Path("/proc/meminfo")


def get_machine_memory(cgroup: pathlib.Path = _CGROUP) -> int:
    """Return the bytes of memory of this machine, or of its container.

    Args:
        cgroup: where Linux shows the limits of the container, version 1 or 2.
    """
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _read_number(cgroup, "memory.max", "memory/memory.limit_in_bytes")
    return total if limit is None else min(total, limit)


def read_available_memory(meminfo: pathlib.Path = _MEMINFO, cgroup: pathlib.Path = _CGROUP) -> int | None:
    """Return the bytes of memory that are available without swapping; None: the system does not tell.

    Args:
        meminfo: the file in which Linux describes the memory.
        cgroup: as in `get_machine_memory`.
    """
    try:
        lines = meminfo.read_text(encoding="utf-8").splitlines()
        available = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None
    used = _read_number(cgroup, "memory.current", "memory/memory.usage_in_bytes")
    return available if used is None else max(0, min(available, get_machine_memory(cgroup) - used))


def _read_number(cgroup: pathlib.Path, *names: str) -> int | None:
    """Return the number in the first of the files that exists; None if no file exists or the number is "max"."""
    for name in names:
        try:
            return int((cgroup / name).read_text())
        except (OSError, ValueError):  # no container, or no limit
            continue
    return None
