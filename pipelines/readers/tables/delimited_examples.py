"""Examples of `.csv` and `.tsv` files, one by one."""

import contextlib
import csv
from collections.abc import Iterator, Sequence

from bert_keras.checks import format_count
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import Line, limit_characters
from bert_keras.pipelines.readers.tables.delimiters import DELIMITERS, detect_delimiter, parse_delimiter
from bert_keras.pipelines.readers.tables.raw_examples import RawExample, TableReader

MAX_CSV_FIELD = 1 << 24  # characters; Python's default limit, 131,072, is shorter than a long court opinion


class DelimitedReader(TableReader):
    """Reader of `.csv` files, which may have quotes as in RFC 4180, and of `.tsv` files, which have no quotes.

    Args:
        lines: the lines of the file.
        name: the file's name in messages.
        format: "csv" or "tsv".
        columns: the column names; None: the first line that is not blank has them.
        delimiter: the delimiter of a `.csv`; None: detected.

    Raises:
        InputError: the file has no line with column names, or that line is invalid.
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
                self.delimiter, lines = detect_delimiter(lines, None if columns is None else len(columns))
            else:
                self.delimiter = parse_delimiter(delimiter)
            self._examples = _read_csv(lines, name, self.delimiter)
        else:
            self.delimiter = "\t"
            self._examples = _read_tsv(lines, name)
        if columns is None:
            header = next(self._examples, None)
            if header is None:
                raise InputError(
                    f"{name} is empty; expected a line of column names, and examples below it: name another file"
                )
            if header.error is not None:
                raise header.error
            columns, self.place = [field.strip() for field in header.fields], f"{name}, line {header.line}"
        self.columns = list(columns)

    def _read_fields(self, columns: Sequence[str] | None) -> Iterator[RawExample]:
        indexes = range(len(self.columns)) if columns is None else [self.columns.index(column) for column in columns]
        return (self._select_fields(example, indexes) for example in self._examples)

    def _select_fields(self, example: RawExample, indexes: Sequence[int]) -> RawExample:
        if example.error is not None:
            return example
        if len(example.fields) != len(self.columns):
            fixes = {
                "csv": f"quote fields that contain a {DELIMITERS[self.delimiter]}",
                "tsv": "remove the tab from a text that contains one",
            }
            error = InputError(
                f"{self.describe_place(example.line)}: the row has {format_count(len(example.fields), 'field')} but "
                f"there are {format_count(len(self.columns), 'column')}; expected the same: {fixes[self.format]}"
            )
            return RawExample(example.line, [], error)
        return RawExample(example.line, [example.fields[index] for index in indexes])


def _read_csv(lines: Iterator[Line], name: str, delimiter: str) -> Iterator[RawExample]:
    """Yield the examples that are not blank; a quoted text may span several lines."""
    errors = []
    lines = iter(lines)
    example_lines: Iterator[Line] = iter(())

    def texts() -> Iterator[str]:
        while line := next(example_lines, None):
            if line.error is not None:
                errors.append(line.error)  # the example is read to its end, to find where the next one begins
            yield line.text

    reader = csv.reader(texts(), delimiter=delimiter, strict=True)
    while True:
        number, fields = reader.line_num + 1, []
        example_lines = limit_characters(lines, name, "row")
        errors.clear()
        try:
            with _allow_long_fields():
                fields = next(reader, None)
        except csv.Error as error:
            errors.append(_explain_csv_error(str(error), name, number, reader.line_num))
        if fields is None:
            return
        if fields or errors:
            yield RawExample(number, [], errors[0]) if errors else RawExample(number, fields)


def _explain_csv_error(message: str, name: str, first: int, last: int) -> InputError:
    """Return the error of the csv module in plain words; raise it if the next example cannot be found."""
    if message == "unexpected end of data" or message.startswith("field larger"):
        raise InputError(
            f"{name}, line {first}: the row that begins here has a quote mark that is never closed, or a text of "
            f"more than {MAX_CSV_FIELD:,} characters; expected fields quoted as in RFC 4180: close the quote mark"
        ) from None
    if message.startswith("new-line character"):
        return _make_carriage_return_error(name, last)
    return InputError(
        f"{name}, line {last}: {message}; expected fields quoted as in RFC 4180: look for an unpaired quote mark, or "
        "one inside a text that is not doubled"
    )


@contextlib.contextmanager
def _allow_long_fields() -> Iterator[None]:
    """Raise the field limit of the csv module, which is global, within the block."""
    before = csv.field_size_limit(MAX_CSV_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _read_tsv(lines: Iterator[Line], name: str) -> Iterator[RawExample]:
    """Yield the examples that are not blank; quote marks are ordinary characters, as in the files of GLUE."""
    for number, text, error in lines:
        text = text.rstrip("\r\n")
        if "\r" in text and error is None:
            error = _make_carriage_return_error(name, number)
        if text or error:
            yield RawExample(number, [] if error else text.split("\t"), error)


def _make_carriage_return_error(name: str, number: int) -> InputError:
    return InputError(
        f"{name}, line {number}: the line contains a carriage return; expected lines that end in LF or CRLF: "
        "convert the file, for example with  tr '\\r' '\\n'"
    )
