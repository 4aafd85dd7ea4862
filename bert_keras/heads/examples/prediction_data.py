"""Read files, standard input and texts as the examples of a task to answer, one by one."""

import dataclasses
import os
from collections.abc import Iterator
from typing import NamedTuple

from bert_keras.errors import InputError
from bert_keras.heads.examples.file_options import FileOptions, guess_format
from bert_keras.heads.known_heads import get_task_head
from bert_keras.heads.task import Task
from bert_keras.pipelines.corpus.text_lines import open_lines
from bert_keras.pipelines.readers.labelled_texts import get_unusual_delimiter, read_text_examples
from bert_keras.pipelines.readers.tables.column_names import Columns, guess_columns
from bert_keras.pipelines.readers.tables.raw_examples import RawExample, TableReader


class Example(NamedTuple):
    """An example of a file with its line, or the error of an invalid one.

    Attributes:
        line: its line, from 1; its index in a JSON array, from 0; None: unknown.
        example: the example of the task; None: it is invalid.
        error: the error; None: the example is valid.
    """

    line: int | None
    example: object | None
    error: InputError | None


def read_prediction_data(task: Task, source: str | os.PathLike, options: FileOptions) -> Iterator[Example]:
    """Yield the examples of a file, or of standard input ("-"), one by one, invalid ones with their errors.

    Args:
        task: the task.
        source: the file, or "-".
        options: how files are read.

    Raises:
        InputError: the file cannot be read.
    """
    reader = _make_reader(task, options)
    format = options.format or guess_format(source)
    if format in reader.special_formats:
        yield from reader.read_special(source)
    elif format == "txt":
        yield from reader.read_lines(source)
    else:
        with options.open_table(source) as table:
            yield from reader.read_table(table)


def find_prediction_columns(task: Task, source: str | os.PathLike, options: FileOptions) -> Columns | None:
    """Return the columns that `read_prediction_data` reads; None: the file is no table, or can be read only once."""
    reader = _make_reader(task, options)
    format = options.format or guess_format(source)
    if format in (*reader.special_formats, "txt") or not os.path.isfile(source):
        return None
    with options.open_table(source) as table:
        return reader.choose_columns(table)


def _make_reader(task: Task, options: FileOptions) -> "PredictionReader":
    return get_task_head(task.name).load("prediction_reader")(task, options)


class PredictionReader:
    """Reads texts or pairs of texts.

    Args:
        task: the task.
        options: how files are read.

    Attributes:
        special_formats: the formats that are not read as tables.
        text_columns: the usual names of the columns of texts and of second texts; None: see `guess_columns`.
    """

    special_formats: tuple[str, ...] = ("conll", "conllu")
    text_columns: tuple[str | None, str | None] = (None, None)

    def __init__(self, task: Task, options: FileOptions):
        self.task = task
        self.options = options

    def read_special(self, source: str | os.PathLike) -> Iterator[Example]:
        """Yield the examples of a file in one of the special formats."""
        raise InputError(
            f"{source} has a format for tagged words; expected .txt, .csv, .tsv, .jsonl or .json: see --format"
        )

    def read_lines(self, source: str | os.PathLike) -> Iterator[Example]:
        """Yield the lines of a file of texts."""
        with open_lines(source) as (name, lines):
            for number, text, error in lines:
                if error is None and not text.strip():
                    error = InputError(f"{name}, line {number}: the line is empty; expected a text: remove the line")
                example = None if error else self.task.make_example(text.rstrip("\r\n"), line=number)
                yield Example(number, example, error)

    def read_table(self, table: TableReader) -> Iterator[Example]:
        """Yield the texts or pairs of a table."""
        for raw in read_text_examples(table, self.choose_columns(table)):
            yield Example(raw.line, None if raw.error else self.convert(raw), raw.error)

    def choose_columns(self, table: TableReader) -> Columns:
        """Return the columns of texts or pairs."""
        columns = guess_columns(
            table.columns,
            text=self.options.text_column or self.text_columns[0],
            second_text=self.options.second_text_column or self.text_columns[1],
            label=None,
            needs_label=False,
            place=table.place,
        )
        return dataclasses.replace(columns, delimiter=get_unusual_delimiter(table))

    def convert(self, raw: RawExample) -> object:
        """Return the example of a row."""
        return self.task.make_example(*raw.fields, line=raw.line)
