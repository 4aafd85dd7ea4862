"""Argument types, checks and options that many commands share. `check_all` reports all problems at once."""

from __future__ import annotations

import argparse
import math
import pathlib
from collections.abc import Callable, Iterable

from bert_keras.checks import describe_integer, is_integer, quote
from bert_keras.errors import InputError
from bert_keras.tasks.engines.cores import count_cores

_MAX_INTEGER = 10**12  # so that the product of two fits into 64 bits
_MAX_NUMBER = 1e30


def check_all(*checks: Callable[[], object]) -> list:
    """Run all checks and return their results.

    Raises:
        InputError: at least one check failed; the message lists all problems, each once.
    """
    problems, results = [], []
    for check in checks:
        try:
            results.append(check())
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    return results


def check_exists(path: pathlib.Path, expected: str) -> None:
    """Raise `InputError` if `path` does not exist; `expected` describes what it should be."""
    if not path.exists():
        raise InputError(f"{path} does not exist; expected {expected}: check the path")


def check_unicode(texts: Iterable[str]) -> None:
    """Raise `InputError` if a text from the command line is not valid UTF-8."""
    for text in texts:
        if any("\ud800" <= character <= "\udfff" for character in text):  # Python decodes invalid bytes to surrogates
            raise InputError(f"the text {quote(text)} is not UTF-8; expected UTF-8: write it to a UTF-8 file")


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


def add_path(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    """Add a positional argument for the path of a file or folder, with its help."""
    parser.add_argument(name, type=pathlib.Path, metavar=name.upper(), help=text)


def add_option(
    parser: argparse.ArgumentParser,
    flag: str,
    kind: Callable | tuple[str, ...],
    text: str,
    default: object = None,
    **options: object,
) -> None:
    """Add an option with a value. Its default, if there is one, is appended to the help.

    Args:
        parser: parser or argument group.
        flag: the option, such as `--batch-size`.
        kind: function that parses the value, or the tuple of valid values.
        text: help of the option.
        default: value without the option.
        **options: other arguments of `add_argument`. The default `metavar` is FILE for paths, N for numbers.
    """
    if isinstance(kind, tuple):
        options["choices"] = kind
    else:
        metavar = {pathlib.Path: "FILE", str: "NAME"}.get(kind, "N")
        options = {"type": kind, "metavar": metavar, **options}
    if default is not None:
        text += f" (default {default:g})" if isinstance(default, float) else f" (default {default})"
    parser.add_argument(flag, default=default, help=text, **options)


def add_overwrite(parser: argparse.ArgumentParser, text: str = "replace OUT if this command wrote it before") -> None:
    """Add `--overwrite`."""
    parser.add_argument("--overwrite", action="store_true", help=text)


def add_workers(parser: argparse.ArgumentParser, purpose: str, max_workers: int) -> None:
    """Add `--workers`, by default the number of CPU cores up to `max_workers`."""
    parser.add_argument(
        "--workers",
        type=positive_integer,
        default=min(count_cores(), max_workers),
        metavar="N",
        help=f"number of {purpose}; does not affect the result (default: the number of cores, at most {max_workers})",
    )


def add_thorough(parser: argparse.ArgumentParser) -> None:
    """Add `--thorough`, which selects the large set of probe inputs for parity checks."""
    parser.add_argument(
        "--thorough",
        action="store_true",
        help="compare each artifact on 200 sequences and 100 texts instead of 24 and 16: minutes instead of seconds",
    )
