"""Lines of a UTF-8 text file, read strictly: what cannot be text is named by file and line."""

import codecs
import os
import pathlib
import re
from collections.abc import Iterator
from typing import BinaryIO

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.byte_lines import MAX_LINE_BYTES, whole_lines

NOT_TEXT = re.compile("[\0\ud800-\udfff]")  # JSON and Python can spell them, a text file in UTF-8 cannot hold them


def utf8_lines(path: str | os.PathLike) -> Iterator[str]:
    r"""Yields the lines of a text file, each with its line end as it stands in the file.

    Only "\n" ends a line: other characters that Unicode calls line ends (U+0085, U+2028)
    are text, and occur as entries of real vocabularies. A byte order mark at the start is dropped.

    Raises:
        InputError: the file is missing, is a folder, is not UTF-8, holds NUL bytes or more than 64 MiB, which is
            12 times the largest published vocabulary.
    """
    path = check_text_file(path)
    num_bytes = 0
    with open(path, "rb") as file:
        for number, line in whole_lines(file, path):
            num_bytes += len(line)
            if num_bytes > MAX_LINE_BYTES:
                raise InputError(
                    f"{path} holds more than {MAX_LINE_BYTES:,} bytes; expected a vocabulary, a token a line: name "
                    "another file"
                )
            yield decode_line(line, path, number)


def check_text_file(path: str | os.PathLike) -> pathlib.Path:
    """Returns `path` if it can be read as a file, pipes included; raises `InputError` otherwise."""
    path = pathlib.Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; expected a UTF-8 text file: name a file in it")
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a UTF-8 text file there: check the name")
    return path


def check_no_utf16(file: BinaryIO, name: object) -> None:
    """Raises `InputError` if a buffered stream begins as UTF-16 does, with its byte order mark."""
    if file.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise InputError(
            f"{name} is UTF-16; expected UTF-8: save it as UTF-8 (Excel: 'CSV UTF-8'), or convert it with  "
            "iconv -f utf-16 -t utf-8"
        )


def decode_line(line: bytes, name: object, number: int) -> str:
    """Returns the text of line `number` (from 1) of the file `name`; a byte order mark before line 1 is dropped.

    Raises:
        InputError: the line is not UTF-8 or holds NUL bytes.
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
