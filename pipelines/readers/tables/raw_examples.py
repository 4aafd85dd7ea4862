"""What all readers share: the base class of table readers, examples in memory, file formats, and parts of messages.

Reading continues after an invalid example: it is yielded with its error. Errors after which the next example cannot be
found, such as a quote mark that is never closed, are raised.
"""

import abc
import dataclasses
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import name_source
from bert_keras.pipelines.readers.bad_examples import attempt
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag

_MAX_NAMES = 10
_EXPECTED = (
    "a path, a list of dicts such as {'text': ..., 'label': ...}, a list of (text, label) pairs, or a data frame"
)
# field names of tuples
_FIELDS = (("text", "label"), ("text1", "text2", "label"))
_TAGGED = {2: ("words", "tags")}


@dataclasses.dataclass(frozen=True)
class RawExample:
    """One example of a table.

    Attributes:
        line: the number of its first line in the file, from 1; for examples in memory their index, from 0.
        fields: one value per column: a string, or a list of strings if JSON has a list; labels can be numbers.
        error: the error of an invalid example, which has no fields; None: it is valid.
    """

    line: int
    fields: list[str | list[str] | float]
    error: InputError | None = None

    @classmethod
    def attempt(cls, line: int, parse: Callable[..., list], *arguments: object) -> "RawExample":
        """Return the example with the fields that `parse(*arguments)` returns, or with its error."""
        fields, error = attempt(parse, *arguments)
        return cls(line, fields or [], error)


class TableReader(abc.ABC):
    """Reader of a table, example by example.

    Attributes:
        name: the name of the table in messages.
        place: the place of its column names, for messages.
        columns: the column names.
        delimiter: the delimiter of a `.csv` or `.tsv`; None: the table has another format.
        format: "csv", "tsv", or None.
    """

    name: str
    place: str
    columns: list[str]
    delimiter: str | None = None
    format: str | None = None

    def read(self, columns: Sequence[str] | None = None) -> Iterator[RawExample]:
        """Yield the examples; blank lines are skipped. Can be called only once.

        Args:
            columns: the fields to return, in this order; None: all of them, and in JSON lines no others are allowed.

        Raises:
            InputError: the table does not have a column exactly once; while reading, a quote mark is never closed.
        """
        for column in columns or ():
            check_column(column, self.columns, self.place)
        return self._read_fields(columns)

    @abc.abstractmethod
    def _read_fields(self, columns: Sequence[str] | None) -> Iterator[RawExample]:
        """Yield the examples with the fields of `columns`, which the table has; None: all columns."""

    def describe_place(self, line: int) -> str:
        """Return the place of an example for messages."""
        return f"{self.name}, line {line}"


@dataclasses.dataclass(frozen=True)
class ListedExamples:
    """Examples in memory, with named fields.

    Attributes:
        name: their name in messages: that of the argument, or of the file that has the array.
        objects: one value per example, normally a dict of strings, numbers, booleans, lists and None.
        is_from_file: whether they are the array of a JSON file. Its booleans become the strings "true" and "false";
            those in memory become "True" and "False", as in the CSV files of pandas.
    """

    name: str
    objects: Sequence[object]
    is_from_file: bool = False

    def __str__(self) -> str:
        return self.name


Source = str | os.PathLike | ListedExamples


def as_source(given: object, name: str, *, fields: Sequence[str] = ()) -> Source:
    """Convert a user's data to a source that the readers accept.

    Args:
        given: a path; a list of dicts or of (text, label) pairs; another iterable of these, such as a Hugging Face
            dataset; or a data frame of pandas or polars.
        name: its name in messages.
        fields: the field names of tuples of this length; others have a text or a pair, and a label.

    Returns:
        A path unchanged, all else as `ListedExamples`.

    Raises:
        InputError: the data have another type, or no examples.
    """
    if isinstance(given, str | os.PathLike | ListedExamples):
        return given
    if hasattr(given, "to_dicts"):  # polars
        given = given.to_dicts()
    elif hasattr(given, "to_dict") and hasattr(given, "columns"):  # pandas
        given = _with_whole_numbers(given.to_dict("records"))
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise InputError(f"{name} has type {type(given).__name__}; expected {_EXPECTED}")
    by_length = {len(names): names for names in (*_FIELDS, fields)}
    objects = [_check_dict(one, f"{name}[{index}]", by_length) for index, one in enumerate(given)]
    if not objects:
        raise InputError(f"{name} has no examples; expected at least one: pass another list")
    return ListedExamples(name, objects)


