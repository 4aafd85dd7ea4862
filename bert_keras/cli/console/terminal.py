"""The standard streams of a command: closed ones, JSON results, and warnings of libraries.

Everything that a command prints goes through this module and `bert_keras.display.printing`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator

from bert_keras.display.json_log import format_event, is_json
from bert_keras.display.printing import (
    MAX_MESSAGE_LENGTH,
    UNPRINTABLE,
    can_encode,
    ignore_write_errors,
    print_line,
    printable,
    redirect_to_null,
    write_line,
)

__all__ = ["MAX_MESSAGE_LENGTH", "ignore_write_errors", "print_line", "printable", "redirect_to_null"]


def printable_json(text: str, encoding: str | None) -> str:
    """Escape JSON text for a terminal with this encoding; the parsed value stays the same."""
    text = UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}" if match[0] != "\n" else "\n", text)
    if not can_encode(encoding, text):
        text = json.dumps(json.loads(text))
    return text


def print_json(text: str) -> None:
    """Print JSON text to standard output."""
    write_line(printable_json(text, getattr(sys.stdout, "encoding", None)), sys.stdout)


def open_closed_streams() -> None:
    """Connect standard streams that are closed (`>&-`) to the null device.

    Otherwise the next file to be opened would get the file descriptor of the stream, and TensorFlow's log lines would
    be written into that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor: the one of the stream
            stream = open(descriptor, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 stays open
            setattr(sys, name, stream)


@contextlib.contextmanager
def escaped_warnings() -> Iterator[None]:
    """Escape warnings, and log messages without a handler, inside the block; in the JSON format they are events."""
    handler, format_warning = logging.lastResort, warnings.formatwarning
    logging.lastResort = _EscapingHandler(logging.WARNING)

    def format_escaped(message: Warning | str, category: type[Warning], *place: object) -> str:
        if is_json():
            return format_event("warning", printable(message), "warning", category=category.__name__) + "\n"
        return printable(format_warning(message, category, *place).strip()) + "\n"

    warnings.formatwarning = format_escaped
    try:
        yield
    finally:
        logging.lastResort, warnings.formatwarning = handler, format_warning


class _EscapingHandler(logging.Handler):
    """Handler of last resort that prints escaped log messages to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one log message."""
        level = "error" if record.levelno >= logging.ERROR else "warning"
        print_line(self.format(record), max_length=MAX_MESSAGE_LENGTH, event="log", level=level, logger=record.name)
