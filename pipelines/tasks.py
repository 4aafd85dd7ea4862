"""Labelled texts in files: .csv (comma, quotes) and .tsv (tab, no quotes), with a header line."""

import csv
import os
import pathlib
from collections.abc import Iterable, Iterator

from bert_keras.errors import InputError
from bert_keras.files import publish_file
from bert_keras.pipelines.text_lines import utf8_lines

_FORMATS = {
    ".csv": {"delimiter": ",", "quoting": csv.QUOTE_MINIMAL},
    ".tsv": {
        "delimiter": "\t",
        "quoting": csv.QUOTE_NONE,
        "quotechar": None,
    },  # as in GLUE, whose texts hold single quote marks
}


def read_labelled_csv(
    path: str | os.PathLike, *, text_column: str = "text", label_column: str = "label"
) -> tuple[list[str], list[str]]:
    """Reads texts and labels from two named columns of a file; other columns and blank lines are passed over.

    Args:
        path: a `.csv` or `.tsv` file in UTF-8 whose first line names the columns.
        text_column: the column of texts.
        label_column: the column of labels, read as strings.

    Returns:
        The texts and the labels, of the same length.

    Raises:
        InputError: the file cannot be read, lacks a column, holds a row of another width, an empty
            label or no rows; file and line are named.
    """
    path = pathlib.Path(path)
    rows = _rows(path)
    _, header = next(rows, (1, []))
    text_index, label_index = (_column_index(header, name, path) for name in (text_column, label_column))
    texts, labels = [], []
    for number, row in rows:
        if len(row) != len(header):
            raise InputError(
                f"{path}, line {number}: the row has {len(row)} fields where the header has {len(header)}; "
                "expected the same: quote a field that holds the separator"
            )
        if not row[label_index].strip():
            raise InputError(f"{path}, line {number}: the column {label_column!r} is empty; expected a label")
        texts.append(row[text_index])
        labels.append(row[label_index])
    if not texts:
        raise InputError(f"{path} holds a header and no rows; expected one labelled text or more: name another file")
    return texts, labels


def write_labelled_csv(path: str | os.PathLike, rows: Iterable[tuple[str, str]]) -> None:
    """Writes `(text, label)` rows under the header `text`, `label`; `read_labelled_csv` reads them back.

    Raises:
        InputError: the name does not end in .csv or .tsv, or a field cannot stand in that format.
    """
    form = _form(pathlib.Path(path))
    with publish_file(path) as staging, open(staging, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", **form)
        writer.writerow(("text", "label"))
        for index, row in enumerate(rows):
            if form["quoting"] == csv.QUOTE_NONE and any(mark in field for field in row for mark in "\t\r\n"):
                raise InputError(f"row {index} holds a tab or a line end, which {path} cannot hold: write a .csv file")
            writer.writerow(row)


def _rows(path: pathlib.Path) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, fields) of every row that is not blank."""
    reader = csv.reader(utf8_lines(path), strict=True, **_form(path))
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: {error}; expected fields quoted as in RFC 4180: look for a quote mark "
            "without its partner on this line or before"
        ) from None


def _column_index(header: list[str], name: str, path: pathlib.Path) -> int:
    if header.count(name) != 1:
        how = "no column" if name not in header else "more than one column"
        raise InputError(
            f"{path}, line 1: there is {how} {name!r}; the header has {header}: name the column that is meant"
        )
    return header.index(name)


def _form(path: pathlib.Path) -> dict:
    form = _FORMATS.get(path.suffix.lower())
    if form is None:
        raise InputError(f"{path} ends in {path.suffix!r}; expected .csv or .tsv: give the file its proper ending")
    return form
