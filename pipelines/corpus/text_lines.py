"""Lines of UTF-8 text files, plain, gzip or standard input, read strictly and with bounded memory.

An error names the file and the line. Lines of JSON are parsed here too.
"""

import codecs
import contextlib
import gzip
import io
import itertools
import json
import os
import pathlib
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

from bert_keras.checks import format_names, quote
from bert_keras.errors import InputError

STANDARD_INPUT = "-"
NOT_TEXT = re.compile("[\0\ud800-\udfff]")  # valid in JSON and in Python strings, invalid in UTF-8 text files
MAX_LINE_BYTES = 64 * 2**20  # of a line held in memory: a thousand times the longest Wikipedia article
MAX_DOCUMENT_BYTES = 2**30  # of a file that is one JSON value; SQuAD 2.0 has 42 MB
_BUFFER_BYTES = 1 << 18
_MAX_PART_BYTES = 1 << 20  # text8, 100 MB in one line, is read in parts of this size
_GZIP_MAGIC = b"\x1f\x8b"


@contextlib.contextmanager
def open_bytes(
    path: pathlib.Path | None, name: str, on_read: Callable[[int], None] | None = None
) -> Iterator[BinaryIO]:
    """Open a text file for reading in bytes. Gzip is detected by its content and decompressed.

    Args:
        path: the file; None for standard input.
        name: the name of the file in error messages.
        on_read: called with the number of bytes just read from disk, for every 256 kB.

    Raises:
        InputError: the file is missing, is a folder, is UTF-16 or damaged gzip, has a name that ends in .gz and other
            content, or standard input is closed.
    """
    if path is None and sys.stdin is None:
        raise InputError("standard input is closed; expected text there: pipe it in, or name a file")
    if path is not None:
        check_text_file(path)
    with contextlib.nullcontext(sys.stdin.buffer) if path is None else open(path, "rb", buffering=0) as file:
        compressed = io.BufferedReader(_CountedBytes(file, on_read or (lambda num_bytes: None)), _BUFFER_BYTES)
        if compressed.peek(2)[:2] != _GZIP_MAGIC:
            if name.lower().endswith(".gz"):
                raise InputError(f"{name} is not gzip, though its name ends in .gz: rename it, or copy it again")
            _check_not_utf16(compressed, name)
            yield compressed
            return
        try:
            content = io.BufferedReader(gzip.GzipFile(fileobj=compressed), _BUFFER_BYTES)
            _check_not_utf16(content, name)
            yield content
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(
                f"{name}: the gzip data is truncated or damaged ({error}): copy the file again from its source"
            ) from None


def check_text_file(path: pathlib.Path) -> None:
    """Raise `InputError` unless `path` is a file or a pipe."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; expected a UTF-8 text file: name a file in it")
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a UTF-8 text file there: check the name")


def read_whole_lines(file: BinaryIO, name: object) -> Iterator[tuple[int, bytes]]:
    """Yield `(line number from 1, line)`, each line whole.

    Lines are limited to `MAX_LINE_BYTES`, because a small gzip file can decompress to a line that fills the memory.

    Args:
        file: an open stream.
        name: the name of the file in error messages.

    Raises:
        InputError: a line is longer.
    """
    for number in itertools.count(1):
        line = file.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            raise InputError(
                f"{name}, line {number}: the line has more than {MAX_LINE_BYTES:,} bytes, which is the limit: "
                "check that this is a text file with one example per line, or split the line"
            )
        if not line:
            return
        yield number, line


def read_whole_content(file: BinaryIO, name: object) -> bytes:
    """Return the content of a file that is one JSON value; `name` is its name in error messages.

    Raises:
        InputError: the content is larger than `MAX_DOCUMENT_BYTES`.
    """
    blocks, num_bytes = [], 0
    while block := file.read(_MAX_PART_BYTES):
        blocks.append(block)
        num_bytes += len(block)
        if num_bytes > MAX_DOCUMENT_BYTES:
            raise InputError(
                f"{name} has more than {MAX_DOCUMENT_BYTES:,} bytes, the limit for one JSON value: split it, or write "
                "a .jsonl file with one example per line"
            )
    return b"".join(blocks)


def read_short_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield `(line number from 1, line)`; lines above 1 MiB come in parts, split after white space if they have any."""
    number, rest = 1, b""
    while chunk := file.readline(_MAX_PART_BYTES):
        line, rest = rest + chunk, b""
        if len(chunk) == _MAX_PART_BYTES and not chunk.endswith(b"\n"):
            place = _find_split(line)
            line, rest = line[:place], line[place:]
        yield number, line
        number += line.endswith(b"\n")
    if rest:
        yield number, rest


