"""Byte streams that text is read from: plain files, gzip, standard input; counted and bounded as they are read."""

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

MAX_LINE_BYTES = 64 * 2**20  # of a line that is held whole: an example; a thousand times the longest Wikipedia article
MAX_DOCUMENT_BYTES = 2**30  # of a file that is one JSON value; SQuAD 2.0 has 42 MB

_BUFFER_BYTES = 1 << 18
_MAX_PART_BYTES = 1 << 20  # text8, 100 MB in one line, is read in parts of this size
_GZIP_MAGIC = b"\x1f\x8b"


@contextlib.contextmanager
def open_bytes(path: pathlib.Path | None, name: str, on_read: Callable[[int], None]) -> Iterator[BinaryIO]:
    """Yields a stream of the file's bytes, or of standard input's if `path` is None, unpacked if they are gzip.

    Args:
        path: the file.
        name: what errors call it.
        on_read: told how many bytes were read (of the packed file), each 256 kB.

    Raises:
        InputError: gzip data is cut short or damaged, the name ends in .gz and the content is something else, or
            standard input is closed.
    """
    if path is None and sys.stdin is None:
        raise InputError("standard input is closed; expected text there: pipe it in, or name a file")
    with contextlib.nullcontext(sys.stdin.buffer) if path is None else open(path, "rb", buffering=0) as file:
        packed = io.BufferedReader(_CountedBytes(file, on_read), _BUFFER_BYTES)
        if packed.peek(2)[:2] != _GZIP_MAGIC:
            if name.lower().endswith(".gz"):
                raise InputError(f"{name} is not gzip, though its name ends in .gz: rename it, or copy it again")
            yield packed
        else:
            try:
                yield io.BufferedReader(gzip.GzipFile(fileobj=packed), _BUFFER_BYTES)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise InputError(
                    f"{name}: the gzip data is cut short or damaged ({error}): copy the file again from its source"
                ) from None


def whole_lines(file: BinaryIO, name: object) -> Iterator[tuple[int, bytes]]:
    """Yield `(line number from 1, line)`, each line whole.

    A small gzip file can unpack to a line that fills the memory, so a line ends at `MAX_LINE_BYTES`.

    Args:
        file: an open stream.
        name: what errors call it.

    Raises:
        InputError: a line is longer.
    """
    for number in itertools.count(1):
        line = file.readline(MAX_LINE_BYTES + 1)
        if len(line) > MAX_LINE_BYTES:
            raise InputError(
                f"{name}, line {number}: the line has more than {MAX_LINE_BYTES:,} bytes, the most that is read: "
                "check that this is a text file with an example a line, or divide the line"
            )
        if not line:
            return
        yield number, line


def whole_content(file: BinaryIO, name: object) -> bytes:
    """Return what a file holds, for formats that are one JSON value; `name` is what errors call it.

    Raises:
        InputError: it is more than `MAX_DOCUMENT_BYTES`.
    """
    blocks, num_bytes = [], 0
    while block := file.read(_MAX_PART_BYTES):
        blocks.append(block)
        num_bytes += len(block)
        if num_bytes > MAX_DOCUMENT_BYTES:
            raise InputError(
                f"{name} holds more than {MAX_DOCUMENT_BYTES:,} bytes, the most that is read of one JSON value: divide "
                "it, or write a .jsonl file with an example a line"
            )
    return b"".join(blocks)


def short_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yields `(line number from 1, line)`; a line above 1 MiB comes in parts, cut behind white space if it has any."""
    number, rest = 1, b""
    while chunk := file.readline(_MAX_PART_BYTES):
        line, rest = rest + chunk, b""
        if len(chunk) == _MAX_PART_BYTES and not chunk.endswith(b"\n"):
            place = _place_to_cut(line)
            line, rest = line[:place], line[place:]
        yield number, line
        number += line.endswith(b"\n")
    if rest:
        yield number, rest


def _place_to_cut(line: bytes) -> int:
    """Returns a length that cuts the line behind its last space or tab, else where a UTF-8 character begins."""
    if place := max(line.rfind(b" "), line.rfind(b"\t")) + 1:
        return place
    for place in range(len(line) - 1, len(line) - 4, -1):
        if line[place] & 0xC0 != 0x80:
            return place
    return len(line)


class _CountedBytes(io.RawIOBase):
    """A stream that tells how many bytes were read from it."""

    def __init__(self, file: BinaryIO, on_read: Callable[[int], None]):
        self._file, self._on_read = file, on_read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int | None:
        read = getattr(self._file, "readinto1", self._file.readinto)  # a pipe's bytes as they come
        if num_bytes := read(buffer):
            self._on_read(num_bytes)
        return num_bytes
