"""Rows of JSON lines, one by one, and of arrays of JSON objects."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.json_lines import check_characters, parse_json
from bert_keras.pipelines.corpus.text_lines import Line
from bert_keras.pipelines.readers.json_values import read_json_document
from bert_keras.pipelines.readers.tables.listed_examples import ListedExamples, describe_place
from bert_keras.pipelines.readers.tables.table_rows import Row, check_column, quote_names

_MAX_BAD_LINES = 1000  # at the beginning of a file, kept in memory until one names the columns


class JsonLinesReader:
    """Rows of lines that are JSON objects; numbers and booleans become strings, spelled as in the file.

    Args:
        lines: the lines of the file.
        name: what messages call the file.
        columns: the fields that are columns, whatever else an object holds; None: exactly those of the first line that
            is an object.

    Attributes:
        name: what messages call the file.
        place: what messages about its columns call it; the line that names them is in it.
        columns: the names of its columns.

    Raises:
        InputError: the file has no line to name the columns.
    """

    def __init__(self, lines: Iterator[Line], name: str, *, columns: Sequence[str] | None = None):
        self.name = self.place = name
        self._first = None
        self._lines = (line for line in lines if line.error or line.text.strip())
        if columns is None:
            columns = self._read_columns()
        self.columns = list(columns)

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[Row]:
        """Gives the rows, once; blank lines are passed over.

        Args:
            columns: which fields, in which order, whatever else an object holds; None: all of them.

        Raises:
            InputError: a column is not there.
        """
        for column in columns or ():
            check_column(column, self.columns, self.place)
        exactly = columns is None and self._first is not None
        return (self._row(line, self.columns if columns is None else columns, exactly) for line in self._lines)

    def describe_place(self, line: int) -> str:
        """Return where a row is, for messages."""
        return describe_place(self.name, line)

    def _read_columns(self) -> Iterable[str]:
        """Returns the fields of the first good line; it and the bad ones before it are still to be read as rows."""
        begin, first_error = [], InputError(f"{self.name} is empty; expected one JSON object a line: name another file")
        for line in itertools.islice(self._lines, _MAX_BAD_LINES):
            try:
                columns = _json_object(line, self.name)
            except InputError as error:
                # a new one, because the text of the line, which may be long, stays with the frames of the old one
                begin.append(Line(line.number, "", InputError(str(error))))
                first_error = begin[0].error
                continue
            begin.append(line)
            self._first = line
            self._lines = itertools.chain(begin, self._lines)
            self.place = f"{self.name}, line {line.number}"
            return columns
        raise first_error

    def _row(self, line: Line, columns: Sequence[str], exactly: bool) -> Row:
        place = f"{self.name}, line {line.number}"
        try:
            values = _json_object(line, self.name)
            if exactly and (extra := [field for field in values if field not in columns]):
                raise InputError(
                    f"{place}: there is a field {quote(extra[0])}, which line {self._first.number} lacks; expected "
                    "the same "
                    "fields in each line: mend the line, or name the columns that are meant"
                )
            return Row(line.number, [_json_field(values, column, place) for column in columns])
        except InputError as error:
            return Row(line.number, [], error)


class ListedReader:
    """Rows of examples that are in memory; numbers and booleans become strings.

    Args:
        examples: the examples.
        columns: the fields that are columns; None: those of the first example.

    Attributes:
        name: what messages call the examples.
        place: what messages about its columns call it.
        columns: the names of its columns.

    Raises:
        InputError: no example is an object.
    """

    def __init__(self, examples: ListedExamples, *, columns: Sequence[str] | None = None):
        self.name = self.place = examples.name
        self._examples = examples
        if columns is None:
            first = next((index for index, one in enumerate(examples.objects) if isinstance(one, dict)), None)
            if first is None:
                raise InputError(
                    f"{self.name} holds no objects; expected a list of one or more such as {{'text': ...}}: name "
                    "another file"
                )
            columns, self.place = examples.objects[first], describe_place(examples, first)
        self.columns = list(columns)

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[Row]:
        """Give the rows, once; each has the number of its example as its line.

        Args:
            columns: which fields, in which order, whatever else an example holds; None: all of them.

        Raises:
            InputError: a column is not there.
        """
        for column in columns or ():
            check_column(column, self.columns, self.place)
        chosen = self.columns if columns is None else columns
        return (self._row(index, values, chosen) for index, values in enumerate(self._examples.objects))

    def describe_place(self, index: int) -> str:
        """Return where an example is, for messages."""
        return describe_place(self._examples, index)

    def _row(self, index: int, values: object, columns: Sequence[str]) -> Row:
        place = describe_place(self._examples, index)
        try:
            values = {
                name: _spelled(value, as_json=self._examples.is_of_file)
                for name, value in check_is_object(values, place).items()
            }
            return Row(index, [_json_field(values, column, place) for column in columns])
        except InputError as error:
            return Row(index, [], error)


def read_json_array(path: str | os.PathLike, *, spelled: bool) -> ListedExamples:
    """Read a file that holds an array of JSON objects, whole.

    Args:
        path: the file, in UTF-8; its name may end in `.gz`.
        spelled: whether numbers become the strings that the file has, for tables.

    Raises:
        InputError: the file cannot be read, or holds no array.
    """
    hooks = dict.fromkeys(("parse_int", "parse_float"), _Number) if spelled else {}
    value = read_json_document(path, parse_constant=_refuse_constant, **hooks)
    if not isinstance(value, list):
        squad = " (questions in the form of SQuAD are for --task answer)" if isinstance(value, dict) else ""
        raise InputError(
            f"{path} holds a JSON {_kind(value)}; expected a list of objects such as "
            f"[{{'text': ..., 'label': ...}}]{squad}: name another file"
        )
    return ListedExamples(str(path), value, is_of_file=True)


def check_is_object(value: object, place: str) -> dict:
    """Return an example that must be an object.

    Raises:
        InputError: it is another value.
    """
    if not isinstance(value, dict):
        raise InputError(f"{place} is {_with_article(_kind(value))}; expected an object such as {{'text': ...}}")
    return value


def _spelled(value: object, *, as_json: bool) -> object:
    """Return a value whose numbers are strings, a list's too, and no deeper one is read.

    Unless `as_json`, booleans are strings too, as Python spells them.
    """
    return [_spelled_one(part, as_json) for part in value] if isinstance(value, list) else _spelled_one(value, as_json)


def _spelled_one(value: object, as_json: bool) -> object:
    if isinstance(value, bool) and not as_json:
        return str(value)
    return _Number(repr(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _json_object(line: Line, name: str) -> dict:
    """Returns the object of a line, its numbers as the strings that the file has."""
    if line.error is not None:
        raise line.error
    place = f"{name}, line {line.number}"
    value = parse_json(line.text, place, parse_int=_Number, parse_float=_Number, parse_constant=_refuse_constant)
    if not isinstance(value, dict):
        raise InputError(f"{place}: the line is a JSON {_kind(value)}; expected an object such as {{'text': ...}}")
    return value


def _json_field(values: dict, field: str, place: str) -> str | list[str]:
    """Returns a field of an object as a string or a list of strings."""
    if field not in values:
        raise InputError(
            f"{place}: there is no field {quote(field)}; the fields are {quote_names(values)}: expected every field in "
            "each line"
        )
    value = values[field]
    items = value if isinstance(value, list) else [value]
    wrong = [item for item in items if not isinstance(item, str | bool)]
    if wrong:
        inside = f" with {_with_article(_kind(wrong[0]))} in it" if isinstance(value, list) else ""
        found = "has no value (null)" if value is None else f"is a JSON {_kind(value)}{inside}"
        raise InputError(
            f"{place}: the field {quote(field)} {found}; expected a string, a number, true, false or a list of them: "
            "correct it"
        )
    texts = [str(item).lower() if isinstance(item, bool) else str(item) for item in items]
    check_characters("".join(texts), f"the field {quote(field)}", place)
    return texts if isinstance(value, list) else texts[0]


class _Number(str):
    """A JSON number, as it is spelled."""


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _kind(value: object) -> str:
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", _Number: "number", type(None): "null"}
    return {**kinds, int: "number", float: "number"}.get(type(value), type(value).__name__)


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "ao" else f"a {kind}"
