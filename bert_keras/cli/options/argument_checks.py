"""Arguments that several verbs share, and their checks: all problems are collected, then told at once."""

from __future__ import annotations

import argparse
import math
import os
import pathlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from bert_keras.checks import describe_integer, is_integer, quote
from bert_keras.errors import InputError
from bert_keras.publishing import check_holds_no_input

if TYPE_CHECKING:
    from bert_keras.pipelines.corpus.text_sources import TextSource

_LARGEST = 10**12  # of integers on the command line, so that products of two stay in 64 bits
_LARGEST_NUMBER = 1e30  # of others


def check_all(*checks: Callable[[], object]) -> list:
    """Runs every check and returns what they return, or raises one `InputError` that tells every problem once."""
    problems, results = [], []
    for check in checks:
        try:
            results.append(check())
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))
    return results


def check_exists(path: pathlib.Path, what: str) -> None:
    """Raises `InputError` if there is nothing at `path`."""
    if not path.exists():
        raise InputError(f"{path} does not exist; expected {what}: check the path")


def check_unicode(texts: Iterable[str]) -> None:
    """Raise `InputError` if a text from the command line is not in the encoding of the terminal."""
    for text in texts:
        if any("\ud800" <= character <= "\udfff" for character in text):  # how Python hands on what it cannot decode
            raise InputError(f"the text {quote(text)} is not UTF-8; expected UTF-8: put it into a file that is")


def positive_integer(text: str) -> int:
    """An argparse type: an integer >= 1."""
    return _integer(text, 1)


def whole_number(text: str) -> int:
    """An argparse type: an integer >= 0."""
    return _integer(text, 0)


def positive_number(text: str) -> float:
    """An argparse type: a number above 0."""
    return _number(text, lambda value: value > 0, "a number above 0")


def number_from_zero(text: str) -> float:
    """An argparse type: a number from 0."""
    return _number(text, lambda value: value >= 0, "a number from 0")


def _integer(text: str, minimum: int) -> int:
    """Return the integer that `text` spells; argparse prints the error as it is."""
    try:
        value = int(text)
    except ValueError:
        value = None
    if is_integer(value, minimum, _LARGEST):
        return value
    is_too_large = value is not None and value > _LARGEST
    raise argparse.ArgumentTypeError(
        f"{quote(text)} is not {describe_integer(minimum, _LARGEST if is_too_large else None)}"
    )


def _number(text: str, is_valid: Callable[[float], bool], expected: str) -> float:
    """Return the number that `text` spells; argparse prints the error as it is."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if value > _LARGEST_NUMBER:
        expected = f"{expected} to {_LARGEST_NUMBER:,}"
    elif is_valid(value):
        return value
    raise argparse.ArgumentTypeError(f"{quote(text)} is not {expected}")


def add_text(parser: argparse.ArgumentParser) -> None:
    """Adds `--text` and `--field`: what to read."""
    parser.add_argument(
        "--text",
        nargs="+",
        metavar="TEXT",
        help="UTF-8 text, one sentence a line, a blank line between documents: files, folders (searched for .txt .text "
        ".md .jsonl), quoted patterns such as 'books/**/*.txt', - for standard input; gzip is unpacked; default: prose "
        "that ships with Python",
    )
    parser.add_argument(
        "--field", default="text", help="the field of a .jsonl record that holds its text (default %(default)s)"
    )


def add_overwrite(
    parser: argparse.ArgumentParser, text: str = "replace OUT if an earlier run of this command wrote it"
) -> None:
    """Adds `--overwrite`: whether OUT may be replaced."""
    parser.add_argument("--overwrite", action="store_true", help=text)


def find_text(text: list[str] | None, *, out: pathlib.Path) -> list[TextSource] | None:
    """Returns the sources that `--text` names, None if it is not given; none may lie where `out` is written."""
    if text is None:
        return None
    from bert_keras.pipelines.corpus.text_sources import find_sources

    sources = find_sources(text)
    check_holds_no_input(out, [source.path for source in sources if source.path is not None])
    return sources


def num_cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def text_name(text: list[str] | None, sources: list[TextSource] | None) -> str:
    """Says which text is read."""
    from bert_keras.pipelines.corpus.text_sources import PROSE, total_bytes

    if text is None:
        return PROSE

    num_bytes = total_bytes(sources)
    size = "size unknown" if num_bytes is None else f"{num_bytes / 1e6:,.1f} MB"
    names = " ".join("standard input" if name == "-" else name for name in text)
    return f"{names} ({len(sources):,} {'file' if len(sources) == 1 else 'files'}, {size})"
