"""CPU time and memory of running processes with their descendants, read from Linux's /proc."""

import os
import pathlib
import threading
from collections.abc import Sequence
from typing import NamedTuple


class Usage(NamedTuple):
    """CPU time since the start of a process and its descendants, and their resident memory now."""

    cpu_seconds: float
    rss_bytes: int


class ProcessUsage:
    """Context that measures processes from its start to its end, and their memory once per second in between.

    Descendants that end in between are counted if their parent waits for them. Pages that processes share count in
    each of them.
    """

    def __init__(self, pids: Sequence[int], interval_seconds: float = 1.0):
        self._samples: dict[int, list[Usage]] = {pid: [] for pid in pids}
        self._interval_seconds, self._is_over = interval_seconds, threading.Event()
        self._thread = threading.Thread(target=self._sample_until_over, daemon=True)

    def __enter__(self) -> "ProcessUsage":
        self._sample()
        if missing := [pid for pid, samples in self._samples.items() if not samples]:
            raise ValueError(f"no process has the number {', '.join(map(str, missing))}; see `ps`")
        if self._samples:
            self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._is_over.set()
        if self._samples:
            self._thread.join()
            self._sample()

    def summarize(self) -> list[dict]:
        """Return the figures of each process with its descendants; of one that ended, those up to the last sample."""
        return [
            {
                "pid": pid,
                "cpu_seconds": samples[-1].cpu_seconds - samples[0].cpu_seconds,
                "rss_begin_bytes": samples[0].rss_bytes,
                "rss_max_bytes": max(sample.rss_bytes for sample in samples),
                "rss_end_bytes": samples[-1].rss_bytes,
            }
            for pid, samples in self._samples.items()
        ]

    def _sample_until_over(self) -> None:
        while not self._is_over.wait(self._interval_seconds):
            self._sample()

    def _sample(self) -> None:
        if self._samples:
            usages, children = read_processes()
            for pid, samples in self._samples.items():
                if pid in usages:
                    family = [usages[member] for member in list_family(pid, children)]
                    samples.append(Usage(sum(one.cpu_seconds for one in family), sum(one.rss_bytes for one in family)))


def read_processes() -> tuple[dict[int, Usage], dict[int, list[int]]]:
    """Return the usage of all processes, with their ended children, and the children of each process."""
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    usages, children = {}, {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process ended
        pid, parent = int(folder.name), int(fields[1])
        usages[pid] = Usage(sum(map(int, fields[11:15])) / ticks, page * int(fields[21]))
        children.setdefault(parent, []).append(pid)
    return usages, children


def list_family(pid: int, children: dict[int, list[int]]) -> list[int]:
    """Return a process and its descendants."""
    return [pid] + [member for child in children.get(pid, ()) for member in list_family(child, children)]
