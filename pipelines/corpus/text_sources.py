"""Text from wherever it lies: files, folders, patterns, gzip, JSON lines, standard input; read strictly, as a stream.

What is read are *lines*, stripped, with a blank one behind each document: text files bring their blank
lines along, and a record of a JSON-lines file is a document.
"""

import dataclasses
import glob
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.byte_lines import open_bytes, short_lines, whole_lines
from bert_keras.pipelines.corpus.json_lines import record_text
from bert_keras.pipelines.corpus.text_lines import check_text_file, decode_line

STANDARD_INPUT = "-"
PROSE = "the prose that ships with this Python"  # the name of the text of commands that are given none
TEXT_SUFFIXES = (".txt", ".text", ".md", ".jsonl")  # what is text in a folder; each may be followed by .gz

Names = str | os.PathLike | Sequence[str | os.PathLike]


@dataclasses.dataclass(frozen=True)
class TextSource:
    """One file of text, or standard input.

    Attributes:
        path: the file; None is standard input.
        num_bytes: its size on disk; None if nobody knows (a pipe).
        named: the user named this very file, so it must hold text; files found in a folder may be blank.
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


def find_sources(names: Names) -> list[TextSource]:
    """Returns the files that the names stand for, each once.

    A name is a file, whatever its suffix; a folder, searched with its subfolders for `TEXT_SUFFIXES`; a
    pattern such as `books/**/*.txt`, whose matches are files and folders; or `-`, standard input. The
    order is that of the names, and by path within a folder or a pattern. Hidden files (".git") and links to
    folders are passed over in a search. A file that is reached twice, also by a link, is read once.

    Raises:
        InputError: a name stands for nothing; all such names are told at once.
    """
    sources: dict[str, TextSource] = {}
    problems = []
    for name in [names] if isinstance(names, str | os.PathLike) else names:
        try:
            for source in _sources_of(os.fspath(name)):
                sources.setdefault(STANDARD_INPUT if source.path is None else os.path.realpath(source.path), source)
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise InputError("; ".join(problems))
    return list(sources.values())


def total_bytes(sources: Iterable[TextSource]) -> int | None:
    """Returns the bytes of all sources on disk; None if nobody knows."""
    sizes = [source.num_bytes for source in sources]
    return None if None in sizes else sum(sizes)


def read_lines(
    sources: Sequence[TextSource], *, field: str = "text", progress: Callable[[int, int | None], None] | None = None
) -> Iterator[str]:
    r"""Yields the lines of all sources, stripped; a blank line ends a document, and there is one behind each source.

    Only "\n" ends a line, and a byte order mark at the start is dropped. Gzip is known by its content.
    A line above 1 MiB is cut where it has white space, so memory does not depend on the sizes of files;
    of JSON lines, one record is held in memory.

    Args:
        sources: what `find_sources` returned.
        field: which field of a JSON record holds the text, a string. Its lines are sentences.
        progress: told the bytes read so far and of all sources (None: nobody knows), each 256 kB.

    Raises:
        InputError: a source is not UTF-8, holds NUL bytes, is gzip cut short or damaged, has a line that is no
            JSON record with that field, or was named and holds no text; file and line are told.
    """
    num_bytes, whole = 0, total_bytes(sources)

    def count_bytes(more: int) -> None:
        nonlocal num_bytes
        num_bytes += more
        if progress is not None:
            progress(num_bytes, whole)

    for source in sources:
        has_text = False
        for line in _source_lines(source, field, count_bytes):
            has_text = has_text or bool(line)
            yield line
        if source.named and not has_text:
            raise InputError(f"{source} holds no text; expected one sentence a line: name another file")
        yield ""


def documents_of(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yields the documents: runs of lines without a blank one between them."""
    for has_text, group in itertools.groupby(lines, key=bool):
        if has_text:
            yield list(group)


def _source_lines(source: TextSource, field: str, on_read: Callable[[int], None]) -> Iterator[str]:
    with open_bytes(source.path, str(source), on_read) as file:
        if not source.is_json_lines:
            for number, line in short_lines(file):
                yield decode_line(line, source, number).strip()
            return
        for number, line in whole_lines(file, source):
            if record := decode_line(line, source, number).strip():
                text = record_text(record, field, f"{source}, line {number}")
                yield from filter(None, map(str.strip, text.split("\n")))
                yield ""


def _sources_of(name: str) -> list[TextSource]:
    if name == STANDARD_INPUT:
        return [TextSource(None, None, named=True)]
    path = pathlib.Path(name)
    if path.is_dir():
        if found := _search(path):
            return found
        raise InputError(
            f"{path} holds no text file; expected names ending in {' '.join(TEXT_SUFFIXES)}, or these with .gz: "
            "name another folder, or a pattern such as 'FOLDER/**/*'"
        )
    if path.exists():
        return [_source(path, named=True)]
    if not glob.has_magic(name):
        raise InputError(f"{path} does not exist; expected a UTF-8 text file or a folder there: check the name")
    matches = map(pathlib.Path, sorted(glob.glob(name, recursive=True)))
    found = [source for match in matches for source in (_search(match) if match.is_dir() else [_source(match)])]
    if not found:
        raise InputError(f"the pattern '{name}' matches no file; expected one or more: check it, and keep its quotes")
    return found


def _search(folder: pathlib.Path) -> list[TextSource]:
    """Returns the text files of a folder and its subfolders, by path; folder by folder, files first."""
    found = []
    for here, folders, files in os.walk(folder, onerror=_refuse_unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and name.lower().removesuffix(".gz").endswith(TEXT_SUFFIXES):
                found.append(_source(pathlib.Path(here, name)))
    return found


def _refuse_unreadable(error: OSError) -> None:
    raise InputError(f"{error.filename}: {error.strerror}; expected a folder that may be read") from None


def _source(path: pathlib.Path, *, named: bool = False) -> TextSource:
    path = check_text_file(path)  # a link in a folder may lead nowhere
    return TextSource(path, path.stat().st_size if path.is_file() else None, named=named)
