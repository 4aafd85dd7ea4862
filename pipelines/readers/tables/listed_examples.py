"""Examples in memory: lists of dicts or tuples, data frames, and the JSON arrays of files."""

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError

_EXPECTED = (
    "a path, a list of dicts such as {'text': ..., 'label': ...}, a list of (text, label) pairs, or a data frame"
)
_PAIR, _TRIPLE = ("text", "label"), ("text1", "text2", "label")  # field names of tuples


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


def describe_place(source: object, number: int) -> str:
    """Return the place of an example for messages: the line in a file from 1, or the index in a list from 0."""
    return f"{source}[{number}]" if isinstance(source, ListedExamples) else f"{source}, line {number}"


def as_source(given: object, name: str, *, pair: Sequence[str] = _PAIR) -> Source:
    """Convert a user's data to a source that the readers accept.

    Args:
        given: a path; a list of dicts or of (text, label) pairs; another iterable of these, such as a Hugging Face
            dataset; or a data frame of pandas or polars.
        name: its name in messages.
        pair: the field names of tuples of two.

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
    objects = [_check_dict(one, f"{name}[{index}]", pair) for index, one in enumerate(given)]
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


def _check_dict(given: object, place: str, pair: Sequence[str]) -> dict:
    if isinstance(given, Mapping):
        return {str(name): _to_plain(value) for name, value in given.items()}
    if isinstance(given, tuple | list) and len(given) in (2, 3):
        names = pair if len(given) == 2 else _TRIPLE
        names = ("words", "tags") if isinstance(given[0], list | tuple) else names
        return dict(zip(names, map(_to_plain, given), strict=True))
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
