"""`pytest --summary`: tests per folder, the slowest files, and the memory of each test process.

Seconds are wall time, as measured by pytest. Processor seconds include the subprocesses of a test process. They hardly
change when other programs use the machine, so compare them between two runs.
"""

import collections
import operator
import os
import pathlib
import resource

import pytest

from bert_keras.cli.console import get_peak_memory

NUM_SLOWEST = 30
NUM_LARGEST = 10
_PROPERTY = "cost"


def add_option(parser: pytest.Parser) -> None:
    """Add `--summary` to pytest's options."""
    parser.addoption("--summary", action="store_true", help="print the tests per folder, and the slowest files")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Store the processor time and the memory at the start of a test."""
    item.stash[_START] = _processor_seconds(), _held_gigabytes()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Attach the processor time and the memory of the process to the report of a test's teardown."""
    report = yield
    if call.when == "teardown":
        seconds, gigabytes = item.stash[_START]
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        peak = (get_peak_memory() or 0) / 1e9
        costs = [_processor_seconds() - seconds, worker, peak, _held_gigabytes() - gigabytes]
        report.user_properties = [*report.user_properties, (_PROPERTY, costs)]
    return report


_START = pytest.StashKey[tuple[float, float]]()


class Summary:
    """Plugin that collects the reports of all test processes and prints tables at the end."""

    def __init__(self):
        self._seconds = collections.defaultdict(float)
        self._processor_seconds = collections.defaultdict(float)
        self._outcomes = collections.defaultdict(collections.Counter)
        self._peak = collections.defaultdict(lambda: (0.0, ""))
        self._growth = collections.defaultdict(float)

    def pytest_runtest_logreport(self, report):
        file = report.nodeid.split("::")[0]
        self._seconds[file] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self._outcomes[file][report.outcome] += 1
        for spent, worker, peak, growth in (value for name, value in report.user_properties if name == _PROPERTY):
            self._processor_seconds[file] += spent
            self._peak[worker] = max(self._peak[worker], (peak, file), key=operator.itemgetter(0))
            self._growth[file] += growth

    def pytest_terminal_summary(self, terminalreporter):
        write = terminalreporter.write_line
        terminalreporter.section("tests per folder")
        write(f"{'folder':<34} {'passed':>7} {'failed':>7} {'skipped':>7} {'seconds':>8} {'processor':>9}")
        folders = collections.defaultdict(list)
        for file in self._seconds:
            folders[str(pathlib.PurePosixPath(file).parent)].append(file)
        for folder, files in sorted(folders.items()):
            self._write_row(write, folder, files)
        self._write_row(write, "all", list(self._seconds))
        terminalreporter.section(f"the {NUM_SLOWEST} slowest files")
        for file in sorted(self._seconds, key=self._seconds.get, reverse=True)[:NUM_SLOWEST]:
            write(f"{file:<60} {self._seconds[file]:7.1f} s, processor {self._processor_seconds[file]:7.1f} s")
        terminalreporter.section(f"the {NUM_LARGEST} files that left the most memory allocated")
        for file in sorted(self._growth, key=self._growth.get, reverse=True)[:NUM_LARGEST]:
            write(f"{file:<60} {self._growth[file]:+5.2f} GB")
        for worker, (gigabytes, file) in sorted(self._peak.items()):
            write(f"peak memory of test process {worker}: {gigabytes:.1f} GB, in {file}")

    def _write_row(self, write, name: str, files: list[str]) -> None:
        outcomes = sum((self._outcomes[file] for file in files), collections.Counter())
        counts = " ".join(f"{outcomes[outcome]:>7,}" for outcome in ("passed", "failed", "skipped"))
        seconds, processor = (sum(costs[file] for file in files) for costs in (self._seconds, self._processor_seconds))
        write(f"{name:<34} {counts} {seconds:>8,.0f} {processor:>9,.0f}")


def _processor_seconds() -> float:
    """Return the processor time of this process and of its finished subprocesses."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _held_gigabytes() -> float:
    """Return the resident memory of this process in GB; 0 if unknown."""
    try:
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * resource.getpagesize() / 1e9
