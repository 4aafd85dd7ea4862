"""Strict validation of settings with pydantic: all problems at once, each with its key. No TensorFlow here."""

import contextlib
import dataclasses
import difflib
import functools
import signal
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal

import pydantic
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticKnownError
from typing_extensions import dataclass_transform

from bert_keras.checks import quote
from bert_keras.errors import InputError

_MAX_FAULTS = 8  # listed in one message


def _refuse_numbers(value: object) -> object:
    """Refuse 0 and 1, which a `Literal` accepts as False and True because they are equal."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise PydanticKnownError("literal_error", {"expected": "True, False or 'auto'"})
    return value


# strict: no conversion from a text, a bool or a float with a fraction; an int is a valid float
Count = Annotated[int, Field(strict=True, ge=1, le=2**63 - 1)]
CountOrZero = Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]
Seed = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]
Flag = Annotated[bool, Field(strict=True)]
FlagOrAuto = Annotated[Literal[True, False, "auto"], BeforeValidator(_refuse_numbers)]
Number = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
PositiveNumber = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
BudgetNumber = Annotated[float, Field(strict=True, gt=0, le=1e6, allow_inf_nan=False)]
Rate = Annotated[float, Field(strict=True, ge=0, lt=1)]
PositiveRate = Annotated[float, Field(strict=True, gt=0, lt=1)]
Fraction = Annotated[float, Field(strict=True, ge=0, le=1)]
PositiveFraction = Annotated[float, Field(strict=True, gt=0, le=1)]
Text = Annotated[str, Field(strict=True, pattern=r"^[^\x00]*$")]  # no file name can contain a zero byte

_EXPECTATIONS = {
    "dataclass_type": "input should be a table of settings",
    "tuple_type": "input should be a list",
    "string_pattern_mismatch": "input should be text without a zero byte",
    "string_unicode": "input should be text that UTF-8 can encode",
}


@contextlib.contextmanager
def _deferred_interrupts() -> Iterator[None]:
    """Handle Ctrl-C after the block instead of inside it.

    While pydantic's Rust code builds a class (1 ms; 22 ms for the first), it calls Python, and drops a
    `KeyboardInterrupt` or turns it into another error.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple] = []
    signal.signal(signal.SIGINT, lambda *arguments: received.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if received:
        handler(*received[-1])


@dataclass_transform(frozen_default=True)
def settings(cls: type) -> type:
    """Decorate a class as a frozen pydantic dataclass that raises `InputError` with all its problems.

    A method `conflicts` of the class, if there is one, yields a sentence for each combination of valid values that is
    invalid.

    Example:
        >>> @settings
        ... class Example:
        ...     num_layers: Count = 2
        >>> Example(num_layers=0)
        Traceback (most recent call last):
            ...
        bert_keras.errors.InputError: invalid Example: num_layers is 0: input should be greater than or equal to 1
    """
    with _deferred_interrupts():
        cls = pydantic.dataclasses.dataclass(frozen=True, config={"extra": "forbid"})(cls)
    initialize = cls.__init__

    @functools.wraps(initialize)
    def initialize_or_raise(self, *args, **kwargs):
        try:
            initialize(self, *args, **kwargs)
        except pydantic.ValidationError as error:
            faults = _describe(error, list_fields(cls))
            raise InputError(f"invalid {cls.__name__}: {join_faults(faults)}") from None
        if conflicts := list(getattr(self, "conflicts", list)()):
            raise InputError(join_faults(conflicts))

    cls.__init__ = initialize_or_raise
    return cls


def list_fields(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass."""
    return tuple(field.name for field in dataclasses.fields(kind))


def find_faults(kind: type, values: object, known_keys: Collection[str]) -> list[str]:
    """Validate nested plain values as a class that `settings` decorated.

    Args:
        kind: the class.
        values: nested tables, as TOML returns them.
        known_keys: every valid dotted key, to suggest the nearest one for an unknown key.

    Returns:
        One description for each problem, with its dotted key; an empty list if the values are valid.
    """
    try:
        pydantic.TypeAdapter(kind).validate_python(values)
    except pydantic.ValidationError as error:
        return _describe(error, known_keys)
    return []


def join_faults(faults: Collection[str]) -> str:
    """Join the first descriptions into one message and count the others."""
    faults = list(faults)
    more = [f"and {len(faults) - _MAX_FAULTS:,} more"] if len(faults) > _MAX_FAULTS else []
    return "; ".join([*faults[:_MAX_FAULTS], *more])


def to_plain_values(value: object) -> object:
    """Convert a settings object to nested dicts and lists for TOML and JSON, without the fields that are None."""
    if dataclasses.is_dataclass(value):
        fields = {name: getattr(value, name) for name in list_fields(value)}
        return {name: to_plain_values(one) for name, one in fields.items() if one is not None}
    return [to_plain_values(item) for item in value] if isinstance(value, tuple) else value


def flatten(values: Mapping[str, object], path: str = "") -> dict[str, object]:
    """Return the values of nested tables, keyed by dotted key."""
    flat: dict[str, object] = {}
    for name, value in values.items():
        flat |= flatten(value, f"{path}{name}.") if isinstance(value, Mapping) else {path + name: value}
    return flat


def _describe(error: pydantic.ValidationError, known_keys: Collection[str]) -> list[str]:
    faults: list[str] = []
    for problem in error.errors(include_url=False):
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(".")
        value, kind = problem["input"], problem["type"]
        if kind == "unexpected_keyword_argument":
            names = [f"{key}.{name}" for name in value] if isinstance(value, Mapping) and value else [key]
            for name in names:
                # a suggestion takes about 1 ms, and a file may have thousands of unknown keys
                faults.append(_describe_unknown(name, known_keys if len(faults) < _MAX_FAULTS else ()))
        else:
            expectation = _EXPECTATIONS.get(kind, problem["msg"][:1].lower() + problem["msg"][1:])
            faults.append(f"{key} is {quote(value)}: {expectation}")
    return faults


def _describe_unknown(key: str, known_keys: Collection[str]) -> str:
    by_name = {known.rpartition(".")[2]: known for known in known_keys}  # finds the right name in the wrong table, too
    near = difflib.get_close_matches(key, known_keys, 1) or [
        by_name[name] for name in difflib.get_close_matches(key.rpartition(".")[2], by_name, 1)
    ]
    return f"{quote(key)[1:-1]} is not a setting" + (f"; did you mean {near[0]}?" if near else "")
