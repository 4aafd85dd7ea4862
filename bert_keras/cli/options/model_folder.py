"""Read and check model folders before TensorFlow is loaded, which takes seconds."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.options.argument_checks import check_exists
from bert_keras.errors import InputError

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint


def read_model(path: pathlib.Path, *, needs_vocabulary: bool = True) -> Checkpoint:
    """Read a checkpoint folder except its weights, and check that the weights exist.

    Only Google's and KerasHub's formats need TensorFlow for this.

    Args:
        path: any folder that `bk.load` accepts.
        needs_vocabulary: whether a folder without a vocabulary is an error.

    Raises:
        InputError: the folder cannot be used.
    """
    from bert_keras.checkpoints.checkpoint import check_has_vocabulary
    from bert_keras.checkpoints.reading import read_checkpoint, read_without_tensorflow

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


def read_any_model(path: pathlib.Path) -> Checkpoint | pathlib.Path:
    """Read a checkpoint folder as `read_model` does, also without a vocabulary; return a `.keras` path unchanged."""
    check_exists(path, "a BERT folder")
    return path if path.suffix == ".keras" else read_model(path, needs_vocabulary=False)
