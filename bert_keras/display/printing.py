"""Print text safely to terminals and logs: escaped, shortened and in their encoding.

Text from users' files can contain an escape sequence that rewrites the screen, a line break that forges a line of a
log, or 70,000 characters. Everything that we print goes through this module.

Standard error has two forms: lines of text, and for log collectors one JSON object per line. Every object has `time`
(ISO 8601, UTC), `level`, `event` and `message`; events add their own values, such as `done`, `total` and `metrics` of a
progress line. docs/guide/command_line.md lists the events.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import itertools
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from bert_keras.errors import InputError

MAX_MESSAGE_LENGTH = 3000  # characters; enough for ten problems with their file names

# Control characters, line separators, marks that change the direction of text, and lone surrogates (from file names
# that are not UTF-8). All have four hexadecimal digits, so JSON can escape them as well.
UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

LOG_FORMATS = ("text", "json")
VARIABLE = "BERT_KERAS_LOG_FORMAT"
FLAG = "--log-format"
_START = '{"time":'  # of every line that `format_event` returns


def find_log_format(words: Sequence[str]) -> str:
    """Return the log format that a command line or the environment chooses, before the command line is parsed.

    Args:
        words: the arguments of the command. An unknown value is left to the parser.

    Raises:
        InputError: the environment variable has an unknown value.
    """
    end = words.index("--") if "--" in words else len(words)
    for index in reversed(range(end)):
        option, equals, value = words[index].partition("=")
        if option == FLAG:
            value = value if equals else next(iter(words[index + 1 : end]), "")
            return value if value in LOG_FORMATS else "text"
    value = os.environ.get(VARIABLE) or "text"
    if value not in LOG_FORMATS:
        raise InputError(f"{VARIABLE} is {value[:50]!r}; expected {' or '.join(LOG_FORMATS)}: correct it, or unset it")
    return value


def is_json() -> bool:
    """Return whether standard error is in JSON now."""
    return isinstance(sys.stderr, JsonLines)


def format_event(event: str, message: str, level: str = "info", **values: object) -> str:
    """Return one line of JSON.

    Args:
        event: kind of the line: "settings", "progress", "scores", "warning", "error", "message", ...
        message: the text that the text format prints.
        level: "info", "warning" or "error".
        **values: further values, for machines.
    """
    import json  # the imports of this module delay every start of the command line

    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    line = {"time": now, "level": level, "event": event, "message": message, **values}
    return json.dumps(_to_plain(line), allow_nan=False)


def is_event(text: str) -> bool:
    """Return whether a line comes from `format_event`, such as one that a worker process printed."""
    return text.startswith(_START)


class JsonLines(io.TextIOBase):
    """Text stream that writes everything as events, for libraries that print to standard error themselves.

    Text up to the end of a line becomes one event "output"; lines that are events already stay as they are, and the
    text before and after them becomes events of its own.

    Args:
        stream: the stream to write to.
    """

    def __init__(self, stream: TextIO):
        super().__init__()
        self.stream = stream
        self._unfinished = ""

    @property
    def encoding(self) -> str:
        """The encoding of the underlying stream."""
        return getattr(self.stream, "encoding", None) or "utf-8"

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the file descriptor of the underlying stream, which worker processes get."""
        return self.stream.fileno()

    def write(self, text: str) -> int:
        """Write the events of all complete lines."""
        self._unfinished += text
        if self._unfinished.endswith("\n"):
            self._write_unfinished()
        return len(text)

    def write_event(self, line: str) -> None:
        """Write one event."""
        self.stream.write(line + "\n")
        self.stream.flush()

    def flush(self) -> None:
        """Flush the underlying stream."""
        self.stream.flush()

    def finish(self) -> None:
        """Write text that does not end with a line break."""
        self._write_unfinished()

    def _write_unfinished(self) -> None:
        text, self._unfinished = self._unfinished.strip(), ""
        for are_events, lines in itertools.groupby(text.splitlines(keepends=True), is_event):
            if are_events:
                for line in lines:
                    self.write_event(line.rstrip())
            elif plain := "".join(lines).strip():
                self.write_event(format_event("output", plain))


@contextlib.contextmanager
def log_in_format(log_format: str) -> Iterator[None]:
    """Print standard error in a format inside the block; child processes inherit it by the environment variable.

    A block inside a JSON block stays JSON.
    """
    if log_format == "text" or is_json():
        yield
        return
    before, variable = sys.stderr, os.environ.get(VARIABLE)
    sys.stderr, os.environ[VARIABLE] = JsonLines(before), log_format
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # closed by its reader
            sys.stderr.finish()
        sys.stderr = before
        if variable is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = variable


def _to_plain(value: object) -> object:
    """Convert a value to one that JSON has: paths to text, NaN and infinity to null."""
    if isinstance(value, Mapping):
        return {str(name): _to_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(one) for one in value]
    if isinstance(value, float):
        return value if value - value == 0 else None
    return value if value is None or isinstance(value, str | int) else str(value)


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
        elif is_event(str(text)):  # from a worker process
            sys.stderr.write_event(str(text))
        elif line := str(text).strip():  # without indentation, and not at all if it is empty
            sys.stderr.write_event(format_event(event, printable(line, max_length=max_length), level, **values))


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
