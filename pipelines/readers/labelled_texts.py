"""Read texts or pairs of texts with their labels: one class, several classes, or a number."""

import csv
import dataclasses
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from bert_keras.checks import quote
from bert_keras.config import PROBLEMS
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.bad_examples import BadExamples, collect_bad
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.column_names import Columns, guess_columns
from bert_keras.pipelines.readers.tables.raw_examples import RawExample, Source, TableReader
from bert_keras.pipelines.readers.tables.tables import open_table
from bert_keras.publishing import publish_file

SEPARATOR = "|"  # of several labels; a comma can be part of a label, and would need quotes in a .csv


@dataclasses.dataclass(frozen=True)
class LabelledTexts:
    """Labelled texts of a file; its lists have one item per example.

    Attributes:
        columns: the columns that were read.
        texts: the texts, unchanged.
        second_texts: the second texts of pairs; None: the texts are single.
        labels: strings for "single_label", lists of strings for "multi_label", floats for "regression".
        lines: the number of the first line of each example in the file, from 1.
    """

    columns: Columns
    texts: list[str]
    second_texts: list[str] | None
    labels: list[str] | list[list[str]] | list[float]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.texts)


def read_labelled_texts(
    path: Source,
    *,
    problem: str = "single_label",
    text_column: str | None = None,
    second_text_column: str | None = None,
    label_column: str | None = None,
    columns: Sequence[str] | None = None,
    separator: str = SEPARATOR,
    format: str | None = None,
    delimiter: str | None = None,
    bad: BadExamples | None = None,
    spell: Spell = spell_flag,
) -> LabelledTexts:
    """Read labelled texts or pairs of texts; other columns and blank lines are ignored.

    Args:
        path: a table in UTF-8: `.csv`, `.tsv` (without quotes), `.jsonl` or `.json`, optionally with `.gz`; or examples
            in memory.
        problem: the kind of the labels. "single_label": one class. "multi_label": a JSON list of classes, or classes
            joined by `separator`, without duplicates; an empty field means no class. "regression": a finite number.
            White space around labels is removed.
        text_column: the column of texts; None: guessed, see `guess_columns`.
        second_text_column: the column of second texts; None: guessed if `text_column` is None too.
        label_column: the column of labels; None: guessed.
        columns: the column names of a file without a header line; for JSON lines, the fields to read.
        separator: the separator of several labels in one string.
        format: "csv", "tsv", "jsonl" or "json"; None: the ending of the file's name decides.
        delimiter: the delimiter of a `.csv`, see `open_table`.
        bad: collects invalid examples for the caller; None: they are an error.
        spell: spells options in messages.

    Raises:
        InputError: the file cannot be read or lacks a column; an example has the wrong number of fields, an empty text
            or an invalid label; there are no examples. The message names the file and the line.
    """
    if problem not in PROBLEMS:
        raise InputError(f"problem is {problem!r}; expected {', '.join(PROBLEMS)}")
    if not separator:
        raise InputError("the separator of labels is empty; expected a character such as '|'")
    opened = open_table(path, columns=columns, format=format, delimiter=delimiter, spell=spell)
    with collect_bad(bad) as bad, opened as table:
        chosen = guess_columns(
            table.columns,
            text=text_column,
            second_text=second_text_column,
            label=label_column,
            place=table.place,
            spell=spell,
        )
        chosen = dataclasses.replace(chosen, delimiter=get_unusual_delimiter(table))
        texts = read_text_examples(table, chosen)
        labelled = (_parse_label(example, table, chosen.label, problem, separator) for example in texts)
        examples = list(bad.keep_good(labelled))
    bad.check_any_left(len(examples), table.name)
    return LabelledTexts(
        columns=chosen,
        texts=[example.fields[0] for example in examples],
        second_texts=None if chosen.second_text is None else [example.fields[1] for example in examples],
        labels=[example.fields[-1] for example in examples],
        lines=[example.line for example in examples],
    )


def get_unusual_delimiter(table: TableReader) -> str | None:
    """Return the delimiter of a table, or None if it is the usual one of its format."""
    is_usual = table.delimiter == "," or table.format == "tsv"
    return None if is_usual else table.delimiter


def read_text_examples(table: TableReader, columns: Columns) -> Iterator[RawExample]:
    """Yield the examples of a table with the fields text, second text and label, those of them in `columns`.

    An example whose text is empty or a list has its `error` set, like any other invalid example: see `open_table`.
    """
    text_columns = [name for name in (columns.text, columns.second_text) if name is not None]
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


def write_labelled_csv(path: str | os.PathLike, examples: Iterable[tuple[str, str]]) -> None:
    """Write `(text, label)` pairs with the header `text`, `label`; `read_labelled_texts` reads them back.

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
