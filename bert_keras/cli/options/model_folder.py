"""Read and check model folders before TensorFlow is loaded, which takes seconds; download those of the Hub."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.terminal import print_line
from bert_keras.cli.options.argument_checks import check_exists
from bert_keras.errors import InputError
from bert_keras.hub.names import is_hub_name

if TYPE_CHECKING:
    import argparse

    from bert_keras.checkpoints.checkpoint import Checkpoint


def add_model(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    """Add a positional argument for a model folder or the name of a model on the Hub, with its help."""
    text = f"{text}; or hf://ORG/NAME[@REVISION]"
    parser.add_argument(name, type=parse_model_path, metavar=name.upper(), help=text)


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
