"""Checks of arguments and of values read from JSON or TOML files, which may come from anyone.

Every reader of such a file gets its values from `read_field` or `check_value`, its file names from `resolve_inside`,
and quotes values in messages with `quote`, so that a wrong value is one short `InputError`.
"""

import math
import numbers
import pathlib
import reprlib
import types
import typing
from collections.abc import Collection, Mapping

from bert_keras.errors import InputError

_REQUIRED = object()  # marks a field without a default
_LARGEST = 2**63 - 1  # int64, the widest integer of NumPy and TensorFlow
_MAX_NAME_BYTES, _MAX_PATH_BYTES = 255, 1024  # limits of Linux, macOS and Windows

_short = reprlib.Repr()
_short.maxlevel, _short.maxdict, _short.maxlist, _short.maxtuple = 2, 3, 4, 4
_short.maxstring, _short.maxlong, _short.maxother = 80, 40, 80

_ONE = {bool: "true or false", str: "a string", dict: "an object", list: "a list"}
_MANY = {bool: "true or false values", int: "integers", float: "numbers", str: "strings", dict: "objects"}


def quote(value: object) -> str:
    """Format a value for a message: in quotes, control characters escaped, shortened to about 80 characters.

    Example:
        >>> quote("x" * 70_000)[:5]
        "'xxxx"
    """
    try:
        return _short.repr(value)
    except ValueError:  # Python does not print integers of more than 4,300 digits; in TOML they can be hexadecimal
        return "a value with a number of more than 4,300 digits"


def format_names(names: Collection[str], most: int = 3) -> str:
    """Format names for a message: escaped, shortened, and no more than `most` of them: `a, b, c and 2 more`."""
    listed = ", ".join(quote(name)[1:-1] for name in list(names)[:most])
    return listed + (f" and {len(names) - most:,} more" if len(names) > most else "")


def format_count(number: int, noun: str) -> str:
    """Format a number with its noun: `1 document`, `2,000 documents`."""
    return f"{number:,} {noun}" + "s" * (number != 1)


def read_field(
    values: Mapping[str, object],
    name: str,
    kind: type | types.GenericAlias,
    *,
    source: object,
    default: object = _REQUIRED,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Collection | None = None,
) -> typing.Any:
    """Return a field of a JSON object or TOML table after checking its type and range.

    Args:
        values: the object.
        name: the key of the field.
        kind: `bool`, `int`, `float` (accepts integers too), `str`, `dict`, `list`, or a list or object of one of
            these: `list[str]`, `dict[str, int]`.
        source: the file, for the message; "config.json, under 'task_specific_params'" for example.
        default: returned if the key is missing; without a default the key is required. None also allows null.
        minimum: the smallest valid number.
        maximum: the largest valid number; integers end at 2**63 - 1 in any case.
        choices: the valid values.

    Raises:
        InputError: the key is missing, or its value has another type, is out of range, NaN, infinite, or not Unicode.

    Example:
        >>> read_field({"hidden_size": 768}, "hidden_size", int, source="config.json", minimum=1)
        768
    """
    if name not in values:
        if default is _REQUIRED:
            expected = _describe(kind, minimum, maximum, choices)
            raise InputError(
                f"{source} lacks {format_names([name])}; expected {expected}: restore the file from its source"
            )
        return default
    if values[name] is None and default is None:
        return None
    return check_value(values[name], kind, name=name, source=source, minimum=minimum, maximum=maximum, choices=choices)


