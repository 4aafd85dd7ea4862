"""Print the settings, progress and result of a command.

Settings and progress go to standard error, the result to standard output, as lines of text or as JSON.
"""

import pathlib
import sys
import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from bert_keras.cli.console.terminal import MAX_MESSAGE_LENGTH, ignore_write_errors, print_json, print_line, printable
from bert_keras.files import format_json

_MAX_SETTING_LENGTH = 1000  # characters
_LINES_PER_BAR = 10  # printed to a log file instead of a moving bar


def print_settings(command: str, settings: Mapping[str, object]) -> None:
    """Print the resolved settings and derived numbers of a command, one per line."""
    width = max(map(len, settings))
    print_line(f"bert-keras {command}")
    for name, value in settings.items():
        text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
        print_line(f"  {name:<{width}}  {text}", max_length=_MAX_SETTING_LENGTH)


def print_result(text: str | Sequence[str], result: Mapping[str, object], *, as_json: bool) -> None:
    """Print the result of a command: a sentence or several lines of text, or the whole result as JSON."""
    if as_json:
        print_json(format_json(result))
        return
    for line in [text] if isinstance(text, str) else text:
        print_line(line, to_output=True)


def print_warnings(warnings: Sequence[str]) -> None:
    """Print warnings about the data to standard error."""
    for warning in warnings:
        print_line(f"warning: {warning}", max_length=MAX_MESSAGE_LENGTH)


def format_table(rows: Sequence[Sequence[str]], *, align_left: bool = False) -> str:
    """Format rows of texts as lines with aligned columns.

    Args:
        rows: cells of each row; all rows have the same number of cells.
        align_left: whether all columns are left-aligned. By default only the first one is.
    """
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    justify = [str.ljust, *([str.ljust if align_left else str.rjust] * (len(widths) - 1))]
    lines = ("  ".join(pad(text, width) for pad, text, width in zip(justify, row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def print_table(names: Sequence[str], rows: Sequence[Sequence[float]]) -> None:
    """Print a table of numbers with the names of its columns."""
    cells = [[f"{value:.4g}" for value in row] for row in rows]
    for line in format_table([names, *cells]).split("\n"):
        print_line(f"  {line}")


def get_peak_memory(*, of_workers: bool = False) -> int | None:
    """Return the peak memory of this process, or of its largest finished worker process; None on Windows."""
    if not of_workers and (peak := _read_linux_peak_memory()):
        return peak
    try:
        import resource
    except ModuleNotFoundError:
        return None
    usage = resource.getrusage(resource.RUSAGE_CHILDREN if of_workers else resource.RUSAGE_SELF)
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _read_linux_peak_memory() -> int | None:
    """Return the peak that Linux reports for this program; `ru_maxrss` would include the program that started it."""
    try:
        lines = pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)


def format_peak_memory(result: Mapping[str, object]) -> str:
    """Format `peak_memory_bytes` and `worker_peak_memory_bytes` as the end of a sentence; empty if both are None."""
    note = ""
    if result["peak_memory_bytes"]:
        note += f"; peak memory {result['peak_memory_bytes'] / 1e6:,.0f} MB"
    if result["worker_peak_memory_bytes"]:
        note += f", per worker {result['worker_peak_memory_bytes'] / 1e6:,.0f} MB"
    return note


class _EtaColumn(TimeRemainingColumn):
    """The remaining time after the word ETA; empty if it is unknown."""

    def render(self, task: Task) -> Text:
        """Return the text of the column."""
        time_left = super().render(task)
        return Text.assemble("ETA ", time_left) if time_left else time_left


class ProgressBar:
    """Progress bar with rate and ETA on a terminal, ten lines of text in a log. Use it as a context manager.

    Args:
        description: one or two words for the work, such as "training".
        unit: what is counted, in the plural; None to show neither a unit nor a rate.
        has_rate: whether the units take equal time, so that their rate and the remaining time are shown.
    """

    def __init__(self, description: str, unit: str | None, *, has_rate: bool = True):
        self._description, self._unit, self._has_rate = description, unit, has_rate
        self._console = Console(stderr=True)
        self._bar = None
        self._first: tuple[float, int] | None = None  # time and number done at the first update
        self._last_mark = 0

    def __enter__(self) -> "ProgressBar":
        if self._console.is_terminal:
            columns = (
                TextColumn("  {task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                *([_EtaColumn()] if self._has_rate else []),
            )
            self._bar = Progress(*columns, console=self._console)
            self._task = self._bar.add_task(self._description, total=None, note="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def print(self, text: str) -> None:
        """Print a line of text, above the bar on a terminal; a long line is not wrapped."""
        text = printable(text, max_length=MAX_MESSAGE_LENGTH)
        with ignore_write_errors(sys.stderr):
            self._console.print(f"  {text}", markup=False, highlight=False, soft_wrap=True)

    def update(self, done: int, total: int | None = None, note: str = "") -> None:
        """Show the number of units done, of `total` (None: unknown), and a note such as the current loss."""
        now = time.monotonic()
        if self._first is None:  # the first step includes compilation, which would distort the rate
            self._first = (now, done)
        first_time, first_done = self._first
        rate = (done - first_done) / max(now - first_time, 1e-9)
        if self._unit and self._has_rate and done > first_done:
            note = f"{rate:,.{0 if rate >= 1000 else 1}f} {self._unit}/s  {note}"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, note=printable(note))
        elif self._is_line_due(done, total):
            count = f"{done:,}" + ("" if total is None else f"/{total:,}")
            if self._unit:
                is_one = (done if total is None else total) == 1
                count += f" {self._unit.removesuffix('s') if is_one else self._unit}"
            eta = f"ETA {(total - done) / rate:,.0f} s" if self._has_rate and rate and total and total > done else ""
            print_line(f"  {self._description} {count}  {note}  {eta}".rstrip())

    def _is_line_due(self, done: int, total: int | None) -> bool:
        """Return whether a log gets a line now: at each tenth of the total, or each doubling if it is unknown."""
        mark = done.bit_length() if total is None else done * _LINES_PER_BAR // max(total, 1)
        is_due, self._last_mark = mark > self._last_mark, max(mark, self._last_mark)
        return is_due
