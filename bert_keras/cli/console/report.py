"""What every verb prints: its settings before, its progress during, what it wrote after.

Settings and progress go to standard error; the result to standard output, as a line or as JSON.
"""

import pathlib
import sys
import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bert_keras.cli.console.terminal import MOST_CHARACTERS, print_json, print_line, printable, unimportant
from bert_keras.files import format_json

_MOST_OF_A_SETTING = 1000  # characters
_LINES_A_BAR = 10  # what a log file gets where a terminal gets a moving bar


def print_settings(verb: str, settings: Mapping[str, object]) -> None:
    """Prints the resolved settings and derived numbers of a verb, one a line."""
    width = max(map(len, settings))
    print_line(f"bert-keras {verb}")
    for name, value in settings.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
        print_line(f"  {name:<{width}}  {shown}", most=_MOST_OF_A_SETTING)


def print_result(sentence: str | Sequence[str], result: Mapping[str, object], *, as_json: bool) -> None:
    """Prints what was done: a sentence, or several lines, for people, or the whole result for machines."""
    if as_json:
        print_json(format_json(result))
        return
    for line in [sentence] if isinstance(sentence, str) else sentence:
        print_line(line, to_output=True)


def print_warnings(warnings: Sequence[str]) -> None:
    """Print what is probably wrong with the data, each with its remedy, on standard error."""
    for warning in warnings:
        print_line(f"warning: {warning}", most=MOST_CHARACTERS)


def aligned(rows: Sequence[Sequence[str]], *, left: bool = False) -> str:
    """Returns rows of texts in columns, one a line: the first column to the left, the others to the right.

    `left`: all columns to the left.
    """
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.ljust, *([str.ljust if left else str.rjust] * (len(widths) - 1))]
    lines = ("  ".join(side(text, width) for side, text, width in zip(sides, row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def print_table(names: Sequence[str], rows: Sequence[Sequence[float]]) -> None:
    """Prints a table of numbers, its columns under their names."""
    texts = [list(map(printable, names)), *([f"{value:.4g}" for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        print_line("  " + "  ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True)))


def peak_memory_bytes(*, of_workers: bool = False) -> int | None:
    """Returns the most memory that this process held, or the largest of its ended workers; None on Windows."""
    if not of_workers and (peak := _peak_on_linux()):
        return peak
    try:
        import resource
    except ModuleNotFoundError:
        return None
    usage = resource.getrusage(resource.RUSAGE_CHILDREN if of_workers else resource.RUSAGE_SELF)
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _peak_on_linux() -> int | None:
    """Returns the peak that Linux reports for this program; `ru_maxrss` includes the one that started it."""
    try:
        lines = pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)


def memory_note(result: Mapping[str, object]) -> str:
    """Returns the end of a sentence that tells `peak_memory_bytes` and `worker_peak_memory_bytes`, where known."""
    note = ""
    if result["peak_memory_bytes"]:
        note += f"; peak memory {result['peak_memory_bytes'] / 1e6:,.0f} MB"
    if result["worker_peak_memory_bytes"]:
        note += f", each worker {result['worker_peak_memory_bytes'] / 1e6:,.0f} MB"
    return note


class ProgressBar:
    """A bar with rate and time left on a terminal, ten lines in a log. Use it in a `with` block.

    Args:
        what: a word or two for the work.
        unit: what is counted, in the plural; None where a rate would say nothing.
    """

    def __init__(self, what: str, unit: str | None):
        self._what, self._unit = what, unit
        self._console = Console(stderr=True)
        self._bar = None
        self._first: tuple[float, int] | None = None  # when, and with how much done, the counting began
        self._printed = 0

    def __enter__(self):
        if self._console.is_terminal:
            columns = (
                TextColumn("  {task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=self._console)
            self._task = self._bar.add_task(self._what, total=None, note="")
            self._bar.start()
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.stop()

    def say(self, sentence: str) -> None:
        """Prints a line of its own, above the bar where there is one; a long one is not broken."""
        sentence = printable(sentence, most=MOST_CHARACTERS)
        with unimportant(sys.stderr):
            self._console.print(f"  {sentence}", markup=False, highlight=False, soft_wrap=True)

    def update(self, done: int, total: int | None = None, note: str = "") -> None:
        """Shows that `done` of `total` (None: nobody knows) are done; `note` says what else is worth watching."""
        now = time.monotonic()
        if self._first is None:  # the first step compiles, and would spoil the rate
            self._first = (now, done)
        since, done_before = self._first
        rate = (done - done_before) / max(now - since, 1e-9)
        if self._unit is not None and done > done_before:
            note = f"{rate:,.{0 if rate >= 1000 else 1}f} {self._unit}/s  {note}"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, note=printable(note))
        elif self._is_due(done, total):
            of_all = "" if total is None else f"/{total:,}"
            left = f"{(total - done) / rate:,.0f} s left" if total and rate else ""
            print_line(f"  {self._what} {done:,}{of_all}  {note}  {left}".rstrip())

    def _is_due(self, done: int, total: int | None) -> bool:
        """Whether a log gets a line now: at each tenth of the way, or at each doubling of an unknown way."""
        mark = done.bit_length() if total is None else done * _LINES_A_BAR // max(total, 1)
        due, self._printed = mark > self._printed, max(mark, self._printed)
        return due
