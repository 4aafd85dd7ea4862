"""Tables in files, on standard input and in memory: `.csv`, `.tsv`, `.jsonl` and `.json`, read example by example."""

import contextlib
import os
from collections.abc import Iterator, Sequence

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import STANDARD_INPUT, open_lines
from bert_keras.pipelines.readers.file_formats import detect_format
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.delimited_examples import DelimitedReader
from bert_keras.pipelines.readers.tables.json_examples import JsonLinesReader, ListedReader, read_json_array
from bert_keras.pipelines.readers.tables.listed_examples import ListedExamples, Source
from bert_keras.pipelines.readers.tables.raw_examples import TableReader

FORMATS = ("csv", "tsv", "jsonl", "json")  # each is also the ending of its files


@contextlib.contextmanager
def open_table(
    source: Source,
    *,
    columns: Sequence[str] | None = None,
    format: str | None = None,
    delimiter: str | None = None,
    spell: Spell = spell_flag,
) -> Iterator[TableReader]:
    """Open a table to read it example by example, so it may be a pipe or larger than memory.

    The reader has `columns`, the column names, and `read()`, which yields a `RawExample` for each example. An example
    with the wrong number of fields, or that is not UTF-8 or not JSON, has its `error` set, and reading resumes with the
    next one. The caller either raises the error, or skips the example and counts it:

        with open_table("texts.jsonl") as table:
            for example in table.read(["text"]):
                if example.error is not None:
                    raise example.error
                print(example.line, example.fields[0])

    A quote mark in the wrong place of a `.csv` makes the rest of its line invalid.

    Args:
        source: a file, plain or gzip; "-" for standard input; or examples in memory.
        columns: the column names of a file without a header line; for JSON lines, the fields to read, while all others
            are ignored. None: the first line has them.
        format: one of `FORMATS`; None: the ending of the file's name decides.
        delimiter: the delimiter of a `.csv`: a comma, a semicolon, a tab or a vertical bar; None: detected from the
            first lines.
        spell: spells options in messages.

    Raises:
        InputError: the file cannot be read, its format is unknown or its header is invalid; while reading, the gzip
            data are damaged or a quote mark is never closed.
    """
    if isinstance(source, ListedExamples):
        yield ListedReader(source, columns=columns)
        return
    format = detect_format(source, format, {f".{name}": name for name in FORMATS}, spell=spell)
    if delimiter is not None and format != "csv":
        raise InputError(
            f"{source} is read as {format}, and a delimiter is for csv: leave it out, or set {spell('format', 'csv')}"
        )
    if format == "json":
        if os.fspath(source) == STANDARD_INPUT:
            raise InputError("standard input is read line by line; expected csv, tsv or jsonl: write it to a file")
        yield ListedReader(read_json_array(source, as_strings=True, spell=spell), columns=columns)
        return
    with open_lines(source) as (name, lines):
        if format == "jsonl":
            yield JsonLinesReader(lines, name, columns=columns)
        else:
            yield DelimitedReader(lines, name, format=format, columns=columns, delimiter=delimiter)