def check_value(
    value: object,
    kind: type | types.GenericAlias,
    *,
    name: str,
    source: object,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Collection | None = None,
) -> typing.Any:
    """Return a value after checking its type and range; the arguments are those of `read_field`.

    Raises:
        InputError: the value has another type, or is out of range.
    """
    outer, inner = typing.get_origin(kind) or kind, typing.get_args(kind)
    is_valid = _has_type(value, outer)
    if is_valid and inner:
        items = value if outer is list else value.values()
        is_valid = all(_has_type(item, inner[-1]) for item in items)
    if is_valid and outer in (int, float):
        is_valid = (minimum is None or value >= minimum) and (maximum is None or value <= maximum)
    if is_valid and choices is not None:
        is_valid = value in choices
    if not is_valid:
        expected = _describe(kind, minimum, maximum, choices)
        raise InputError(
            f"{source} sets {format_names([name])} to {quote(value)}; expected {expected}: correct it, or restore the "
            "file from its source"
        )
    return float(value) if kind is float else value


def is_integer(value: object, minimum: float = -math.inf, maximum: float = math.inf) -> bool:
    """Whether a value is an integer of Python or NumPy in a range, both ends included; a boolean is not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and minimum <= value <= maximum


def check_integer(name: str, value: object, minimum: int = 1, maximum: int | None = None) -> int:
    """Return an argument as an `int`.

    Args:
        name: the argument's name, for the message.
        value: the argument.
        minimum: the smallest valid value.
        maximum: the largest valid value; None: no limit.

    Raises:
        InputError: the value is not an integer, or is out of range.

    Example:
        >>> check_integer("batch_size", 32)
        32
    """
    if not is_integer(value, minimum, math.inf if maximum is None else maximum):
        raise InputError(f"{name} is {quote(value)}; expected {describe_integer(minimum, maximum)}")
    return int(value)


def describe_integer(minimum: int | None = None, maximum: int | None = None) -> str:
    """Return the integers of a range for a message: `an integer >= 1`, `an integer from 1 to 1,000`."""
    return "an integer" + _describe_bounds(minimum, maximum)


def resolve_inside(folder: pathlib.Path, name: object, *, source: object) -> pathlib.Path:
    """Return the path of a file that another file names, after checking that it is inside `folder`.

    Symbolic links in the folder are followed: the user made them.

    Raises:
        InputError: the name is not a string, absolute, leaves the folder through "..", or is not a valid file name.
    """
    is_name = isinstance(name, str) and _is_unicode(name) and "\0" not in name and "\\" not in name
    if is_name:
        is_short = len(name.encode()) <= _MAX_PATH_BYTES
        is_short = is_short and all(len(part.encode()) <= _MAX_NAME_BYTES for part in name.split("/"))
        is_absolute = name.startswith("/") or bool(pathlib.PureWindowsPath(name).drive)
    if not is_name or not is_short or is_absolute or ".." in name.split("/"):
        raise InputError(
            f"{source} names {quote(name)}; expected a path inside {folder}, without '..': "
            "restore the file from its source"
        )
    return folder / name


def _has_type(value: object, kind: type) -> bool:
    if kind is int:
        return isinstance(value, int) and is_integer(value, -_LARGEST, _LARGEST)
    if kind is float:
        return _has_type(value, int) or (isinstance(value, float) and math.isfinite(value))
    if kind is str:
        return isinstance(value, str) and _is_unicode(value)
    return isinstance(value, kind)


def _is_unicode(text: str) -> bool:
    """Whether a string can be encoded as UTF-8; half of a surrogate pair, which JSON can escape, cannot."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _describe(
    kind: type | types.GenericAlias, minimum: float | None, maximum: float | None, choices: Collection | None
) -> str:
    if choices is not None:
        return f"one of {', '.join(str(choice) for choice in choices)}"
    outer, inner = typing.get_origin(kind) or kind, typing.get_args(kind)
    if inner:
        return f"{_ONE[outer]} of {_MANY[inner[-1]]}"
    if outer not in (int, float):
        return _ONE[outer]
    return ("an integer" if outer is int else "a number") + _describe_bounds(minimum, maximum)


def _describe_bounds(minimum: float | None, maximum: float | None) -> str:
    if minimum is None:
        return "" if maximum is None else f" <= {maximum:,}"
    return f" >= {minimum:,}" if maximum is None else f" from {minimum:,} to {maximum:,}"
