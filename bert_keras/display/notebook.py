"""`NotebookBar`: one output of a notebook cell that is updated in place.

It needs no widgets, so it also works in Colab, VS Code and notebooks that are executed by a program, and a saved
notebook contains its last state.
"""

import html
import sys
import time
from collections.abc import Mapping
from typing import Any

_SECONDS_PER_UPDATE = 0.2  # each update is a message to the browser


def is_notebook() -> bool:
    """Return whether this is the kernel of a notebook (Jupyter, Colab, VS Code)."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")  # IPython in a terminal has none


class NotebookBar:
    """Progress bar with the lines that are printed below it, as one output of the current cell."""

    def __init__(self):
        self._handle: Any = None
        self._status: Any = None
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

    def update(self, status: Any) -> None:
        """Move the bar, at most five times a second.

        Args:
            status: a `Status` of `progress_bar`.
        """
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
        eta = "" if status.eta_seconds is None else f"ETA {status.eta_seconds:,.0f} s"
        text = f"{status.description} {status.format_count()}  {status.full_note}  {eta}".rstrip()
        value = "" if status.total is None else f' value="{min(status.done, status.total)}" max="{status.total}"'
        lines = "".join(f"<br>{html.escape(line)}" for line in self._lines)
        bar = f'<progress aria-label="{html.escape(status.description)}"{value}></progress>'
        markup = f'<div style="font-family: monospace">{bar} {html.escape(text)}{lines}</div>'
        return {"text/plain": "\n".join([text, *self._lines]), "text/html": markup}
