"""Print the settings, tables and result of a command.

Settings and tables go to standard error, the result to standard output, as lines of text or as JSON.
"""

import pathlib
import sys
from collections.abc import Mapping, Sequence

from bert_keras.cli.console.terminal import MAX_MESSAGE_LENGTH, print_json, print_line, printable
from bert_keras.display.json_log import is_json
from bert_keras.display.progress_bar import ProgressBar
from bert_keras.files import format_json

__all__ = ["ProgressBar"]  # most commands that report also show a bar

_MAX_SETTING_LENGTH = 1000  # characters


def print_settings(command: str, settings: Mapping[str, object]) -> None:
    """Print the resolved settings and derived numbers of a command, one per line, or as one event."""
    if is_json():
        print_line(f"bert-keras {command}", event="settings", command=command, settings=settings)
        return
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
        print_line(f"warning: {warning}", max_length=MAX_MESSAGE_LENGTH, event="warning", level="warning")


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


def print_table(names: Sequence[str], rows: Sequence[Sequence[float | str | None]]) -> None:
    """Print a table of numbers and texts with the names of its columns, or one event for each row."""
    if is_json():
        for row in rows:
            values = dict(zip(names, row, strict=True))
            text = ", ".join(f"{name} {_format_cell(value)}" for name, value in values.items())
            print_line(text, event="table", values=values)
        return
    cells = [[_format_cell(value) for value in row] for row in rows]
    for line in format_table([names, *cells]).split("\n"):
        print_line(f"  {line}")


def _format_cell(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.4g}"


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
