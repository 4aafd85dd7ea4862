"""Lines of files of tasks: read strictly, or each bad one with its error."""

import contextlib
import io
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, NamedTuple

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.byte_lines import MAX_LINE_BYTES, open_bytes, whole_content, whole_lines
from bert_keras.pipelines.corpus.text_lines import check_no_utf16, check_text_file, decode_line
from bert_keras.pipelines.corpus.text_sources import STANDARD_INPUT
from bert_keras.pipelines.readers.tables.table_rows import alternatives


class Line(NamedTuple):
    """A line of a file with its number from 1, its line end, and what is wrong with its bytes."""

    number: int
    text: str
    error: InputError | None


@contextlib.contextmanager
def open_lines(source: str | os.PathLike) -> Iterator[tuple[str, Iterator[Line]]]:
    """Opens a file of texts, one a line, or standard input ("-"): what messages call it, and its lines, good or bad.

    Raises:
        InputError: the file cannot be read.
    """
    path, name = named_source(source)
    with open_bytes(path and check_text_file(path), name, lambda num_bytes: None) as file:
        check_no_utf16(file, name)
        yield name, _decoded_lines(file, name)


def numbered_lines(source: str | os.PathLike) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line) of a UTF-8 text file, unpacked if it is gzip; "-" is standard input.

    Raises:
        InputError: the file is missing, is a folder, is not UTF-8, holds NUL bytes or is damaged gzip.
    """
    path, name = named_source(source)
    with open_bytes(path and check_text_file(path), name, lambda num_bytes: None) as file:
        check_no_utf16(file, name)
        for number, text, error in _decoded_lines(file, name):
            if error is not None:
                raise error
            yield number, text


def read_document(source: str | os.PathLike) -> str:
    """Return the text of a UTF-8 file that is read whole, such as one JSON value; "-" is standard input.

    Raises:
        InputError: the file cannot be read, holds more than 1 GiB, is not UTF-8, holds NUL bytes or is damaged gzip.
    """
    path, name = named_source(source)
    with open_bytes(path and check_text_file(path), name, lambda num_bytes: None) as file:
        check_no_utf16(file, name)
        content = whole_content(file, name)
    return "".join(decode_line(line, name, number) for number, line in enumerate(io.BytesIO(content), start=1))


def bounded(lines: Iterable[Line], name: str, what: str) -> Iterator[Line]:
    """Yield the lines of one example, which is held whole in memory.

    Args:
        lines: of the example.
        name: what messages call the file.
        what: the example, for messages.

    Raises:
        InputError: they have more characters than a line may have bytes.
    """
    first, num_characters = None, 0
    for line in lines:
        first, num_characters = first or line.number, num_characters + len(line.text)
        if num_characters > MAX_LINE_BYTES:
            raise InputError(
                f"{name}, line {first}: the {what} that begins here has more than {MAX_LINE_BYTES:,} characters, the "
                "most that is read: divide it"
            )
        yield line


def named_source(source: str | os.PathLike) -> tuple[pathlib.Path | None, str]:
    """Returns the path of a file, None for standard input ("-"), and what messages call it."""
    if os.fspath(source) == STANDARD_INPUT:
        return None, "standard input"
    return pathlib.Path(source), str(pathlib.Path(source))


def form_of(source: str | os.PathLike, form: str | None, endings: Mapping[str, str]) -> str:
    """Returns the form of a file: what was said, or else what its name's ending tells.

    Args:
        source: a file, whose name may end in `.gz`, or "-".
        form: what was said; None: nothing.
        endings: the forms that can be read, by the endings that tell them.

    Raises:
        InputError: it is none of those.
    """
    forms = list(dict.fromkeys(endings.values()))
    if form is not None:
        if form not in forms:
            raise InputError(f"the format is {quote(form)}; expected {alternatives(forms)}")
        return form
    path, name = named_source(source)
    if path is None:
        by_lines = [form for form in forms if form != "json"]  # which is read whole
        raise InputError(f"{name} has no ending; say what it holds with --format {alternatives(by_lines)}")
    ending = ending_of(path)
    if ending not in endings:
        has = f"ends in {quote(ending)}" if ending else "has no ending"
        raise InputError(
            f"{name} {has}; expected {alternatives(list(endings))}, or one of these with .gz: say what it holds with "
            f"--format {alternatives(forms)}"
        )
    return endings[ending]


def ending_of(path: pathlib.Path) -> str:
    """Returns the ending of a file's name in lower case, with its dot; `.gz` is none."""
    return pathlib.Path(path.name.lower().removesuffix(".gz")).suffix


def _decoded_lines(file: BinaryIO, name: str) -> Iterator[Line]:
    """Yields the lines of a file; in a bad one, what cannot be text is taken out or replaced."""
    for number, line in whole_lines(file, name):
        try:
            yield Line(number, decode_line(line, name, number), None)
        except InputError as error:
            # Python 3.10's csv refuses NUL bytes itself
            yield Line(number, line.replace(b"\0", b"").decode("utf-8", "replace"), error)
