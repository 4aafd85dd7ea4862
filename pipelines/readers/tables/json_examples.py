"""Examples of JSON lines, one by one, and of JSON arrays; JSON documents, and checks of the values in them."""

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import Line, check_characters, parse_json, read_document
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.raw_examples import (
    ListedExamples,
    RawExample,
    TableReader,
    describe_place,
    quote_names,
)

_MAX_BAD_LINES = 1000  # invalid lines held in memory at the beginning of a file, before the first valid one


class JsonLinesReader(TableReader):
    """Reader of lines that are JSON objects; numbers and booleans become strings, spelled as in the file.

    Args:
        lines, name: the lines of the file, and its name in messages.
        columns: the fields to read, while others are ignored; None: those of the first valid line, which all lines must
            have.

    Raises:
        InputError: no line is valid.
    """

    def __init__(self, lines: Iterator[Line], name: str, *, columns: Sequence[str] | None = None):
        self.name = self.place = name
        self._first = None
        self._lines = (line for line in lines if line.error or line.text.strip())
        if columns is None:
            columns = self._read_columns()
        self.columns = list(columns)

    def _read_fields(self, columns: Sequence[str] | None) -> Iterator[RawExample]:
        exactly = columns is None and self._first is not None
        chosen = self.columns if columns is None else columns
        return (RawExample.attempt(line.number, self._parse, line, chosen, exactly) for line in self._lines)

    def _read_columns(self) -> Iterable[str]:
        """Return the fields of the first valid line; it and the lines before it remain to be read as examples."""
        begin = []
        first_error = InputError(f"{self.name} is empty; expected one JSON object per line: name another file")
        for line in itertools.islice(self._lines, _MAX_BAD_LINES):
            try:
                columns = _parse_object(line, self.describe_place(line.number))
            except InputError as error:
                # a new error, because the traceback of the old one keeps the text of the line, which may be long
                begin.append(Line(line.number, "", InputError(str(error))))
                first_error = begin[0].error
                continue
            begin.append(line)
            self._first = line
            self._lines = itertools.chain(begin, self._lines)
            self.place = self.describe_place(line.number)
            return columns
        raise first_error

    def _parse(self, line: Line, columns: Sequence[str], exactly: bool) -> list[str | list[str]]:
        place = self.describe_place(line.number)
        values = _parse_object(line, place)
        if exactly and (extra := [field for field in values if field not in columns]):
            raise InputError(
                f"{place}: there is a field {quote(extra[0])}, which line {self._first.number} does not have; "
                "expected the same fields in each line: correct the line, or name the columns to read"
            )
        return [_get_field(values, column, place) for column in columns]


class ListedReader(TableReader):
    """Reader of examples in memory; numbers and booleans become strings. The line of an example is its index.

    Args:
        examples: the examples.
        columns: the fields to read; None: those of the first example that is a dict.

    Raises:
        InputError: no example is a dict.
    """

    def __init__(self, examples: ListedExamples, *, columns: Sequence[str] | None = None):
        self.name = self.place = examples.name
        self._examples = examples
        if columns is None:
            first = next((index for index, one in enumerate(examples.objects) if isinstance(one, dict)), None)
            if first is None:
                raise InputError(
                    f"{self.name} has no objects; expected a list of objects such as {{'text': ...}}: name another file"
                )
            columns, self.place = examples.objects[first], self.describe_place(first)
        self.columns = list(columns)

    def _read_fields(self, columns: Sequence[str] | None) -> Iterator[RawExample]:
        chosen = self.columns if columns is None else columns
        objects = enumerate(self._examples.objects)
        return (RawExample.attempt(index, self._parse, index, values, chosen) for index, values in objects)

    def describe_place(self, line: int) -> str:
        """Return the place of an example for messages."""
        return describe_place(self._examples, line)

    def _parse(self, index: int, values: object, columns: Sequence[str]) -> list[str | list[str]]:
        place = self.describe_place(index)
        values = {
            name: _convert_numbers(value, is_from_file=self._examples.is_from_file)
            for name, value in check_is_object(values, place).items()
        }
        return [_get_field(values, column, place) for column in columns]