def _find_split(line: bytes) -> int:
    """Return where to split a line: after its last space or tab, else before a UTF-8 character."""
    if place := max(line.rfind(b" "), line.rfind(b"\t")) + 1:
        return place
    for place in range(len(line) - 1, len(line) - 4, -1):
        if line[place] & 0xC0 != 0x80:
            return place
    return len(line)


def _check_not_utf16(file: io.BufferedReader, name: object) -> None:
    if file.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise InputError(
            f"{name} is UTF-16; expected UTF-8: save it as UTF-8 (Excel: 'CSV UTF-8'), or convert it with  "
            "iconv -f utf-16 -t utf-8"
        )


class _CountedBytes(io.RawIOBase):
    """A stream that reports the number of bytes read from it."""

    def __init__(self, file: BinaryIO, on_read: Callable[[int], None]):
        self._file, self._on_read = file, on_read

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def readinto(self, buffer: bytearray) -> int | None:
        """Fill the buffer and return the number of bytes read."""
        read = getattr(self._file, "readinto1", self._file.readinto)  # returns a pipe's bytes as they arrive
        if num_bytes := read(buffer):
            self._on_read(num_bytes)
        return num_bytes


class Line(NamedTuple):
    """A line of a file.

    Attributes:
        number: its number, from 1.
        text: the line with its line end; in a line with an error, without the invalid bytes.
        error: the error of a line that is not UTF-8 or has NUL bytes; None for a valid line.
    """

    number: int
    text: str
    error: InputError | None


@contextlib.contextmanager
def open_lines(source: str | os.PathLike) -> Iterator[tuple[str, Iterator[Line]]]:
    """Open a text file, or standard input ("-"); yield its name in error messages, and its lines, valid or not.

    Raises:
        InputError: the file cannot be read.
    """
    path, name = name_source(source)
    with open_bytes(path, name) as file:
        yield name, _decode_lines(file, name)


def read_numbered_lines(source: str | os.PathLike) -> Iterator[tuple[int, str]]:
    """Yield `(line number from 1, line)` of a UTF-8 text file, plain or gzip; "-" is standard input.

    Raises:
        InputError: the file is missing, is a folder, is not UTF-8, has NUL bytes or is damaged gzip.
    """
    with open_lines(source) as (_, lines):
        for number, text, error in lines:
            if error is not None:
                raise error
            yield number, text


def read_document(source: str | os.PathLike) -> str:
    """Return the text of a UTF-8 file of one JSON value; "-" is standard input.

    Raises:
        InputError: the file cannot be read, is larger than 1 GiB, is not UTF-8, has NUL bytes or is damaged gzip.
    """
    path, name = name_source(source)
    with open_bytes(path, name) as file:
        content = read_whole_content(file, name)
    return "".join(decode_line(line, name, number) for number, line in enumerate(io.BytesIO(content), start=1))


def read_vocabulary_lines(path: str | os.PathLike) -> Iterator[str]:
    r"""Yield the lines of a vocabulary file, with their line ends.

    Only "\n" ends a line: other line ends of Unicode (U+0085, U+2028) are entries of real vocabularies. A byte order
    mark at the start is dropped.

    Raises:
        InputError: the file is missing, is a folder, is not UTF-8, has NUL bytes, or is larger than 64 MiB, 12 times
            the largest published vocabulary.
    """
    path = pathlib.Path(path)
    check_text_file(path)
    num_bytes = 0
    with open(path, "rb") as file:
        for number, line in read_whole_lines(file, path):
            num_bytes += len(line)
            if num_bytes > MAX_LINE_BYTES:
                raise InputError(
                    f"{path} has more than {MAX_LINE_BYTES:,} bytes; expected a vocabulary, one token per line: name "
                    "another file"
                )
            yield decode_line(line, path, number)


