"""Text from files, folders, patterns, gzip, JSON lines and standard input, read strictly and as a stream.

The text is a stream of stripped *lines* with a blank line after each document. Text files have their own blank lines;
each record of a JSON-lines file is a document.
"""

import dataclasses
import glob
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import (
    STANDARD_INPUT,
    check_text_file,
    decode_line,
    open_bytes,
    read_record_text,
    read_short_lines,
    read_whole_lines,
)

PROSE = "the prose that ships with this Python"  # the name of the default text of commands
TEXT_SUFFIXES = (".txt", ".text", ".md", ".jsonl")  # text files of a folder; .gz may follow
_PARAGRAPH_BYTES = 1 << 16  # a longer paragraph is split at a line end, so that memory is bounded

Names = str | os.PathLike | Sequence[str | os.PathLike]


@dataclasses.dataclass(frozen=True)
class TextSource:
    """One text file, or standard input.

    Attributes:
        path: the file; None for standard input.
        num_bytes: its size on disk; None if unknown (a pipe).
        named: whether the user named this file, so that it must not be blank; files found in a folder may be.
    """

    path: pathlib.Path | None
    num_bytes: int | None
    named: bool

    def __str__(self) -> str:
        return "standard input" if self.path is None else str(self.path)

    @property
    def is_json_lines(self) -> bool:
        """Whether each line is a JSON record: the name ends in .jsonl or .jsonl.gz."""
        return self.path is not None and self.path.name.lower().removesuffix(".gz").endswith(".jsonl")


def find_sources(names: Names | Sequence[TextSource]) -> list[TextSource]:
    """Find the files of a list of names.

    A name is a file, with any suffix; a folder, searched recursively for `TEXT_SUFFIXES`; a pattern such as
    `books/**/*.txt`, which matches files and folders; or `-`, standard input. The files are in the order of the names,
    and sorted by path within a folder or a pattern. The search skips hidden files (".git") and links to folders. A file
    that is found twice, also through a link, is listed once. The result of this function is also a valid argument.

    Raises:
        InputError: a name matches no file; the message lists all such names.
    """
    sources: dict[str, TextSource] = {}
    problems = []
    for name in [names] if isinstance(names, str | os.PathLike) else names:
        try:
            for source in [name] if isinstance(name, TextSource) else _find_by_name(os.fspath(name)):
                sources.setdefault(STANDARD_INPUT if source.path is None else os.path.realpath(source.path), source)
        except InputError as error:
            problems.append(str(error))
        except OSError as error:  # a name that is too long, for example
            problems.append(
                f"{quote(name)} cannot be read ({error.strerror}); expected a file or folder: check the name"
            )
    if problems:
        raise InputError("; ".join(problems))
    return list(sources.values())


def get_total_bytes(sources: Iterable[TextSource]) -> int | None:
    """Return the size of all sources on disk in bytes; None if the size of one is unknown."""
    sizes = [source.num_bytes for source in sources]
    return None if None in sizes else sum(sizes)


def read_lines(
    sources: Sequence[TextSource], *, field: str = "text", progress: Callable[[int, int | None], None] | None = None
) -> Iterator[str]:
    """Yield the lines of all sources, stripped, with a blank line after each document and each source.

    Args:
        sources: the result of `find_sources`.
        field: the field of a JSON record with the text, a string with one sentence per line.
        progress: called with the bytes read so far and the bytes of all sources (None if unknown), for every 256 kB.

    Raises:
        InputError: see `read_source`.
    """
    num_bytes, num_total = 0, get_total_bytes(sources)

    def count_bytes(more: int) -> None:
        nonlocal num_bytes
        num_bytes += more
        if progress is not None:
            progress(num_bytes, num_total)

    for source in sources:
        yield from read_source(source, field=field, on_read=count_bytes)


