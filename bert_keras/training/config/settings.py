"""Settings that are read strictly: frozen dataclasses whose fields say what they take. No TensorFlow here.

A field is made with one of the functions below; its check turns a raw value (from TOML, a flag or Python) into
the field's own, or says what it expected. All faults of a table are told at once.
"""

import dataclasses
import difflib
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from bert_keras.checks import describe_integer, is_integer, quote
from bert_keras.errors import InputError

Check = Callable[[object], object]

_MOST_FAULTS = 8  # told in one message
_NO_TEXT = re.compile("[\0\ud800-\udfff]")  # TOML and flags can spell them, no file in UTF-8 can hold them


class UnexpectedValueError(Exception):
    """A raw value is not what its field takes; the message is what was expected."""


class Settings:
    """Base of the tables: checks every field, also when built in Python."""

    def __post_init__(self):
        faults, values = [], {}
        for field in dataclasses.fields(self):
            values[field.name] = _checked(field, getattr(self, field.name), field.name, faults)
        if faults:
            raise InputError(f"{type(self).__name__} cannot be built: {listed(faults)}")
        for name, value in values.items():
            object.__setattr__(self, name, value)


def whole(default: int | None, *, minimum: int = 1, maximum: int = 2**63 - 1):
    """A field for a whole number. With the default None it may be left unsaid."""
    expected = describe_integer(minimum, None if maximum == 2**63 - 1 else maximum)

    def check(value: object) -> int:
        if not is_integer(value, minimum, maximum):
            raise UnexpectedValueError(expected)
        return int(value)

    return _field(default, check)


def number(
    default: float | None,
    *,
    above: float | None = None,
    minimum: float = 0.0,
    below: float = math.inf,
    maximum: float | None = None,
):
    """A field for a number from `minimum`, or above `above`; to below `below`, or to `maximum`."""
    begin = f"from {minimum:g}" if above is None else f"above {above:g}"
    end = f" to {maximum:g}" if maximum is not None else "" if below == math.inf else f" to below {below:g}"

    def check(value: object) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_begun = is_number and (value >= minimum if above is None else value > above)
        if not is_begun or not (value < below if maximum is None else value <= maximum):
            raise UnexpectedValueError(f"a number {begin}{end}")
        try:
            return float(value)
        except OverflowError:  # a whole number of hundreds of digits
            raise UnexpectedValueError(f"a number {begin}{end}") from None

    return _field(default, check)


def choice(default: str | None, names: Collection[str]):
    """A field for one of some names."""

    def check(value: object) -> str:
        if not isinstance(value, str) or value not in names:
            raise UnexpectedValueError(f"one of {', '.join(names)}")
        return value

    return _field(default, check)


def text(default: str | None):
    """A field for a string."""

    def check(value: object) -> str:
        if not isinstance(value, str) or _NO_TEXT.search(value):
            raise UnexpectedValueError("a string")
        return value

    return _field(default, check)


def flag(default: bool, *, or_names: Collection[str] = ()):
    """A field for true or false, or one of some names."""

    def check(value: object) -> bool | str:
        if not isinstance(value, bool) and not (isinstance(value, str) and value in or_names):
            raise UnexpectedValueError(" or ".join(["true", "false", *map(repr, or_names)]))
        return value

    return _field(default, check)


def several(default: tuple, one: dataclasses.Field, *, length: int | None = None):
    """A field for a list; `one` is the field of one item, `length` how many there must be (None: one or more)."""

    def check(value: object) -> tuple:
        if not isinstance(value, list | tuple) or not value or length not in (None, len(value)):
            raise UnexpectedValueError(f"a list of {'one or more' if length is None else length} items")
        try:
            return tuple(one.metadata["check"](item) for item in value)
        except UnexpectedValueError as error:
            raise UnexpectedValueError(f"a list in which each item is {error}") from error

    return _field(default, check)


def read_table(table: type, raw: object, path: str, all_keys: Collection[str]) -> tuple[dict, list[str]]:
    """Checks a raw table against the fields of `table`.

    Args:
        table: a subclass of `Settings`.
        raw: what was given.
        path: the table's name in front of its keys, such as "optimizer."; "" for the top level.
        all_keys: every dotted key there is, to name the nearest where one is unknown.

    Returns:
        The checked values that were given, and the faults, each naming its key.
    """
    if not isinstance(raw, Mapping):
        return {}, [f"{path.rstrip('.')} is {quote(raw)}, expected a table of settings"]
    fields = {field.name: field for field in dataclasses.fields(table)}
    faults = unknown_keys([path + name for name in raw if name not in fields], all_keys)
    values = {name: _checked(fields[name], value, path + name, faults) for name, value in raw.items() if name in fields}
    return values, faults


def listed(faults: Sequence[str]) -> str:
    """Return the first faults in one sentence, and how many more there are."""
    more = [f"and {len(faults) - _MOST_FAULTS:,} more"] if len(faults) > _MOST_FAULTS else []
    return "; ".join([*faults[:_MOST_FAULTS], *more])


def unknown_keys(keys: Sequence[str], all_keys: Collection[str]) -> list[str]:
    """Return a fault for each unknown key; the first ones name the key that may have been meant, which takes time."""
    told = [_unknown_key(key, all_keys) for key in keys[:_MOST_FAULTS]]
    return told + [f"{quote(key)[1:-1]} is not a setting" for key in keys[_MOST_FAULTS:]]


def _unknown_key(key: str, all_keys: Collection[str]) -> str:
    last = {known.rpartition(".")[2]: known for known in all_keys}  # also the right name in the wrong table
    near = difflib.get_close_matches(key, all_keys, 1) or [
        last[name] for name in difflib.get_close_matches(key.rpartition(".")[2], last, 1)
    ]
    return f"{quote(key)[1:-1]} is not a setting" + (f"; did you mean {near[0]}?" if near else "")


def said(settings: Settings) -> Iterator[tuple[str, object]]:
    """Yields the fields of a table that hold something, with plain values that TOML can write."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if value is not None:
            yield field.name, list(value) if isinstance(value, tuple) else value


def _field(default, check: Check):
    return dataclasses.field(default=default, metadata={"check": check})


def _checked(field: dataclasses.Field, value: object, key: str, faults: list[str]) -> object:
    """Returns the checked value; a fault is added where it is not what the field takes."""
    if "check" not in field.metadata or (value is None and field.default is None):
        return value
    try:
        return field.metadata["check"](value)
    except UnexpectedValueError as expected:
        faults.append(f"{key} is {quote(value)}, expected {expected}")
        return None
