"""Tables in files, on standard input and in memory: `.csv`, `.tsv`, `.jsonl` and `.json`; read whole or row by row."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import STANDARD_INPUT, open_lines
from bert_keras.pipelines.readers.bad_examples import collect_bad
from bert_keras.pipelines.readers.lines import detect_format
from bert_keras.pipelines.readers.tables.delimited_rows import DelimitedReader
from bert_keras.pipelines.readers.tables.json_rows import JsonLinesReader, ListedReader, read_json_array
from bert_keras.pipelines.readers.tables.listed_examples import ListedExamples, Source

FORMATS = ("csv", "tsv", "jsonl", "json")  # each is also the ending of its files

TableReader = DelimitedReader | JsonLinesReader | ListedReader


@dataclasses.dataclass(frozen=True)
class Table:
    """A table that was read whole.

    Attributes:
        path: its file.
        columns: the names of its columns.
        rows: a list of values a row: strings, and lists of strings where JSON has lists.
        lines: the number of each row's first line in the file, from 1.
    """

    path: pathlib.Path
    columns: list[str]
    rows: list[list[str | list[str]]]
    lines: list[int]


def read_table(path: str | os.PathLike, *, columns: Sequence[str] | None = None, format: str | None = None) -> Table:
    """Reads a table whole; bad rows are an error.

    Args:
        path: a file in UTF-8 whose name ends in `.csv`, `.tsv`, `.jsonl` or `.json`, or one of these with `.gz`.
        columns: as `open_table` has it.
        format: as `open_table` has it.

    Raises:
        InputError: the file cannot be read, has a bad row or none; file and line are named.
    """
    with open_table(path, columns=columns, format=format) as table:
        with collect_bad(None) as bad:
            rows = list(bad.keep_good(table.rows()))
        bad.check_any_left(len(rows), table.name)
        return Table(pathlib.Path(path), table.columns, [row.fields for row in rows], [row.line for row in rows])


@contextlib.contextmanager
def open_table(
    source: Source,
    *,
    columns: Sequence[str] | None = None,
    format: str | None = None,
    delimiter: str | None = None,
) -> Iterator[TableReader]:
    """Opens a table to be read row by row, so that it need not fit in memory and may be a pipe.

    The reader has `columns`, the names, and `rows()`, which yields a `Row` for each row, good or bad: one that
    is ragged, not UTF-8 or not JSON has its `error` set, and reading goes on behind it. The caller stops there,
    or skips the row and counts it:

        with open_table("texts.jsonl") as table:
            for row in table.rows(["text"]):
                if row.error is not None:
                    raise row.error
                print(row.line, row.fields[0])

    Quotes of a `.csv` that stand in the wrong place spoil their row up to the end of the line.

    Args:
        source: a file, or "-", standard input, or examples in memory. Gzip is known by its content.
        columns: the names of the columns of a file without a header line; of JSON lines, the fields to read,
            whatever else the objects hold. None: the first line has them.
        format: one of `FORMATS`; None: the name of the file ends in it.
        delimiter: the mark between the fields of a `.csv`: a comma, a semicolon, a tab or a vertical bar; None: it is
            recognized from the first lines.

    Raises:
        InputError: the file cannot be read, its format is unknown or its header is bad; while reading, gzip
            data are damaged or a quote mark is never closed.
    """
    if isinstance(source, ListedExamples):
        yield ListedReader(source, columns=columns)
        return
    form = detect_format(source, format, {f".{name}": name for name in FORMATS})
    if delimiter is not None and form != "csv":
        raise InputError(f"{source} is read as {form}, and a delimiter is for csv: leave it out, or say --format csv")
    if form == "json":
        if os.fspath(source) == STANDARD_INPUT:
            raise InputError("standard input is read line by line; expected csv, tsv or jsonl: write it to a file")
        yield ListedReader(read_json_array(source, spelled=True), columns=columns)
        return
    with open_lines(source) as (name, lines):
        if form == "jsonl":
            yield JsonLinesReader(lines, name, columns=columns)
        else:
            yield DelimitedReader(lines, name, format=form, columns=columns, delimiter=delimiter)
