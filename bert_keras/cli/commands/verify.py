"""Repeat the parity check of an artifact with its checkpoint; the exit status is 1 if they differ.

ARTIFACT is the folder of a SavedModel version (OUT/saved_model/1), a .tflite or .onnx file, or an output folder of
export, of which all artifacts are checked.
"""

import argparse

from bert_keras.cli.console import format_parity_table, print_result, print_settings
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options.argument_checks import check_all, check_exists, read_model
from bert_keras.cli.options.declaring import Options
from bert_keras.errors import ParityError
from bert_keras.extras import check_can_run


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_path("artifact", "artifact or folder from export")
    options.add_model("checkpoint", "checkpoint that was exported")
    options.add_thorough()


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from bert_keras.export.targets import find_artifacts

    def check_artifact() -> None:
        check_exists(arguments.artifact, "an artifact")
        for path in find_artifacts(arguments.artifact):
            check_can_run(path.suffix.removeprefix("."))

    _, checkpoint = check_all(check_artifact, lambda: read_model(arguments.checkpoint))
    print_settings("verify", {"artifact": arguments.artifact, "checkpoint": arguments.checkpoint})
    load_tensorflow()
    from bert_keras.export.verify import verify

    reports = verify(arguments.artifact, checkpoint, thorough=arguments.thorough)
    result = {"checkpoint": str(arguments.checkpoint), "artifacts": reports}
    print_result(format_parity_table(reports).split("\n"), result, as_json=arguments.json)
    if different := [name for name, report in reports.items() if not report["passed"]]:
        raise ParityError(
            f"{', '.join(different)} differs from {arguments.checkpoint}: do not use it; run `bert-keras export` again"
        )
