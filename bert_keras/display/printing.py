"""Print text safely to terminals and logs: escaped, shortened and in their encoding.

Text from users' files can contain an escape sequence that rewrites the screen, a line break that forges a line of a
log, or 70,000 characters. Everything that we print goes through this module.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import TextIO

from bert_keras.display.json_log import JsonLines, format_event, is_event

MAX_MESSAGE_LENGTH = 3000  # characters; enough for ten problems with their file names

# Control characters, line separators, marks that change the direction of text, and lone surrogates (from file names
# that are not UTF-8). All have four hexadecimal digits, so JSON can escape them as well.
UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object, *, max_length: int | None = None) -> str:
    r"""Return a text as one line without characters that a terminal would interpret.

    Args:
        text: any value.
        max_length: number of characters to keep; the middle of a longer text is left out. None: no limit.

    Example:
        >>> printable("café\x1b[2J\n")
        'café\\x1b[2J\\n'
    """
    text = str(text)
    if max_length is not None and len(text) > max_length:
        end_length = max_length // 3  # a message ends with the fix
        num_left_out = len(text) - max_length
        text = f"{text[: max_length - end_length]} [{num_left_out:,} characters left out] {text[-end_length:]}"
    return UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def print_line(
    text: object,
    *,
    to_output: bool = False,
    max_length: int | None = None,
    event: str = "message",
    level: str = "info",
    **values: object,
) -> None:
    """Print one line of text to standard error, or to standard output, escaped for its encoding.

    Args:
        text: the line.
        to_output: whether to print to standard output.
        max_length: number of characters to keep, see `printable`.
        event, level, **values: what the JSON format adds to a line on standard error, see `format_event`.
    """
    if to_output:
        write_line(printable(text, max_length=max_length), sys.stdout)
        return
    with ignore_write_errors(sys.stderr):
        if not isinstance(sys.stderr, JsonLines):
            write_line(printable(text, max_length=max_length), sys.stderr)
        elif is_event(text := str(text)):  # from a worker process
            sys.stderr.write_event(text)
        elif text := text.strip():  # without indentation, and not at all if it is empty
            sys.stderr.write_event(format_event(event, printable(text, max_length=max_length), level, **values))


def write_line(text: str, stream: TextIO) -> None:
    """Write one printable line to a stream; characters outside its encoding are escaped."""
    encoding = getattr(stream, "encoding", None)
    if not can_encode(encoding, text):
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    print(text, file=stream, flush=True)


def can_encode(encoding: str | None, text: str) -> bool:
    """Return whether an encoding has all characters of a text; None: a stream in memory, which accepts any text."""
    if encoding is None or text.isascii():
        return True
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


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
