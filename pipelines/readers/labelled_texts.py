"""Read examples of one or more texts with their labels: one class, several classes, or a number."""

import csv
import math
import os
import pathlib
from collections.abc import Iterable, Iterator

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.raw_examples import RawExample, TableReader
from bert_keras.publishing import publish_file

SEPARATOR = "|"  # of several labels; a comma can be part of a label, and would need quotes in a .csv


def get_unusual_delimiter(table: TableReader) -> str | None:
    """Return the delimiter of a table, or None if it is the usual one of its format."""
    is_usual = table.delimiter == "," or table.format == "tsv"
    return None if is_usual else table.delimiter


def read_text_examples(table: TableReader, columns: Columns) -> Iterator[RawExample]:
    """Yield the examples of a table with their texts and then their label, those of them in `columns`.

    An example whose text is empty or a list has its `error` set, like any other invalid example: see `open_table`.
    """
    text_columns = columns.texts
    for example in table.read(columns.names):
        # a label may follow the texts; an invalid example has no fields
        for name, text in zip(text_columns, example.fields, strict=False):
            fault = "is a list" if isinstance(text, list) else "" if text.strip() else "is empty"
            if fault:
                place = table.describe_place(example.line)
                error = f"{place}: the column {quote(name)} {fault}; expected a text: correct the row"
                example = RawExample(example.line, [], InputError(error))
                break
        yield example


def read_labelled_examples(
    table: TableReader, columns: Columns, problem: str, separator: str = SEPARATOR
) -> Iterator[RawExample]:
    """Yield the examples of a table with their texts and then their label; see `read_text_examples`.

    Args:
        table: the table.
        columns: its columns to read, with one of labels.
        problem: the kind of the labels. "single_label": one class. "multi_label": a JSON list of classes, or classes
            joined by `separator`, without duplicates; an empty field means no class. "regression": a finite number.
            White space around labels is removed.
        separator: the separator of several labels in one string.
    """
    for example in read_text_examples(table, columns):
        yield _parse_label(example, table, columns.label, problem, separator)


def write_labelled_csv(path: str | os.PathLike, examples: Iterable[tuple[str, str]]) -> None:
    """Write `(text, label)` pairs with the header `text`, `label`, for the task of classification.

    Raises:
        InputError: the name does not end in .csv or .tsv, or a field cannot be written in that format.
    """
    ending = pathlib.Path(path).suffix
    if ending.lower() not in (".csv", ".tsv"):
        raise InputError(f"{path} ends in {quote(ending)}; expected .csv or .tsv: rename the file")
    with publish_file(path) as staging, open(staging, "w", encoding="utf-8", newline="") as file:
        for index, row in enumerate([("text", "label"), *examples], start=-1):
            if ending.lower() == ".csv":
                # the csv module does not quote a lone carriage return, so all fields are quoted
                quoting = csv.QUOTE_ALL if any("\r" in field for field in row) else csv.QUOTE_MINIMAL
                csv.writer(file, lineterminator="\n", quoting=quoting).writerow(row)
            elif any(mark in field for field in row for mark in "\t\r\n"):
                raise InputError(
                    f"example {index} has a tab or a line end, which {path} cannot contain: write a .csv file"
                )
            else:
                file.write("\t".join(row) + "\n")


def _parse_label(example: RawExample, table: TableReader, column: str, problem: str, separator: str) -> RawExample:
    """Return an example with its last field converted to a label, or with the error of it."""
    if example.error is not None:
        return example
    place = f"{table.describe_place(example.line)}: the column {quote(column)}"
    try:
        label = _convert_label(example.fields[-1], problem, separator, place)
    except InputError as error:
        return RawExample(example.line, [], error)
    return RawExample(example.line, [*example.fields[:-1], label])


def _convert_label(value: str | list[str], problem: str, separator: str, place: str) -> str | list[str] | float:
    if problem == "multi_label":
        return _split_labels(value, separator, place)
    if problem == "regression":
        return _parse_number(value, place)
    if isinstance(value, list):
        raise InputError(f"{place} is a list; expected one label, unless the problem is multi_label")
    if not value.strip():
        raise InputError(f"{place} is empty; expected a label: correct the row")
    return value.strip()


def _split_labels(value: str | list[str], separator: str, place: str) -> list[str]:
    if isinstance(value, str):
        value = value.split(separator) if value.strip() else []
    labels = list(dict.fromkeys(label.strip() for label in value))
    if "" in labels:
        raise InputError(f"{place} has an empty label; expected a name on each side of a separator: correct the row")
    return labels


def _parse_number(value: str | list[str], place: str) -> float:
    """Return a finite number; "1_000", which `float` accepts, is an error."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if "_" in value or not math.isfinite(number):
        raise InputError(f"{place} has the value {quote(value)}; expected a finite number such as 3.5: correct the row")
    return number
