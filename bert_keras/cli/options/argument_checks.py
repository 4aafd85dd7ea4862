"""Argument types, checks and options that many commands share. `check_all` reports all problems at once.

Model folders are read and checked before TensorFlow is loaded, which takes seconds.
"""

from __future__ import annotations

import argparse
import math
import pathlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from bert_keras.checks import describe_integer, is_integer, quote
from bert_keras.cli.console import print_line
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.errors import InputError
from bert_keras.hub.names import is_hub_name
from bert_keras.tasks.engines.cores import count_cores

if TYPE_CHECKING:
    import argparse

    from bert_keras.checkpoints.checkpoint import Checkpoint


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


def add_path(parser: argparse.ArgumentParser, name: str, text: str, **options: object) -> None:
    """Add a positional argument for the path of a file or folder, with its help and other arguments of argparse."""
    parser.add_argument(name, help=text, **{"type": pathlib.Path, "metavar": name.upper(), **options})


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
    parser.add_argument(flag, default=default, help=text + format_default(default), **options)


def format_default(value: object) -> str:
    """Format the default of an option for its help; empty for None."""
    if value is None:
        return ""
    return f" (default {value:g})" if isinstance(value, float) else f" (default {value})"


def add_flag(parser: argparse.ArgumentParser, flag: str, text: str, *, has_negative: bool = False) -> None:
    """Add an option without a value; with `has_negative` also its `--no-` form, and None if neither is given."""
    parser.add_argument(flag, action=argparse.BooleanOptionalAction if has_negative else "store_true", help=text)


def add_repeatable(parser: argparse.ArgumentParser, flag: str, metavar: str, text: str) -> None:
    """Add an option that can be given several times; its value is a list."""
    parser.add_argument(flag, action="append", default=[], metavar=metavar, help=f"{text}; repeatable")


def add_overwrite(parser: argparse.ArgumentParser, text: str = "replace OUT if this command wrote it before") -> None:
    """Add `--overwrite`."""
    add_flag(parser, "--overwrite", text)


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
    text = "compare each artifact on 200 sequences and 100 texts instead of 24 and 16: minutes instead of seconds"
    add_flag(parser, "--thorough", text)


def add_model(parser: argparse.ArgumentParser, name: str, text: str, **options: object) -> None:
    """Add a positional argument for a model folder or the name of a model on the Hub; see `add_path`."""
    add_path(parser, name, f"{text}; or hf://ORG/NAME[@REVISION]", type=parse_model_path, **options)


def parse_model_path(text: str) -> pathlib.Path | str:
    """Argparse type: a path, or a name that starts with `hf://`, of which a path would lose a slash."""
    return text if is_hub_name(text) else pathlib.Path(text)


def read_model(path: pathlib.Path | str, *, needs_vocabulary: bool = True) -> Checkpoint:
    """Read a checkpoint folder except its weights, and check that the weights exist.

    Only Google's and KerasHub's formats need TensorFlow for this.

    Args:
        path: any folder that `bk.load` accepts, or the name of a model on the Hub. A line says that it is downloaded.
        needs_vocabulary: whether a folder without a vocabulary is an error.

    Raises:
        InputError: the folder cannot be used.
    """
    from bert_keras.checkpoints.checkpoint import check_has_vocabulary
    from bert_keras.checkpoints.reading import find_folder, read_checkpoint, read_without_tensorflow

    if is_hub_name(path):
        checkpoint = read_model(find_folder(path, report=print_line), needs_vocabulary=needs_vocabulary)
        checkpoint.hub_name = path
        return checkpoint
    check_exists(path, "a checkpoint folder")
    if path.suffix == ".keras":
        raise InputError(
            f"{path} has no vocabulary; expected a checkpoint folder: convert it with `bert-keras convert`, and add "
            "its vocab.txt"
        )
    checkpoint = read_without_tensorflow(path)
    if checkpoint is None:
        load_tensorflow()
        checkpoint = read_checkpoint(path)
    if needs_vocabulary:
        check_has_vocabulary(checkpoint)
    return checkpoint


def read_any_model(path: pathlib.Path | str) -> Checkpoint | pathlib.Path:
    """Read a checkpoint folder as `read_model` does, also without a vocabulary; return a `.keras` path unchanged."""
    if is_hub_name(path):
        return read_model(path, needs_vocabulary=False)
    check_exists(path, "a BERT folder")
    return path if path.suffix == ".keras" else read_model(path, needs_vocabulary=False)