def decode_line(line: bytes, name: object, number: int) -> str:
    """Return the text of line `number` (from 1) of the file `name`, without the byte order mark of line 1.

    Raises:
        InputError: the line is not UTF-8 or has NUL bytes.
    """
    if b"\0" in line:
        raise InputError(
            f"{name}, line {number}: there is a NUL byte; expected text in UTF-8: "
            "this is a binary file or UTF-16, so name another file or save it as UTF-8"
        )
    try:
        return (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}, line {number}: byte 0x{error.object[error.start]:02x} at column {error.start + 1} is not UTF-8: "
            "save the text as UTF-8, for example with  iconv -f latin1 -t utf-8"
        ) from None


def _decode_lines(file: BinaryIO, name: str) -> Iterator[Line]:
    for number, line in read_whole_lines(file, name):
        try:
            yield Line(number, decode_line(line, name, number), None)
        except InputError as error:
            # without NUL bytes, because the csv module of Python 3.10 rejects them with an error of its own
            yield Line(number, line.replace(b"\0", b"").decode("utf-8", "replace"), error)


def limit_characters(lines: Iterable[Line], name: str, what: str) -> Iterator[Line]:
    """Yield the lines of one example, which is held in memory as a whole.

    Args:
        lines: the lines.
        name: the file's name in messages.
        what: the kind of the example, for messages.

    Raises:
        InputError: the lines have more characters than one line may have bytes.
    """
    first, num_characters = None, 0
    for line in lines:
        first, num_characters = first or line.number, num_characters + len(line.text)
        if num_characters > MAX_LINE_BYTES:
            raise InputError(
                f"{name}, line {first}: the {what} that begins here has more than {MAX_LINE_BYTES:,} characters, the "
                "maximum: split it"
            )
        yield line


def name_source(source: str | os.PathLike) -> tuple[pathlib.Path | None, str]:
    """Return the path of a file, None for standard input ("-"), and its name in error messages."""
    if os.fspath(source) == STANDARD_INPUT:
        return None, "standard input"
    return pathlib.Path(source), str(pathlib.Path(source))


def parse_json(line: str, place: object, **parsing: Any) -> object:
    """Parse a line of JSON; a value other than an object is returned too, for the caller to report.

    Args:
        line: the line.
        place: the file and the line number, which start the error message.
        **parsing: arguments of `json.loads`.

    Raises:
        InputError: the line is not JSON.
    """
    try:
        return json.loads(line, **parsing)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not JSON ({error}); expected one JSON object per line: correct the line") from None


def parse_json_object(line: str, place: object) -> dict:
    """Parse a line that must be a JSON object.

    Raises:
        InputError: the line is not JSON, or another JSON value.
    """
    value = parse_json(line, place)
    if not isinstance(value, dict):
        raise InputError(f"{place}: the line is the JSON value {quote(value)}; expected an object: correct the line")
    return value


def read_record_text(line: str, field: str, place: str) -> str:
    """Return the text in a field of a JSON line; `place` (file and line number) starts the error messages.

    Raises:
        InputError: the line is not a JSON object, or its field is missing or not a valid text.
    """
    values = parse_json_object(line, place)
    if field not in values:
        raise InputError(
            f"{place}: there is no field {quote(field)}; the fields are {format_names(values, most=10) or 'none'}: "
            "name the field with the text"
        )
    text = values[field]
    if not isinstance(text, str):
        raise InputError(f"{place}: the field {quote(field)} is {quote(text)}; expected a string: name another field")
    check_characters(text, f"the field {quote(field)}", place)
    return text


def encode_sentence(sentence: str) -> bytes:
    """Return a sentence in UTF-8.

    Raises:
        InputError: the sentence has half a surrogate pair, which is possible in a Python string.
    """
    try:
        return sentence.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"the sentence {quote(sentence)} has half a surrogate pair; expected valid Unicode: repair the text"
        ) from None


def check_characters(text: str, what: str, place: object) -> None:
    """Raise `InputError` if a string has NUL or half a surrogate pair; messages name `place` and `what` it is."""
    if bad := NOT_TEXT.search(text):
        raise InputError(f"{place}: {what} has \\u{ord(bad[0]):04x}, which is not valid in text: remove it")
