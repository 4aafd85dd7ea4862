"""Tables in files, on standard input and in memory: `.csv`, `.tsv`, `.jsonl` and `.json`, read example by example.

The delimiter of a `.csv` is detected: a comma, a semicolon, a tab or a vertical bar.
"""

import contextlib
import csv
import itertools
import os
from collections.abc import Iterator, Sequence

from bert_keras.checks import format_count, quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import STANDARD_INPUT, Line, limit_characters, open_lines
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.json_examples import JsonLinesReader, ListedReader, read_json_array
from bert_keras.pipelines.readers.tables.raw_examples import (
    ListedExamples,
    RawExample,
    Source,
    TableReader,
    detect_format,
    join_alternatives,
)

FORMATS = ("csv", "tsv", "jsonl", "json")  # each is also the ending of its files
MAX_CSV_FIELD = 1 << 24  # characters; Python's default limit, 131,072, is shorter than a long court opinion
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
_NUM_LINES = 50  # at the beginning of a file, from which its delimiter is detected
_MAX_BLANK_LINES = 1000  # before the first row
_MAX_CHARACTERS = 2**20  # of these lines, so that very long lines do not fill the memory
_NAMES = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "bar": "|"}  # as written on a command line


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


class DelimitedReader(TableReader):
    """Reader of `.csv` files, which may have quotes as in RFC 4180, and of `.tsv` files, which have no quotes.

    Args:
        lines, name: the lines of the file, and its name in messages.
        format: "csv" or "tsv".
        columns, delimiter: see `open_table`.

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


def parse_delimiter(given: str) -> str:
    r"""Return the delimiter that a user gave as itself, as `\t` or by its name.

    Raises:
        InputError: the delimiter is not supported.
    """
    mark = _NAMES.get(given, given)
    if mark not in DELIMITERS:
        raise InputError(
            f"the delimiter is {quote(given)}; expected {join_alternatives([',', ';', '|', 'tab'])}: convert the file"
        )
    return mark


def detect_delimiter(lines: Iterator[Line], num_columns: int | None = None) -> tuple[str, Iterator[Line]]:
    """Return the delimiter of a file, and an iterator over all of its lines.

    More than the first line is read only if that has another delimiter than a comma, because the lines of a pipe
    arrive one by one.
    """
    begin, num_characters = [], 0
    for line in itertools.islice(lines, _MAX_BLANK_LINES):
        begin.append(line)
        if line.text.strip():
            break
    if num_columns is not None or any(mark in line.text for line in begin for mark in DELIMITERS if mark != ","):
        for line in itertools.islice(lines, _NUM_LINES - 1):
            begin.append(line)
            num_characters += len(line.text)
            if num_characters > _MAX_CHARACTERS:
                break
    return choose_delimiter([line.text for line in begin], num_columns), itertools.chain(begin, lines)


def choose_delimiter(lines: Sequence[str], num_columns: int | None = None) -> str:
    """Return the delimiter of a file that begins with these lines.

    It is a comma, unless the first line has no comma outside quotes, or the lines have different numbers of commas, and
    another delimiter splits the first line and most others into the same number of fields.

    Args:
        lines: the first lines of the file, with their line ends.
        num_columns: the number of columns, for a file without a header line.
    """
    examples = {mark: _parse(lines, mark) for mark in DELIMITERS}
    widths = {mark: num_columns or max(map(len, parsed[:1]), default=0) for mark, parsed in examples.items()}
    shares = {}  # of the lines that have as many fields as the first
    for mark, parsed in examples.items():
        if widths[mark] > 1:
            num_equal = sum(len(fields) == widths[mark] for fields in parsed)
            shares[mark] = num_equal / len(parsed) if parsed else 0.0
    if shares.get(",", 0) > 0.5 or not shares:
        return ","
    best = max(shares, key=lambda mark: (shares[mark], widths[mark]))  # the first of equals
    return best if shares[best] > 0.5 else ","


def _parse(lines: Sequence[str], mark: str) -> list[list[str]]:
    """Return the fields of the lines that are not blank, up to the first one with a syntax error."""
    parsed = []
    with contextlib.suppress(csv.Error):
        parsed.extend(filter(None, csv.reader(lines, delimiter=mark)))
    return parsed