def read_source(
    source: TextSource,
    *,
    field: str = "text",
    join_paragraphs: bool = False,
    on_read: Callable[[int], None] | None = None,
    on_line: Callable[[bytes], None] | None = None,
) -> Iterator[str]:
    r"""Yield the stripped lines of one source, with a blank line after each document.

    Only "\n" ends a line, and a byte order mark at the start is dropped. A line above 1 MiB of a text file is split at
    white space, so that memory does not depend on the size of files; one record of JSON lines is held in memory.

    Args:
        source: a file, or standard input.
        field: the field of a JSON record with the text.
        join_paragraphs: whether the text is running text: the file, or the JSON record, is one document, blank lines
            end its paragraphs, and each paragraph is yielded as one line.
        on_read: called with the number of bytes just read from disk.
        on_line: called with the bytes of each line.

    Raises:
        InputError: the source is not UTF-8, has NUL bytes, is truncated or damaged gzip, has a line that is not a JSON
            record with that field, or was named and has no text; the message has the file and the line.
    """
    has_text = False
    blank_lines_end_documents = not (join_paragraphs or source.is_json_lines)
    for lines in _read_texts(source, field, on_read, on_line):
        for line in _join_paragraphs(lines) if join_paragraphs else lines:
            has_text = has_text or bool(line)
            if line or blank_lines_end_documents:
                yield line
        if source.is_json_lines:
            yield ""
    if source.named and not has_text:
        raise InputError(f"{source} has no text; expected one sentence per line: name another file")
    yield ""


def _read_texts(
    source: TextSource, field: str, on_read: Callable[[int], None] | None, on_line: Callable[[bytes], None] | None
) -> Iterator[Iterator[str]]:
    """Yield the stripped lines of the file, or those of each record of JSON lines."""

    def decode_and_strip(lines: Iterable[tuple[int, bytes]]) -> Iterator[str]:
        for number, line in lines:
            if on_line is not None:
                on_line(line)
            yield decode_line(line, source, number).strip()

    with open_bytes(source.path, str(source), on_read) as file:
        if not source.is_json_lines:
            yield decode_and_strip(read_short_lines(file))
            return
        for number, line in enumerate(decode_and_strip(read_whole_lines(file, source)), start=1):
            if line:
                yield map(str.strip, read_record_text(line, field, f"{source}, line {number}").split("\n"))


def _join_paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yield paragraphs of stripped lines, each as one line; empty ones where there are several blank lines."""
    paragraph, length = [], 0
    for line in lines:
        if line:
            paragraph.append(line)
            length += len(line) + 1
        if not line or length >= _PARAGRAPH_BYTES:
            yield " ".join(paragraph)
            paragraph, length = [], 0
    yield " ".join(paragraph)


def _find_by_name(name: str) -> list[TextSource]:
    if name == STANDARD_INPUT:
        return [TextSource(None, None, named=True)]
    path = pathlib.Path(name)
    if path.is_dir():
        if found := _search(path):
            return found
        raise InputError(
            f"{path} has no text files; expected names that end in {' '.join(TEXT_SUFFIXES)}, or these with .gz: "
            "name another folder, or a pattern such as 'FOLDER/**/*'"
        )
    if path.exists():
        return [_make_source(path, named=True)]
    if not glob.has_magic(name):
        raise InputError(f"{path} does not exist; expected a UTF-8 text file or a folder there: check the name")
    matches = map(pathlib.Path, sorted(glob.glob(name, recursive=True)))
    found = [source for match in matches for source in (_search(match) if match.is_dir() else [_make_source(match)])]
    if not found:
        raise InputError(f"the pattern '{name}' matches no file; expected one or more: check it, and keep its quotes")
    return found


def _search(folder: pathlib.Path) -> list[TextSource]:
    """Return the text files of a folder and its subfolders, sorted: the files of a folder before its subfolders."""
    found = []
    for here, folders, files in os.walk(folder, onerror=_raise_unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and name.lower().removesuffix(".gz").endswith(TEXT_SUFFIXES):
                found.append(_make_source(pathlib.Path(here, name)))
    return found


def _raise_unreadable(error: OSError) -> None:
    raise InputError(f"{error.filename}: {error.strerror}; expected a folder that you may read") from None


def _make_source(path: pathlib.Path, *, named: bool = False) -> TextSource:
    check_text_file(path)  # a link in a folder may be broken
    return TextSource(path, path.stat().st_size if path.is_file() else None, named=named)
