"""Read files, standard input and texts as the examples of a task to answer, one by one."""

import dataclasses
import os
from collections.abc import Iterator
from typing import NamedTuple

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import STANDARD_INPUT, open_lines
from bert_keras.pipelines.readers.labelled_texts import get_unusual_delimiter, read_text_examples
from bert_keras.pipelines.readers.questions import stream_questions
from bert_keras.pipelines.readers.tables.column_names import Columns, guess_columns
from bert_keras.pipelines.readers.tables.json_examples import check_text
from bert_keras.pipelines.readers.tables.raw_examples import RawExample, TableReader
from bert_keras.pipelines.readers.words.json_words import check_words, choose_word_and_span_fields
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from bert_keras.pipelines.readers.words.tagged_words import stream_tagged_words
from bert_keras.tasks.answer_extraction import QuestionAnswering
from bert_keras.tasks.base import Task
from bert_keras.tasks.examples.file_options import FileOptions, guess_format
from bert_keras.tasks.token_classification import TokenClassification


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
    format = options.format or guess_format(source)
    if format in _list_special_formats(task):
        yield from _read_special_format(task, source, options)
    elif format == "txt":
        yield from _read_lines(task, source)
    else:
        yield from _read_table(task, source, options)


def find_prediction_columns(task: Task, source: str | os.PathLike, options: FileOptions) -> Columns | None:
    """Return the columns that `read_prediction_data` reads; None: the file is no table, or can be read only once."""
    format = options.format or guess_format(source)
    if format in (*_list_special_formats(task), "txt") or not os.path.isfile(source):
        return None
    with options.open_table(source) as table:
        if isinstance(task, TokenClassification) and (name := _find_word_column(table, options)):
            return Columns(name, None, None)
        return _choose_columns(task, table, options)


def _list_special_formats(task: Task) -> tuple[str, ...]:
    """Return the formats that are not read as tables; an array of texts in JSON is."""
    reads_array = not isinstance(task, QuestionAnswering | TokenClassification)
    return ("conll", "conllu") if reads_array else ("json", "conll", "conllu")


def _read_special_format(task: Task, source: str | os.PathLike, options: FileOptions) -> Iterator[Example]:
    if isinstance(task, QuestionAnswering):
        if os.fspath(source) == STANDARD_INPUT:
            raise InputError("standard input is read line by line; expected jsonl, csv or tsv: write it to a file")
        for question, error in stream_questions(source, format=options.format, needs_answers=False):
            yield Example(None, question, error)
    elif isinstance(task, TokenClassification):
        yield from map(Example._make, stream_tagged_words(source, **options.get_word_options(), needs_tags=False))
    else:
        raise InputError(
            f"{source} has a format for tagged words; expected .txt, .csv, .tsv, .jsonl or .json: see --format"
        )


def _read_lines(task: Task, source: str | os.PathLike) -> Iterator[Example]:
    if isinstance(task, QuestionAnswering):
        raise InputError(
            f"{source}: lines of text have no contexts; expected .json, .jsonl, .csv or .tsv: see --format"
        )
    with open_lines(source) as (name, lines):
        for number, text, error in lines:
            if error is None and not text.strip():
                error = InputError(f"{name}, line {number}: the line is empty; expected a text: remove the line")
            yield Example(number, None if error else task.make_example(text.rstrip("\r\n"), line=number), error)


def _read_table(task: Task, source: str | os.PathLike, options: FileOptions) -> Iterator[Example]:
    with options.open_table(source) as table:
        if isinstance(task, TokenClassification) and (name := _find_word_column(table, options)):
            for raw in table.read([name]):
                yield _convert_words(task, raw, name, table.describe_place(raw.line))
            return
        columns = _choose_columns(task, table, options)
        for raw in read_text_examples(table, columns):
            yield Example(raw.line, None if raw.error else _convert_texts(task, raw), raw.error)


def _choose_columns(task: Task, table: TableReader, options: FileOptions) -> Columns:
    """Return the columns of texts or pairs, with the column of question ids, if there is one, as the label."""
    is_question = isinstance(task, QuestionAnswering)
    usual = ("question", "context") if is_question else (None, None)
    columns = guess_columns(
        table.columns,
        text=options.text_column or usual[0],
        second_text=options.second_text_column or usual[1],
        label="id" if is_question and "id" in table.columns else None,
        needs_label=False,
        place=table.place,
    )
    if isinstance(task, TokenClassification) and columns.second_text is not None:
        raise InputError(
            f"{table.place}: the columns {columns.text!r} and {columns.second_text!r} have pairs of texts, but tagging "
            "needs single texts: name one column with --text-column"
        )
    return dataclasses.replace(columns, delimiter=get_unusual_delimiter(table))


def _convert_texts(task: Task, raw: RawExample) -> object:
    """Return the example of a text, optionally with a second text and the id of a question."""
    example = task.make_example(*raw.fields[:2], line=raw.line)
    ids = raw.fields[2:]
    return dataclasses.replace(example, id=str(ids[0])) if ids else example


def _find_word_column(table: TableReader, options: FileOptions) -> str | None:
    """Return the column with lists of words, if there is one, by the same rule as for training files."""
    if options.word_column or options.text_column:
        return options.word_column
    return choose_word_and_span_fields(table.columns, None, options.tag_column)[0]


def _convert_words(task: TokenClassification, raw: RawExample, name: str, place: str) -> Example:
    """Return the example of a list of words, or of a text in its place."""
    if raw.error:
        return Example(raw.line, None, raw.error)
    [words] = raw.fields
    try:
        if isinstance(words, str):
            example = task.make_example(check_text(words, repr(name), place), line=raw.line)
        else:
            example = TaggedSentence.from_words(check_words(words, name, place), None, raw.line)
    except InputError as error:
        return Example(raw.line, None, error)
    return Example(raw.line, example, None)
