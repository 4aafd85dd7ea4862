"""`count_cores`: the number of CPU cores that this process may use."""

import math
import os
import pathlib

_CGROUP = pathlib.Path("/sys/fs/cgroup")


def count_cores(cgroup: pathlib.Path = _CGROUP) -> int:
    """Return the cores that the scheduler gives this process, at most as many as its container's CPU limit.

    A limit of 1.5 cores counts as 2.

    Args:
        cgroup: where Linux shows the limits of the container.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = _read_limit(cgroup)
    return cores if limit is None else max(1, min(cores, math.ceil(limit)))


def _read_limit(cgroup: pathlib.Path) -> float | None:
    """Return the limit in cores, or None without a limit."""
    try:
        if (cgroup / "cpu.max").exists():  # version 2: "200000 100000" or "max 100000"
            quota, period = (cgroup / "cpu.max").read_text().split()
        else:  # version 1: -1 for none
            quota, period = ((cgroup / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError):  # no container, or no limit
        return None
