"""Checks of arguments that many commands share. `check_all` reports all problems at once.

Model folders are read and checked before TensorFlow is loaded, which takes seconds.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from bert_keras.checks import quote
from bert_keras.cli.console import print_line
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.errors import InputError
from bert_keras.hub.names import is_hub_name

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint


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
