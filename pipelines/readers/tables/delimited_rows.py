"""Rows of lines of fields, one by one: commas or other marks and quotes, or tabs."""

import contextlib
import csv
from collections.abc import Iterator, Sequence

from bert_keras.checks import format_count
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import Line
from bert_keras.pipelines.readers.lines import limit_characters
from bert_keras.pipelines.readers.tables.delimiters import DELIMITERS, parse_delimiter, recognized
from bert_keras.pipelines.readers.tables.listed_examples import describe_place
from bert_keras.pipelines.readers.tables.table_rows import Row, check_column

MAX_CSV_FIELD = 1 << 24  # characters; Python's own limit, 131,072, is less than a long court opinion has


class DelimitedReader:
    """Rows of lines of fields: `.csv` with commas or other marks and RFC 4180 quotes, `.tsv` with tabs and no quotes.

    Args:
        lines: the lines of the file.
        name: what messages call the file.
        format: "csv" or "tsv".
        columns: the names of the columns; None: the first line that is not blank has them.
        delimiter: the mark between the fields of a `.csv`; None: it is recognized.

    Attributes:
        name: what messages call the file.
        format: "csv" or "tsv".
        delimiter: the mark between the fields.
        place: what messages about its columns call it; the line that names them is in it.
        columns: the names of its columns.

    Raises:
        InputError: the file has no line to name the columns, or that line is bad.
    """

    def __init__(
        self,
        lines: Iterator[Line],
        name: str,
        *,
        format: str,
        columns: Sequence[str] | None = None,
        delimiter: str | None = None,
    ):
        self.name = self.place = name
        self.format = format
        if format == "csv":
            if delimiter is None:
                self.delimiter, lines = recognized(lines, None if columns is None else len(columns))
            else:
                self.delimiter = parse_delimiter(delimiter)
            self._rows = _quoted_rows(lines, name, self.delimiter)
        else:
            self.delimiter = "\t"
            self._rows = _tab_rows(lines, name)
        if columns is None:
            header = next(self._rows, None)
            if header is None:
                raise InputError(
                    f"{name} is empty; expected a line that names the columns, and rows below it: name another file"
                )
            if header.error is not None:
                raise header.error
            columns, self.place = [field.strip() for field in header.fields], f"{name}, line {header.line}"
        self.columns = list(columns)

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[Row]:
        """Gives the rows, once; blank lines are passed over.

        Args:
            columns: which fields, in which order; None: all of them.

        Raises:
            InputError: a column is not there once; while reading, a quote mark is never closed.
        """
        for column in columns or ():
            check_column(column, self.columns, self.place)
        indexes = range(len(self.columns)) if columns is None else [self.columns.index(column) for column in columns]
        return (self._chosen(row, indexes) for row in self._rows)

    def describe_place(self, line: int) -> str:
        """Return where a row is, for messages."""
        return describe_place(self.name, line)

    def _chosen(self, row: Row, indexes: Sequence[int]) -> Row:
        if row.error is not None:
            return row
        if len(row.fields) != len(self.columns):
            return Row(row.line, [], self._ragged(row))
        return Row(row.line, [row.fields[index] for index in indexes])

    def _ragged(self, row: Row) -> InputError:
        mark = DELIMITERS[self.delimiter]
        mend = {"csv": f"quote a field that holds a {mark}", "tsv": "take the tab out of a text that holds one"}
        return InputError(
            f"{self.name}, line {row.line}: the row has {format_count(len(row.fields), 'field')} where there are "
            f"{format_count(len(self.columns), 'column')}; expected the same: {mend[self.format]}"
        )


def _quoted_rows(lines: Iterator[Line], name: str, delimiter: str) -> Iterator[Row]:
    """Yields the rows that are not blank; a text within quotes may go over several lines."""
    errors = []
    lines = iter(lines)
    of_row: Iterator[Line] = iter(())

    def texts() -> Iterator[str]:
        while line := next(of_row, None):
            if line.error is not None:
                errors.append(line.error)  # the row is read to its end, so that the next one begins where it should
            yield line.text

    reader = csv.reader(texts(), delimiter=delimiter, strict=True)
    while True:
        number, fields = reader.line_num + 1, []
        of_row = limit_characters(lines, name, "row")
        errors.clear()
        try:
            with _long_fields():
                fields = next(reader, None)
        except csv.Error as error:
            errors.append(_csv_fault(str(error), name, number, reader.line_num))
        if fields is None:
            return
        if fields or errors:
            yield Row(number, [], errors[0]) if errors else Row(number, fields)


def _csv_fault(fault: str, name: str, first: int, last: int) -> InputError:
    """Returns what is wrong with a row; raises it if nobody can tell where the next row begins."""
    if fault == "unexpected end of data" or fault.startswith("field larger"):
        raise InputError(
            f"{name}, line {first}: in the row that begins here is a quote mark that is never closed, or a text of "
            f"more than {MAX_CSV_FIELD:,} characters; expected fields quoted as in RFC 4180: close the quote mark"
        ) from None
    if fault.startswith("new-line character"):
        return _stray_return(name, last)
    return InputError(
        f"{name}, line {last}: {fault}; expected fields quoted as in RFC 4180: "
        "look for a quote mark without its partner, or one within a text that is not doubled"
    )


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    """Lets Python's csv read long texts within the block; its limit is one for the whole process."""
    before = csv.field_size_limit(MAX_CSV_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _tab_rows(lines: Iterator[Line], name: str) -> Iterator[Row]:
    """Yields the rows that are not blank; quote marks are text, as in the files of GLUE."""
    for number, text, error in lines:
        text = text.rstrip("\r\n")
        if "\r" in text and error is None:
            error = _stray_return(name, number)
        if text or error:
            yield Row(number, [] if error else text.split("\t"), error)


def _stray_return(name: str, number: int) -> InputError:
    return InputError(
        f"{name}, line {number}: there is a carriage return within the line; expected lines that end in LF or CRLF: "
        "convert the file, for example with  tr '\\r' '\\n'"
    )
