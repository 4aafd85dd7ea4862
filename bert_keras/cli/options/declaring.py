"""`Options`, with which a command declares its arguments, and the types of their values."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import inspect
import math
import pathlib
import re
import typing
from collections.abc import Callable, Collection
from types import NoneType

from bert_keras.checks import describe_integer, is_integer, quote
from bert_keras.engines.cores import count_cores
from bert_keras.hub.names import is_hub_name
from bert_keras.pipelines.readers.option_spelling import spell_flag

_MAX_INTEGER = 10**12  # so that the product of two fits into 64 bits
_MAX_NUMBER = 1e30
# `shtab.FILE`: the function of each shell's script that completes files and folders; a test compares them
FILES = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}
# an entry of a section of a docstring: names of fields, and a text of one or more lines
_ENTRY = re.compile(r"^ {4}([a-z][a-z_0-9, ]*): (.*(?:\n {5,}.*)*)", re.MULTILINE)


def positive_integer(text: str) -> int:
    """Argparse type: an integer >= 1."""
    return _parse_integer(text, 1)


def non_negative_integer(text: str) -> int:
    """Argparse type: an integer >= 0."""
    return _parse_integer(text, 0)


def positive_number(text: str) -> float:
    """Argparse type: a number > 0."""
    return _parse_number(text, lambda value: value > 0, "a number above 0")


def non_negative_number(text: str) -> float:
    """Argparse type: a number >= 0."""
    return _parse_number(text, lambda value: value >= 0, "a number from 0")


def _parse_integer(text: str, minimum: int) -> int:
    """Convert `text` to an integer, or raise the error that argparse prints."""
    try:
        value = int(text)
    except ValueError:
        value = None
    if is_integer(value, minimum, _MAX_INTEGER):
        return value
    is_too_large = value is not None and value > _MAX_INTEGER
    raise argparse.ArgumentTypeError(
        f"{quote(text)} is not {describe_integer(minimum, _MAX_INTEGER if is_too_large else None)}"
    )


def _parse_number(text: str, is_valid: Callable[[float], bool], expected: str) -> float:
    """Convert `text` to a number, or raise the error that argparse prints."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if value > _MAX_NUMBER:
        expected = f"{expected} to {_MAX_NUMBER:,}"
    elif is_valid(value):
        return value
    raise argparse.ArgumentTypeError(f"{quote(text)} is not {expected}")


def parse_model_path(text: str) -> pathlib.Path | str:
    """Argparse type: a path, or a name that starts with `hf://`, of which a path would lose a slash."""
    return text if is_hub_name(text) else pathlib.Path(text)


