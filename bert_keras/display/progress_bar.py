"""`ProgressBar`: a moving bar in terminals and notebooks, ten lines in logs, events in the JSON format."""

import dataclasses
import html
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from bert_keras.display.printing import MAX_MESSAGE_LENGTH, ignore_write_errors, is_json, print_line, printable

# variables of terminals that keep all that was drawn: CI jobs, and `!COMMAND` in a notebook (set by jupyter_client)
_KEEPS_ALL = ("CI", "JPY_PARENT_PID")
_LINES_PER_BAR = 10  # printed to a log file instead of a moving bar
_SECONDS_PER_UPDATE = 0.2  # in notebooks, where each update is a message to the browser


def is_notebook() -> bool:
    """Return whether this is the kernel of a notebook (Jupyter, Colab, VS Code)."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")  # IPython in a terminal has none


@dataclasses.dataclass(frozen=True)
class Status:
    """How far some work has come.

    Attributes:
        description: one or two words for the work.
        unit: what is counted, in the plural; None: nothing to name.
        done: number of units done.
        total: number of all units; None: unknown.
        rate: units per second; None: unknown.
        note: text such as the current loss.
        metrics: numbers for machines, keyed by name.
    """

    description: str
    unit: str | None
    done: int
    total: int | None
    rate: float | None
    note: str
    metrics: Mapping[str, float]

    @property
    def eta_seconds(self) -> float | None:
        """The remaining time; None: unknown."""
        if not self.rate or self.total is None or self.total <= self.done:
            return None
        return (self.total - self.done) / self.rate

    @property
    def full_note(self) -> str:
        """The rate, if it is known and has a unit, and the note."""
        if not self.rate or not self.unit:
            return self.note
        return f"{self.rate:,.{0 if self.rate >= 1000 else 1}f} {self.unit}/s  {self.note}"

    def format_line(self) -> str:
        """Return everything in one line."""
        eta = "" if self.eta_seconds is None else f"ETA {self.eta_seconds:,.0f} s"
        return f"{self.description} {self.format_count()}  {self.full_note}  {eta}".rstrip()

    def format_count(self) -> str:
        """Return the number done, of how many, and the unit."""
        count = f"{self.done:,}" + ("" if self.total is None else f"/{self.total:,}")
        if not self.unit:
            return count
        is_one = (self.done if self.total is None else self.total) == 1
        return f"{count} {self.unit.removesuffix('s') if is_one else self.unit}"


def can_move() -> bool:
    """Return whether standard error is a terminal that can redraw a line.

    `TERM=dumb` cannot, a pipe or file is no terminal even if `FORCE_COLOR` is set, and some terminals keep all that was
    drawn, see `_KEEPS_ALL`.
    """
    if any(map(os.environ.get, _KEEPS_ALL)):
        return False
    return sys.stderr.isatty() and Console(stderr=True).is_interactive


class ProgressBar:
    """Progress bar with rate and ETA on a terminal or in a notebook, ten lines in a log. Use it as a context manager.

    Args:
        description: one or two words for the work, such as "training".
        unit: what is counted, in the plural; None to show neither a unit nor a rate.
        has_rate: whether the units take equal time, so that their rate and the remaining time are shown.
    """

    def __init__(self, description: str, unit: str | None, *, has_rate: bool = True):
        self._description, self._unit, self._has_rate = description, unit, has_rate
        self._display: _Lines | _TerminalBar | _NotebookBar = _Lines()  # of a bar that is not started
        self._first: tuple[float, int] | None = None  # time and number done at the first update

    def __enter__(self) -> "ProgressBar":
        if not is_json() and is_notebook():
            self._display = _NotebookBar()
        elif not is_json() and can_move():
            self._display = _TerminalBar(self._description, has_eta=self._has_rate)
        else:
            self._display = _Lines()
        self._display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._display.stop()

    def print(self, text: str, *, event: str = "message", **values: object) -> None:
        """Print a line of text, above the bar on a terminal; a long line is not wrapped.

        Args:
            text: the line.
            event, **values: what the JSON format adds, see `format_event`.
        """
        self._display.print(printable(text, max_length=MAX_MESSAGE_LENGTH), event, values)

    def restart(self) -> None:
        """Count from zero again, for the next piece of the work."""
        self._first = None
        self._display.restart()

    def update(
        self, done: int, total: int | None = None, note: str = "", metrics: Mapping[str, float] | None = None
    ) -> None:
        """Show the number of units done, of `total` (None: unknown), and a note such as the current loss.

        The JSON format has `metrics` too.
        """
        now = time.monotonic()
        if self._first is None:  # the first step includes compilation, which would distort the rate
            self._first = (now, done)
        first_time, first_done = self._first
        is_known = self._has_rate and done > first_done
        rate = (done - first_done) / max(now - first_time, 1e-9) if is_known else None
        self._display.update(Status(self._description, self._unit, done, total, rate, printable(note), metrics or {}))


class _Lines:
    """Lines of a log: one at each tenth of the total, or each doubling if it is unknown."""

    def __init__(self):
        self._last_mark = 0

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def restart(self) -> None:
        """Begin with the first tenth again."""
        self._last_mark = 0

    def print(self, text: str, event: str, values: Mapping[str, object]) -> None:
        """Print a line."""
        print_line(f"  {text}", event=event, **values)

    def update(self, status: Status) -> None:
        """Print a line if one is due."""
        done, total = status.done, status.total
        mark = done.bit_length() if total is None else done * _LINES_PER_BAR // max(total, 1)
        is_due, self._last_mark = mark > self._last_mark, max(mark, self._last_mark)
        if not is_due:
            return
        print_line(
            f"  {status.format_line()}",
            event="progress",
            description=status.description,
            unit=status.unit,
            done=done,
            total=total,
            rate=status.rate,
            eta_seconds=status.eta_seconds,
            metrics=status.metrics,
        )


class _EtaColumn(TimeRemainingColumn):
    """The remaining time after the word ETA; empty if it is unknown."""

    def render(self, task: Task) -> Text:
        """Return the text of the column."""
        time_left = super().render(task)
        return Text.assemble("ETA ", time_left) if time_left else time_left


class _TerminalBar:
    """Bar that moves in one line of a terminal, however narrow it is."""

    def __init__(self, description: str, *, has_eta: bool):
        self._console = Console(stderr=True)
        columns = (
            TextColumn("  {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            *([_EtaColumn()] if has_eta else []),
        )
        self._bar = Progress(*columns, console=self._console)
        self._task = self._bar.add_task(printable(description), total=None, note="")

    def start(self) -> None:
        """Show the bar."""
        self._bar.start()

    def stop(self) -> None:
        """Leave the last state of the bar."""
        self._bar.stop()

    def restart(self) -> None:
        """Move the bar back, and forget the rate."""
        self._bar.reset(self._task)

    def print(self, text: str, event: str, values: Mapping[str, object]) -> None:
        """Print a line above the bar."""
        del event, values
        with ignore_write_errors(sys.stderr):
            self._console.print(f"  {text}", markup=False, highlight=False, soft_wrap=True)

    def update(self, status: Status) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=status.done, total=status.total, note=status.full_note)


class _NotebookBar:
    """Progress bar with the lines that are printed below it, as one output of the current cell.

    It needs no widgets, so it also works in Colab, VS Code and notebooks that are executed by a program, and a saved
    notebook contains its last state.
    """

    def __init__(self):
        self._handle: Any = None
        self._status: Status | None = None
        self._lines: list[str] = []
        self._last_shown = 0.0

    def start(self) -> None:
        """Show an empty output."""
        from IPython.display import display

        self._handle = display(self._render(), raw=True, display_id=True)

    def stop(self) -> None:
        """Show the last state."""
        self._show()

    def restart(self) -> None:
        """Do nothing: the next update moves the bar back."""

    def print(self, text: str, event: str, values: Mapping[str, object]) -> None:
        """Add a line below the bar."""
        del event, values
        self._lines.append(text)
        self._show()

    def update(self, status: Status) -> None:
        """Move the bar, at most five times a second."""
        self._status = status
        if time.monotonic() - self._last_shown > _SECONDS_PER_UPDATE:
            self._show()

    def _show(self) -> None:
        self._last_shown = time.monotonic()
        self._handle.update(self._render(), raw=True)

    def _render(self) -> dict[str, str]:
        """Return the output as text and as HTML."""
        if self._status is None:
            return {"text/plain": "", "text/html": ""}
        status = self._status
        text = status.format_line()
        value = "" if status.total is None else f' value="{min(status.done, status.total)}" max="{status.total}"'
        lines = "".join(f"<br>{html.escape(line)}" for line in self._lines)
        bar = f'<progress aria-label="{html.escape(status.description)}"{value}></progress>'
        markup = f'<div style="font-family: monospace">{bar} {html.escape(text)}{lines}</div>'
        return {"text/plain": "\n".join([text, *self._lines]), "text/html": markup}
