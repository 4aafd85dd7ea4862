"""Byte streams of text files: plain files, gzip and standard input, with bounded memory."""

import codecs
import contextlib
import gzip
import io
import itertools
import pathlib
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from bert_keras.errors import InputError

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
    with contextlib.nullcontext(sys.stdin.buffer) if path is None else _open_file(path) as file:
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


def _open_file(path: pathlib.Path) -> BinaryIO:
    check_text_file(path)
    return open(path, "rb", buffering=0)


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
