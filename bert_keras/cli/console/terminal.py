"""Text for terminals and logs: what users' files hold reaches them escaped, shortened, and in their encoding.

A name from a file can hold an escape sequence that rewrites the screen, a line end that forges a line of a log, or
70,000 characters. Everything that a command prints goes through this module.
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

MOST_CHARACTERS = 3000  # of a message: ten problems at once, with the names of their files

# Control characters, line separators, what turns the direction of text around, and halves of surrogate pairs (a file
# name that is not UTF-8 has them); all are of four hexadecimal digits, so JSON can spell them too.
_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object, *, most: int | None = None) -> str:
    r"""Return a text as one line that a terminal shows as it is.

    Args:
        text: any value.
        most: characters to show at most; of a longer text the middle is left out. None: all.

    Example:
        >>> printable("caf\u00e9\x1b[2J\n")
        'caf\u00e9\\x1b[2J\\n'
    """
    text = str(text)
    if most is not None and len(text) > most:
        kept_end = most // 3  # how to mend it stands at the end of a message
        left_out = len(text) - most
        text = f"{text[: most - kept_end]} [{left_out:,} characters left out] {text[-kept_end:]}"
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def printable_json(text: str, encoding: str | None) -> str:
    """Return JSON text as equal JSON that a terminal with this encoding shows as it is."""
    text = _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}" if match[0] != "\n" else "\n", text)
    if not _can_hold(encoding, text):
        text = json.dumps(json.loads(text))
    return text


def print_line(text: object, *, to_output: bool = False, most: int | None = None) -> None:
    """Print one line of text to standard error, or to standard output, escaped for its encoding."""
    if to_output:
        _print(printable(text, most=most), sys.stdout)
        return
    with unimportant(sys.stderr):
        _print(printable(text, most=most), sys.stderr)


def print_json(text: str) -> None:
    """Print JSON text to standard output."""
    _print(printable_json(text, getattr(sys.stdout, "encoding", None)), sys.stdout)


def open_closed_streams() -> None:
    """Give standard streams that were closed (`>&-`) the null device.

    Python has no object for them, and the next file to be opened would take their number: what TensorFlow prints would
    end up in it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free: that of the stream
            stream = open(number, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 stays open
            setattr(sys, name, stream)


def send_nowhere(stream: TextIO) -> None:
    """Let a standard stream that cannot be written go to the null device, lest Python fail at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):  # a stream without a file
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextlib.contextmanager
def unimportant(stream: TextIO) -> Iterator[None]:
    """Go on where a stream cannot be written: a training does not end because nobody reads its progress."""
    try:
        yield
    except OSError:
        send_nowhere(stream)


@contextlib.contextmanager
def escaped_warnings() -> Iterator[None]:
    """Escape warnings and log messages that nobody has set up a handler for, within the block."""
    handler, form = logging.lastResort, warnings.formatwarning
    logging.lastResort = _EscapingHandler(logging.WARNING)
    warnings.formatwarning = lambda *about: printable(form(*about).strip()) + "\n"
    try:
        yield
    finally:
        logging.lastResort, warnings.formatwarning = handler, form


class _EscapingHandler(logging.Handler):
    """Prints log messages as Python does where no handler is set up, and escapes them."""

    def emit(self, record: logging.LogRecord) -> None:
        print_line(self.format(record), most=MOST_CHARACTERS)


def _print(text: str, stream: TextIO) -> None:
    encoding = getattr(stream, "encoding", None)
    if not _can_hold(encoding, text):
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    print(text, file=stream, flush=True)


def _can_hold(encoding: str | None, text: str) -> bool:
    if encoding is None or text.isascii():  # a stream of Python's own, which holds any text
        return True
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
