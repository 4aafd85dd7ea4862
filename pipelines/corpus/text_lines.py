"""Lines of UTF-8 text files, read strictly: an error names the file and the line."""

import codecs
import contextlib
import io
import os
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.byte_lines import (
    MAX_LINE_BYTES,
    check_text_file,
    open_bytes,
    read_whole_content,
    read_whole_lines,
)

STANDARD_INPUT = "-"
NOT_TEXT = re.compile("[\0\ud800-\udfff]")  # valid in JSON and in Python strings, invalid in UTF-8 text files


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


def _decode_lines(file: BinaryIO, name: str) -> Iterator[Line]:
    for number, line in read_whole_lines(file, name):
        try:
            yield Line(number, decode_line(line, name, number), None)
        except InputError as error:
            # without NUL bytes, because the csv module of Python 3.10 rejects them with an error of its own
            yield Line(number, line.replace(b"\0", b"").decode("utf-8", "replace"), error)