def read_json_array(path: str | os.PathLike, *, as_strings: bool, spell: Spell = spell_flag) -> ListedExamples:
    """Read a file that is an array of JSON objects.

    Args:
        path: the file, in UTF-8; its name may end in `.gz`.
        as_strings: whether numbers become strings, spelled as in the file.
        spell: spells options in messages.

    Raises:
        InputError: the file cannot be read, or is not an array.
    """
    hooks = dict.fromkeys(("parse_int", "parse_float"), _Number) if as_strings else {}
    value = read_json_document(path, spell=spell, parse_constant=_refuse_constant, **hooks)
    if not isinstance(value, list):
        squad = f" (questions in SQuAD's format need {spell('task', 'answer')})" if isinstance(value, dict) else ""
        raise InputError(
            f"{path} is a JSON {_name_type(value)}; expected a list of objects such as "
            f"[{{'text': ..., 'label': ...}}]{squad}: name another file"
        )
    return ListedExamples(str(path), value, is_from_file=True)


def read_json_document(path: str | os.PathLike, *, spell: Spell = spell_flag, **parsing: object) -> object:
    """Return the value of a file that is one JSON document.

    Args:
        path: the file.
        spell: spells options in messages.
        **parsing: arguments of `json.loads`.

    Raises:
        InputError: the file cannot be read, or is not JSON.
    """
    text = read_document(path)
    try:
        return json.loads(text, **parsing)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: not JSON ({error}); expected one JSON document: restore the file from its source, or set "
            f"{spell('format', 'jsonl')} if it has one object per line"
        ) from None


def check_text(value: object, what: str, place: object) -> str:
    """Return a value that must be a text and not blank; messages begin with `place` and call the value `what`.

    Raises:
        InputError: the value is not a string, is blank, or has characters that are not valid in text.
    """
    if not isinstance(value, str):
        raise InputError(f"{place}: {what} is {quote(value)}; expected a string: correct it")
    if not value.strip():
        raise InputError(f"{place}: {what} is empty; expected text: fill it in, or remove the record")
    check_characters(value, what, place)
    return value


def check_is_object(value: object, place: str) -> dict:
    """Return an example that must be a JSON object.

    Raises:
        InputError: the example is another value.
    """
    if not isinstance(value, dict):
        raise InputError(f"{place} is {_add_article(_name_type(value))}; expected an object such as {{'text': ...}}")
    return value


def _convert_numbers(value: object, *, is_from_file: bool) -> object:
    """Convert the numbers of a value, or of the items of a list, to strings; if not from a file, booleans too."""

    def convert(value: object) -> object:
        if isinstance(value, bool):
            return value if is_from_file else str(value)
        return _Number(repr(value)) if isinstance(value, int | float) else value

    return [convert(item) for item in value] if isinstance(value, list) else convert(value)


def _parse_object(line: Line, place: str) -> dict:
    """Return the object of a line, with its numbers as strings, spelled as in the file."""
    if line.error is not None:
        raise line.error
    value = parse_json(line.text, place, parse_int=_Number, parse_float=_Number, parse_constant=_refuse_constant)
    if not isinstance(value, dict):
        raise InputError(f"{place}: the line is a JSON {_name_type(value)}; expected an object such as {{'text': ...}}")
    return value


def _get_field(values: dict, field: str, place: str) -> str | list[str]:
    """Return a field of an object as a string or a list of strings."""
    if field not in values:
        raise InputError(
            f"{place}: there is no field {quote(field)}; the fields are {quote_names(values)}: expected every field in "
            "each line"
        )
    value = values[field]
    items = value if isinstance(value, list) else [value]
    wrong = [item for item in items if not isinstance(item, str | bool)]
    if wrong:
        inside = f" with {_add_article(_name_type(wrong[0]))} in it" if isinstance(value, list) else ""
        found = "has no value (null)" if value is None else f"is a JSON {_name_type(value)}{inside}"
        raise InputError(
            f"{place}: the field {quote(field)} {found}; expected a string, a number, true, false or a list of them: "
            "correct it"
        )
    texts = [str(item).lower() if isinstance(item, bool) else str(item) for item in items]
    check_characters("".join(texts), f"the field {quote(field)}", place)
    return texts if isinstance(value, list) else texts[0]


class _Number(str):
    """A JSON number, as spelled in its file."""


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _name_type(value: object) -> str:
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", _Number: "number", type(None): "null"}
    return {**kinds, int: "number", float: "number"}.get(type(value), type(value).__name__)


def _add_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "ao" else f"a {kind}"
