"""Print text safely to terminals and logs: escaped, shortened and in their encoding.

Text from users' files can contain an escape sequence that rewrites the screen, a line break that forges a line of a
log, or 70,000 characters. Everything that a command prints goes through this module.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import TextIO

MAX_MESSAGE_LENGTH = 3000  # characters; enough for ten problems with their file names

# Control characters, line separators, marks that change the direction of text, and lone surrogates (from file names
# that are not UTF-8). All have four hexadecimal digits, so JSON can escape them as well.
_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object, *, max_length: int | None = None) -> str:
    r"""Return a text as one line without characters that a terminal would interpret.

    Args:
        text: any value.
        max_length: number of characters to keep; the middle of a longer text is left out. None: no limit.

    Example:
        >>> printable("caf\u00e9\x1b[2J\n")
        'caf\u00e9\\x1b[2J\\n'
    """
    text = str(text)
    if max_length is not None and len(text) > max_length:
        end_length = max_length // 3  # a message ends with the fix
        num_left_out = len(text) - max_length
        text = f"{text[: max_length - end_length]} [{num_left_out:,} characters left out] {text[-end_length:]}"
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def printable_json(text: str, encoding: str | None) -> str:
    """Escape JSON text for a terminal with this encoding; the parsed value stays the same."""
    text = _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}" if match[0] != "\n" else "\n", text)
    if not _can_encode(encoding, text):
        text = json.dumps(json.loads(text))
    return text


def print_line(text: object, *, to_output: bool = False, max_length: int | None = None) -> None:
    """Print one line of text to standard error, or to standard output, escaped for its encoding."""
    line = printable(text, max_length=max_length)
    if to_output:
        _print(line, sys.stdout)
        return
    with ignore_write_errors(sys.stderr):
        _print(line, sys.stderr)


def print_json(text: str) -> None:
    """Print JSON text to standard output."""
    _print(printable_json(text, getattr(sys.stdout, "encoding", None)), sys.stdout)


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


def redirect_to_null(stream: TextIO) -> None:
    """Redirect a standard stream to the null device, so that flushing it when Python exits cannot fail."""
    null_device = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):  # a stream without a file descriptor
        os.dup2(null_device, stream.fileno())
    os.close(null_device)


@contextlib.contextmanager
def ignore_write_errors(stream: TextIO) -> Iterator[None]:
    """Continue if the stream cannot be written: training must not stop because its log was closed."""
    try:
        yield
    except OSError:
        redirect_to_null(stream)


@contextlib.contextmanager
def escaped_warnings() -> Iterator[None]:
    """Escape warnings, and log messages without a handler, inside the block."""
    handler, format_warning = logging.lastResort, warnings.formatwarning
    logging.lastResort = _EscapingHandler(logging.WARNING)
    warnings.formatwarning = lambda *details: printable(format_warning(*details).strip()) + "\n"
    try:
        yield
    finally:
        logging.lastResort, warnings.formatwarning = handler, format_warning


class _EscapingHandler(logging.Handler):
    """Handler of last resort that prints escaped log messages to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one log message."""
        print_line(self.format(record), max_length=MAX_MESSAGE_LENGTH)


def _print(text: str, stream: TextIO) -> None:
    encoding = getattr(stream, "encoding", None)
    if not _can_encode(encoding, text):
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    print(text, file=stream, flush=True)


def _can_encode(encoding: str | None, text: str) -> bool:
    if encoding is None or text.isascii():  # an in-memory stream such as StringIO accepts any text
        return True
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
