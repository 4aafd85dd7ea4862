"""Options of the commands that train: TensorBoard, and callbacks of the user or of other packages."""

from __future__ import annotations

import argparse
import pathlib
from typing import TYPE_CHECKING

from bert_keras.cli.options.argument_checks import add_option
from bert_keras.errors import InputError
from bert_keras.training.tracking.named_callbacks import CallbackName

if TYPE_CHECKING:
    import keras


def add_tracking_options(parser: argparse.ArgumentParser) -> None:
    """Add `--tensorboard` and `--callback`."""
    group = parser.add_argument_group("tracking")
    text = "write scalars, settings and examples for TensorBoard to this folder"
    add_option(group, "--tensorboard", pathlib.Path, text, metavar="DIR")
    group.add_argument(
        "--callback",
        action="append",
        default=[],
        metavar="MODULE:NAME[,KEY=VALUE...]",
        help="Keras callback, a class or a function that returns one, such as mlflow.keras:MlflowCallback; modules of "
        "the current folder are found too; repeatable",
    )


def check_tracking(arguments: argparse.Namespace) -> None:
    """Check what can be checked before TensorFlow is loaded.

    Raises:
        InputError: `--tensorboard` names a file, or `--callback` a package that is not installed.
    """
    if arguments.tensorboard is not None and arguments.tensorboard.is_file():
        raise InputError(f"--tensorboard {arguments.tensorboard} is a file; expected a folder: choose another name")
    for text in arguments.callback:
        CallbackName.parse(text).check_installed()


def make_callbacks(arguments: argparse.Namespace) -> list[keras.callbacks.Callback]:
    """Create the callbacks of `--callback`.

    Raises:
        InputError: one cannot be imported or created.
    """
    from bert_keras.training.tracking.named_callbacks import make_callback

    return [make_callback(CallbackName.parse(text)) for text in arguments.callback]