def _with_whole_numbers(records: list[dict]) -> list[dict]:
    """Restore the integers of a column that pandas converted to floats because a value is missing."""
    upcast = [name for name in records[0] if _is_upcast([record[name] for record in records])] if records else []
    return [
        {name: int(value) if name in upcast and value == value else value for name, value in record.items()}
        for record in records
    ]


def _is_upcast(values: Sequence[object]) -> bool:
    """Return whether all values are floats, of which some are missing and the others whole."""
    if not all(isinstance(value, float) for value in values):
        return False
    known = [value for value in values if not math.isnan(value)]
    return 0 < len(known) < len(values) and all(value.is_integer() for value in known)


def _check_dict(given: object, place: str, by_length: Mapping[int, Sequence[str]]) -> dict:
    if isinstance(given, Mapping):
        return {str(name): _to_plain(value) for name, value in given.items()}
    if isinstance(given, tuple | list) and given:
        known = _TAGGED if isinstance(given[0], list | tuple) else by_length
        if len(given) in known:
            return dict(zip(known[len(given)], map(_to_plain, given), strict=True))
    raise InputError(f"{place} is {quote(given)}; expected a dict such as {{'text': ..., 'label': ...}}, or a pair")


def _to_plain(value: object) -> object:
    """Convert a value to the types of JSON; missing values of NumPy and pandas become None."""
    if isinstance(value, str | bool | int):
        return value
    if hasattr(value, "tolist"):  # NumPy arrays and numbers
        return _to_plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): _to_plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set):
        return [_to_plain(part) for part in value]
    is_missing = type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value))
    return None if is_missing else value


def describe_place(source: object, number: int) -> str:
    """Return the place of an example for messages: the line in a file from 1, or the index in a list from 0."""
    return f"{source}[{number}]" if isinstance(source, ListedExamples) else f"{source}, line {number}"


def detect_format(
    source: str | os.PathLike, format: str | None, formats: Mapping[str, str], *, spell: Spell = spell_flag
) -> str:
    """Return the format of a file.

    Args:
        source: a file, whose name may end in `.gz`, or "-" for standard input.
        format: the format that the user chose; None: the ending of the file's name decides.
        formats: the supported formats, keyed by file ending.
        spell: spells options in messages.

    Raises:
        InputError: the format is not supported, or the ending is unknown.
    """
    names = list(dict.fromkeys(formats.values()))
    if format is not None:
        if format not in names:
            raise InputError(f"the format is {quote(format)}; expected {join_alternatives(names)}")
        return format
    path, name = name_source(source)
    if path is None:
        streamed = [format for format in names if format != "json"]  # a JSON document is read as a whole
        raise InputError(
            f"{name} has no file ending; expected a format: set {spell('format')} to {join_alternatives(streamed)}"
        )
    ending = get_file_ending(path)
    if ending not in formats:
        has = f"ends in {quote(ending)}" if ending else "has no ending"
        raise InputError(
            f"{name} {has}; expected {join_alternatives(list(formats))}, or one of these with .gz: rename the file, or "
            f"set {spell('format')} to {join_alternatives(names)}"
        )
    return formats[ending]


def get_file_ending(path: pathlib.Path) -> str:
    """Return the ending of a file's name in lower case, with its dot and without `.gz`."""
    return pathlib.Path(path.name.lower().removesuffix(".gz")).suffix


def check_column(name: str, names: Sequence[str], place: str) -> None:
    """Raise `InputError` unless a table has exactly one column `name`; `place` begins the message."""
    if names.count(name) != 1:
        how = "more than one" if name in names else "no"
        raise InputError(
            f"{place}: there is {how} column {quote(name)}; the columns are {quote_names(names)}: name one of them"
        )


def quote_names(names: Iterable[str]) -> str:
    """Return at most ten names for a message, `'a', 'b'`, or `none`."""
    names = list(names)
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return (", ".join(map(quote, names[:_MAX_NAMES])) or "none") + more


def join_alternatives(names: Sequence[str]) -> str:
    """Join names for a message: `a, b or c`."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