class Options:
    """The arguments and options of a command, or of one group of its help.

    Args:
        parser: parser or argument group of argparse.
    """

    def __init__(self, parser: argparse.ArgumentParser):
        self.parser = parser

    def add_argument(self, *names: str, **options: object) -> None:
        """Add an argument, as argparse does; shells complete the paths of files and folders."""
        action = self.parser.add_argument(*names, **options)
        if action.type in (pathlib.Path, parse_model_path):
            action.complete = FILES  # shtab reads this attribute

    def add_group(self, title: str) -> Options:
        """Add a group with a title, and return it."""
        return Options(self.parser.add_argument_group(title))

    def add_path(self, name: str, text: str, **options: object) -> None:
        """Add a positional argument for the path of a file or folder, with its help and other arguments of argparse."""
        self.add_argument(name, help=text, **{"type": pathlib.Path, "metavar": name.upper(), **options})

    def add_model(self, name: str, text: str, **options: object) -> None:
        """Add a positional argument for a model folder or the name of a model on the Hub; see `add_path`."""
        self.add_path(name, f"{text}; or hf://ORG/NAME[@REVISION]", type=parse_model_path, **options)

    def add_option(
        self, flag: str, kind: Callable | tuple[str, ...], text: str, default: object = None, **options: object
    ) -> None:
        """Add an option with a value. Its default, if there is one, is appended to the help.

        Args:
            flag: the option, such as `--batch-size`.
            kind: function that parses the value, or the tuple of valid values.
            text: help of the option.
            default: value without the option.
            **options: other arguments of `add_argument`. The default `metavar` is FILE for paths, NAME for texts, N for
                numbers.
        """
        if isinstance(kind, tuple):
            options["choices"] = kind
        else:
            metavar = {pathlib.Path: "FILE", str: "NAME"}.get(kind, "N")
            options = {"type": kind, "metavar": metavar, **options}
        self.add_argument(flag, default=default, help=text + format_default(default), **options)

    def add_setting(
        self,
        settings: type,
        name: str,
        kind: Callable | tuple[str, ...] | None = None,
        flag: str | None = None,
        **options: object,
    ) -> None:
        """Add an option for a field of a settings class, with the text about it in the docstring as help.

        The value is None if the option was not given; the help names the default of the field.

        Args:
            settings: a dataclass.
            name: the field.
            kind: see `add_option`; `bool` adds an option without a value and its `--no-` form. Default:
                derived from the type of the field. The settings class checks the range.
            flag: the option, if its name is not that of the field.
            **options: other arguments of `add_argument`.
        """
        [field] = [field for field in dataclasses.fields(settings) if field.name == name]
        flag, kind = flag or spell_flag(name), kind or _find_kind(field.type)
        text, _, described = describe_fields(settings)[name].rstrip(".").partition(". Default: ")
        fields = [field.name for field in dataclasses.fields(settings)]
        text, described = (_spell_fields(part, fields).replace("%", "%%") for part in (text, described))
        if kind is bool:
            self.add_flag(flag, text, has_negative=True)
            return
        if field.default is None and described:
            text += f" (default{':' * (' ' in described)} {described})"
        else:
            text += format_default(field.default)
        self.add_option(flag, kind, text, **{"dest": name, **options})

    def add_flag(self, flag: str, text: str, *, has_negative: bool = False) -> None:
        """Add an option without a value; with `has_negative` also its `--no-` form, and None if neither is given."""
        self.add_argument(flag, action=argparse.BooleanOptionalAction if has_negative else "store_true", help=text)

    def add_repeatable(self, flag: str, metavar: str, text: str) -> None:
        """Add an option that can be given several times; its value is a list."""
        self.add_argument(flag, action="append", default=[], metavar=metavar, help=f"{text}; repeatable")

    def add_overwrite(self, text: str = "replace OUT if this command wrote it before") -> None:
        """Add `--overwrite`."""
        self.add_flag("--overwrite", text)

    def add_workers(self, purpose: str, max_workers: int) -> None:
        """Add `--workers`, by default the number of CPU cores up to `max_workers`."""
        default = f"(default: the number of cores, at most {max_workers})"
        self.add_argument(
            "--workers",
            type=positive_integer,
            default=min(count_cores(), max_workers),
            metavar="N",
            help=f"number of {purpose}; does not affect the result {default}",
        )

    def add_thorough(self) -> None:
        """Add `--thorough`, which selects the large set of probe inputs for parity checks."""
        text = "compare each artifact on 200 sequences and 100 texts instead of 24 and 16: minutes instead of seconds"
        self.add_flag("--thorough", text)


def _find_kind(annotation: object) -> Callable | tuple[str, ...]:
    """Return how values of a field are parsed, see `Options.add_setting`."""
    from bert_keras.training.config import settings

    kinds = (
        (settings.Flag, bool),
        (settings.Count, positive_integer),
        (settings.CountOrZero, non_negative_integer),
        (settings.Seed, non_negative_integer),
        (settings.PositiveNumber, positive_number),
        (settings.BudgetNumber, positive_number),
        (settings.Text, str),
    )
    if NoneType in typing.get_args(annotation):
        [annotation] = [one for one in typing.get_args(annotation) if one is not NoneType]
    if typing.get_origin(annotation) is typing.Literal:
        return typing.get_args(annotation)
    return next((parse for known, parse in kinds if known == annotation), float)


@functools.cache
def describe_fields(settings: type) -> dict[str, str]:
    """Return the text about each field of a dataclass, from the docstrings of the class and its bases."""
    described: dict[str, str] = {}
    for one in reversed(settings.__mro__):
        for names, text in _ENTRY.findall(inspect.cleandoc(one.__doc__ or "")):
            described |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return described


def _spell_fields(text: str, fields: Collection[str]) -> str:
    """Replace names in backticks by options, where they are fields."""
    return re.sub("`([^`]+)`", lambda name: spell_flag(name[1]) if name[1] in fields else name[1], text)


def format_default(value: object) -> str:
    """Format the default of an option for its help; empty for None."""
    if value is None:
        return ""
    return f" (default {value:g})" if isinstance(value, float) else f" (default {value})"
