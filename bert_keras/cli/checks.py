"""Arguments that several verbs share, and their checks: all problems are collected, then told at once."""

import argparse
import pathlib
from collections.abc import Callable

from bert_keras.errors import InputError


def check_all(*checks: Callable[[], object]) -> None:
    """Runs every check and raises one `InputError` that tells every problem."""
    problems = []
    for check in checks:
        try:
            check()
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise InputError("; ".join(problems))


def check_exists(path: pathlib.Path, what: str) -> None:
    """Raises `InputError` if there is nothing at `path`."""
    if not path.exists():
        raise InputError(f"{path} does not exist; expected {what}: check the path")


def positive_integer(text: str) -> int:
    """An argparse type: a whole number from 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return value


def positive_number(text: str) -> float:
    """An argparse type: a number above 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def add_text(parser: argparse.ArgumentParser) -> None:
    """Adds `--text`: which documents to read."""
    parser.add_argument(
        "--text",
        type=pathlib.Path,
        nargs="+",
        metavar="FILE",
        help="text files, one sentence a line, a blank line between documents; default: prose that ships with Python",
    )


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Adds `--overwrite`: whether OUT may be replaced."""
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")


def documents(text: list[pathlib.Path] | None):
    """Yields the documents of `--text`."""
    from bert_keras.pipelines.corpus import python_documents, read_documents

    return read_documents(text) if text else python_documents()


def text_name(text: list[pathlib.Path] | None) -> str:
    """Says which text is read."""
    return ", ".join(map(str, text)) if text else "the prose that ships with this Python"
