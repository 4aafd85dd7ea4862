"""Compare an artifact with its checkpoint again: exit status 1 if it differs.

ARTIFACT is a SavedModel's folder of a version (OUT/saved_model/1), a .tflite or .onnx file, or a folder that export
wrote: all that is in it.
"""

import argparse
import pathlib

from bert_keras.cli.console.parity_table import add_thorough, parity_table
from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.report import print_result, print_settings
from bert_keras.cli.options.argument_checks import check_all, check_exists
from bert_keras.cli.options.model_folder import read_model
from bert_keras.errors import ParityError
from bert_keras.extras import check_can_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("artifact", type=pathlib.Path, metavar="ARTIFACT", help="what export wrote")
    parser.add_argument("checkpoint", type=pathlib.Path, metavar="CHECKPOINT", help="what it was made of")
    add_thorough(parser)


def _check_runtimes(artifacts: list[pathlib.Path]) -> None:
    """Raises `MissingExtraError` if the runtime of one is not installed."""
    for path in artifacts:
        check_can_run(path.suffix.removeprefix("."))


def run(arguments: argparse.Namespace) -> None:
    from bert_keras.export.targets import find_artifacts

    _, checkpoint = check_all(
        lambda: check_exists(arguments.artifact, "an artifact") or _check_runtimes(find_artifacts(arguments.artifact)),
        lambda: read_model(arguments.checkpoint),
    )
    print_settings("verify", {"artifact": arguments.artifact, "checkpoint": arguments.checkpoint})
    load_tensorflow()
    from bert_keras.export.verify import verify

    verdicts = verify(arguments.artifact, checkpoint, thorough=arguments.thorough)
    result = {"checkpoint": str(arguments.checkpoint), "artifacts": verdicts}
    print_result(parity_table(verdicts).split("\n"), result, as_json=arguments.json)
    if wrong := [name for name, verdict in verdicts.items() if not verdict["passed"]]:
        raise ParityError(f"{', '.join(wrong)} differs from {arguments.checkpoint}: do not use it; export it anew")
