"""Files, standard input and texts to the examples of a task that are answered one by one."""

import dataclasses
import os
from collections.abc import Iterator
from typing import NamedTuple

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import STANDARD_INPUT, open_lines
from bert_keras.pipelines.readers.json_values import check_text
from bert_keras.pipelines.readers.labelled_texts import read_text_examples, unusual_delimiter
from bert_keras.pipelines.readers.questions import stream_questions
from bert_keras.pipelines.readers.tables.column_names import Columns, guess_columns
from bert_keras.pipelines.readers.tables.table_rows import Row
from bert_keras.pipelines.readers.tables.tables import TableReader
from bert_keras.pipelines.readers.words.json_words import check_words, word_and_span_fields
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from bert_keras.pipelines.readers.words.tagged_words import stream_tagged_words
from bert_keras.tasks.answer_extraction import QuestionAnswering
from bert_keras.tasks.base import Task
from bert_keras.tasks.examples.file_options import FileOptions, guess_format, open_options_table
from bert_keras.tasks.token_classification import TokenClassification


class Example(NamedTuple):
    """What was read of one place of a file: an example of the task, or what is wrong with it."""

    line: int | None
    example: object | None
    error: InputError | None


def read_prediction_data(task: Task, source: str | os.PathLike, options: FileOptions) -> Iterator[Example]:
    """Yields the examples of a file, or of standard input ("-"), one by one, bad ones with their errors.

    Raises:
        InputError: the file cannot be read at all.
    """
    form = options.format or guess_format(source)
    if form in _forms_of_their_own(task):
        yield from _of_own_format(task, source, options)
    elif form == "txt":
        yield from _of_lines(task, source)
    else:
        yield from _of_table(task, source, options)


def find_prediction_columns(task: Task, source: str | os.PathLike, options: FileOptions) -> Columns | None:
    """Returns the columns that are read of a file to be answered; None: it is no table, or can be read only once."""
    if (options.format or guess_format(source)) in (*_forms_of_their_own(task), "txt") or not os.path.isfile(source):
        return None
    with open_options_table(source, options) as table:
        if isinstance(task, TokenClassification) and (name := _column_of_words(table, options)):
            return Columns(name, None, None)
        return _columns_to_answer(task, table, options)


def _forms_of_their_own(task: Task) -> tuple[str, ...]:
    """Return the forms that are no tables; JSON is one where it is an array of texts."""
    is_array = not isinstance(task, QuestionAnswering | TokenClassification)
    return ("conll", "conllu") if is_array else ("json", "conll", "conllu")


def _of_own_format(task: Task, source, options: FileOptions) -> Iterator[Example]:
    if isinstance(task, QuestionAnswering):
        if os.fspath(source) == STANDARD_INPUT:
            raise InputError("standard input is read line by line; expected jsonl, csv or tsv: write it to a file")
        for question, error in stream_questions(source, format=options.format, needs_answers=False):
            yield Example(None, question, error)
    elif isinstance(task, TokenClassification):
        yield from map(Example._make, stream_tagged_words(source, **options.words(), needs_tags=False))
    else:
        raise InputError(
            f"{source} is of a form that holds no texts; expected .txt, .csv, .tsv, .jsonl or .json: see --format"
        )


def _of_lines(task: Task, source) -> Iterator[Example]:
    if isinstance(task, QuestionAnswering):
        raise InputError(
            f"{source}: lines of text hold no contexts; expected .json, .jsonl, .csv or .tsv: see --format"
        )
    with open_lines(source) as (name, lines):
        for number, text, error in lines:
            if error is None and not text.strip():
                error = InputError(f"{name}, line {number}: the line is empty; expected a text: take the line out")
            yield Example(number, None if error else task.make_example(text.rstrip("\r\n"), line=number), error)


def _of_table(task: Task, source, options: FileOptions) -> Iterator[Example]:
    with open_options_table(source, options) as table:
        if isinstance(task, TokenClassification) and (name := _column_of_words(table, options)):
            yield from (_of_words(task, row, name, table.describe_place(row.line)) for row in table.rows([name]))
            return
        columns = _columns_to_answer(task, table, options)
        for row in read_text_examples(table, columns):
            yield Example(row.line, None if row.error else _of_row(task, row), row.error)


def _columns_to_answer(task: Task, table: TableReader, options: FileOptions) -> Columns:
    """Returns the columns of texts or pairs, and that of the ids of questions in the place of the labels."""
    is_asked = isinstance(task, QuestionAnswering)
    usual = ("question", "context") if is_asked else (None, None)
    columns = guess_columns(
        table.columns,
        text=options.text_column or usual[0],
        second_text=options.second_text_column or usual[1],
        label="id" if is_asked and "id" in table.columns else None,
        needs_label=False,
        place=table.place,
    )
    if isinstance(task, TokenClassification) and columns.second_text is not None:
        raise InputError(
            f"{table.place}: the columns {columns.text!r} and {columns.second_text!r} hold pairs of texts, and "
            "words of single texts are tagged: name the column that is meant with --text-column"
        )
    return dataclasses.replace(columns, delimiter=unusual_delimiter(table))


def _of_row(task: Task, row: Row):
    """Returns the example of a row of a text, perhaps a second one, and perhaps the id of a question."""
    example = task.make_example(*row.fields[:2], line=row.line)
    ids = row.fields[2:]
    return dataclasses.replace(example, id=str(ids[0])) if ids else example


def _column_of_words(table: TableReader, options: FileOptions) -> str | None:
    """Returns the column that holds lists of words, if any does, by the rule of the files to learn from."""
    if options.word_column or options.text_column:
        return options.word_column
    return word_and_span_fields(table.columns, None, options.tag_column)[0]


def _of_words(task: TokenClassification, row: Row, name: str, place: str) -> Example:
    """Returns the example of a row with a list of words, or with a text where one was expected."""
    if row.error:
        return Example(row.line, None, row.error)
    [words] = row.fields
    try:
        if isinstance(words, str):
            return Example(row.line, task.make_example(check_text(words, repr(name), place), line=row.line), None)
        return Example(row.line, TaggedSentence.from_words(check_words(words, name, place), None, row.line), None)
    except InputError as error:
        return Example(row.line, None, error)
