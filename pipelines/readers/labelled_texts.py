"""Texts, or pairs of texts, with what is to be learned of them: a label, several labels, or a number."""

import csv
import dataclasses
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.bad_examples import BadExamples, collect_bad
from bert_keras.pipelines.readers.tables.column_names import Columns, guess_columns
from bert_keras.pipelines.readers.tables.listed_examples import ListedExamples, Source
from bert_keras.pipelines.readers.tables.table_rows import Row
from bert_keras.pipelines.readers.tables.tables import TableReader, open_table
from bert_keras.publishing import publish_file

PROBLEMS = ("single_label", "multi_label", "regression")
SEPARATOR = "|"  # between several labels: a comma may stand within one, and needs quotes in a .csv


@dataclasses.dataclass(frozen=True)
class LabelledTexts:
    """A file of labelled texts that was read whole; its lists have one entry a row.

    Attributes:
        path: the file, or the examples in memory.
        columns: the columns that were read.
        texts: the texts, as they stand in the file.
        second_texts: the second text of each pair; None: there are no pairs.
        labels: strings for "single_label", lists of strings for "multi_label", floats for "regression".
        lines: the number of each row's first line in the file, from 1.
    """

    path: pathlib.Path | ListedExamples
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
) -> LabelledTexts:
    """Reads labelled texts or pairs of texts; other columns and blank lines are passed over.

    Args:
        path: a table in UTF-8: `.csv`, `.tsv` (without quotes), `.jsonl` or `.json`, also with `.gz`; or examples in
            memory.
        problem: what the labels are. "single_label": a label each. "multi_label": a JSON list, or labels with
            `separator` between them; an empty field is no label, and one that occurs twice is kept once.
            "regression": a finite number. White space around labels is dropped.
        text_column: the column of texts; None: guessed, see `guess_columns`.
        second_text_column: the column of second texts; None: guessed if `text_column` is guessed too.
        label_column: the column of labels; None: guessed.
        columns: the names of all columns of a file without a header line; of JSON lines, the fields to look at.
        separator: what stands between several labels in one string.
        format: "csv", "tsv", "jsonl" or "json"; None: the name of the file ends in it.
        delimiter: as `open_table` has it.
        bad: takes bad rows, to be refused or skipped by the caller; None: they are refused here.

    Raises:
        InputError: the file cannot be read or lacks a column; a row is ragged, has an empty text or a label
            that is none; there are no rows. File and line are named.
    """
    if problem not in PROBLEMS:
        raise InputError(f"problem is {problem!r}; expected {', '.join(PROBLEMS)}")
    if not separator:
        raise InputError("the separator of labels is empty; expected a mark such as '|'")
    with collect_bad(bad) as bad, open_table(path, columns=columns, format=format, delimiter=delimiter) as table:
        chosen = guess_columns(
            table.columns, text=text_column, second_text=second_text_column, label=label_column, place=table.place
        )
        chosen = dataclasses.replace(chosen, delimiter=unusual_delimiter(table))
        found = (_with_label(row, table, chosen.label, problem, separator) for row in read_text_examples(table, chosen))
        rows = list(bad.keep_good(found))
    bad.check_any_left(len(rows), table.name)
    return LabelledTexts(
        path=path if isinstance(path, ListedExamples) else pathlib.Path(path),
        columns=chosen,
        texts=[row.fields[0] for row in rows],
        second_texts=None if chosen.second_text is None else [row.fields[1] for row in rows],
        labels=[row.fields[-1] for row in rows],
        lines=[row.line for row in rows],
    )


def unusual_delimiter(table: TableReader) -> str | None:
    """Return the mark between the fields of a table, where its form and ending do not tell it."""
    mark = getattr(table, "delimiter", None)
    return None if mark == "," or (mark == "\t" and table.format == "tsv") else mark


def read_text_examples(table: TableReader, columns: Columns) -> Iterator[Row]:
    """Yields the rows of a table with the fields text, second text and label, as far as `columns` has them.

    A row with an empty text, or a list for one, has its `error` set, like any other bad row: see `open_table`.
    """
    text_columns = [name for name in (columns.text, columns.second_text) if name is not None]
    for row in table.rows(columns.names):
        for name, text in zip(text_columns, row.fields, strict=False):  # a label may follow; a bad row has none
            fault = "holds a list" if isinstance(text, list) else "" if text.strip() else "is empty"
            if fault:
                place = table.describe_place(row.line)
                error = f"{place}: the column {quote(name)} {fault}; expected a text: mend the row"
                row = Row(row.line, [], InputError(error))
                break
        yield row


def write_labelled_csv(path: str | os.PathLike, rows: Iterable[tuple[str, str]]) -> None:
    """Writes `(text, label)` rows under the header `text`, `label`; `read_labelled_texts` reads them back.

    Raises:
        InputError: the name does not end in .csv or .tsv, or a field cannot stand in that format.
    """
    ending = pathlib.Path(path).suffix
    if ending.lower() not in (".csv", ".tsv"):
        raise InputError(f"{path} ends in {quote(ending)}; expected .csv or .tsv: give the file its proper ending")
    with publish_file(path) as staging, open(staging, "w", encoding="utf-8", newline="") as file:
        for index, row in enumerate([("text", "label"), *rows], start=-1):
            if ending.lower() == ".csv":
                # Python's csv leaves a lone carriage return without quotes, so such a row is quoted whole
                quoting = csv.QUOTE_ALL if any("\r" in field for field in row) else csv.QUOTE_MINIMAL
                csv.writer(file, lineterminator="\n", quoting=quoting).writerow(row)
            elif any(mark in field for field in row for mark in "\t\r\n"):
                raise InputError(f"row {index} holds a tab or a line end, which {path} cannot hold: write a .csv file")
            else:
                file.write("\t".join(row) + "\n")


def _with_label(row: Row, table: TableReader, column: str, problem: str, separator: str) -> Row:
    """Return a row whose last field is the label that it spells, or that has the error of it."""
    if row.error is not None:
        return row
    try:
        label = _read_label(
            row.fields[-1], problem, separator, f"{table.describe_place(row.line)}: the column {quote(column)}"
        )
    except InputError as error:
        return Row(row.line, [], error)
    return Row(row.line, [*row.fields[:-1], label])


def _read_label(value: str | list[str], problem: str, separator: str, place: str) -> str | list[str] | float:
    if problem == "multi_label":
        return _several_labels(value, separator, place)
    if problem == "regression":
        return _number(value, place)
    if isinstance(value, list):
        raise InputError(f"{place} holds a list; expected one label, unless the problem is multi_label")
    if not value.strip():
        raise InputError(f"{place} is empty; expected a label: mend the row")
    return value.strip()


def _several_labels(value: str | list[str], separator: str, place: str) -> list[str]:
    if isinstance(value, str):
        value = value.split(separator) if value.strip() else []
    labels = list(dict.fromkeys(label.strip() for label in value))
    if "" in labels:
        raise InputError(f"{place} holds an empty label; expected a name on each side of a separator: mend the row")
    return labels


def _number(value: str | list[str], place: str) -> float:
    """Returns a finite number; "1_000", which Python reads too, is rather a name."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if "_" in value or not math.isfinite(number):
        raise InputError(f"{place} holds {quote(value)}; expected a finite number such as 3.5: mend the row")
    return number
