"""Export a checkpoint as an artifact, proven equal in a fresh process."""

import argparse
import pathlib

from bert_keras.cli.checks import add_overwrite, check_all, check_exists
from bert_keras.cli.quiet import load_tensorflow
from bert_keras.cli.report import ProgressBar, print_result, print_settings
from bert_keras.files import check_writable_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=pathlib.Path, metavar="CHECKPOINT", help="any BERT folder with a vocabulary")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the folder to write")
    parser.add_argument(
        "--to",
        nargs="+",
        choices=["saved_model"],
        default=["saved_model"],
        help="which artifacts (default %(default)s)",
    )
    add_overwrite(parser)


def run(arguments: argparse.Namespace) -> None:
    check_all(
        lambda: check_exists(arguments.checkpoint, "a checkpoint folder"),
        lambda: check_writable_target(arguments.out, overwrite=arguments.overwrite),
    )
    print_settings(
        "export",
        {"checkpoint": arguments.checkpoint, "out": arguments.out, "to": ", ".join(arguments.to)},
    )
    load_tensorflow()
    from bert_keras.export.artifacts import export_checkpoint

    with ProgressBar("exporting", "stages") as bar:
        parity = export_checkpoint(
            arguments.checkpoint, arguments.out, arguments.to, overwrite=arguments.overwrite, progress=bar.update
        )
    verdict = parity["artifacts"]["saved_model"]
    sentence = (
        f"wrote {arguments.out}: the SavedModel, reloaded in a fresh process, differs from the checkpoint by at most "
        f"{max(verdict['outputs'].values()):.1e} on {verdict['num_inputs']} inputs "
        f"(tolerance {verdict['tolerance']:.0e})"
    )
    print_result(sentence, {"out": str(arguments.out), **parity}, as_json=arguments.json)
