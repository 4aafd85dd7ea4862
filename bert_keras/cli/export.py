"""Export a checkpoint as artifacts, each proven equal in a fresh process.

OUT gets saved_model/VERSION, counted up each time; serving/, what a TensorFlow Serving needs to serve it; and
parity.json, the verdicts. If an artifact differs from the checkpoint, none is put there, and the exit status is 1.
"""

import argparse
import pathlib

from bert_keras.cli.checks import add_overwrite, check_all, check_exists
from bert_keras.cli.quiet import load_tensorflow
from bert_keras.cli.report import ProgressBar, print_result, print_settings
from bert_keras.cli.verdict_table import verdict_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=pathlib.Path, metavar="CHECKPOINT", help="any BERT folder with a vocabulary")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the folder to write to")
    parser.add_argument(
        "--to",
        nargs="+",
        choices=["saved_model"],
        default=["saved_model"],
        help="which artifacts (default %(default)s)",
    )
    parser.add_argument(
        "--min-serving",
        default="2.13",
        metavar="VERSION",
        help="the oldest TensorFlow Serving that is to load the SavedModel (default %(default)s)",
    )
    parser.add_argument(
        "--model-name", metavar="NAME", help="the name under which it is served (default: the checkpoint folder's)"
    )
    parser.add_argument(
        "--pairs",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether the SavedModel's raw input is a pair of texts (default: as the model was trained)",
    )
    add_overwrite(parser)


def run(arguments: argparse.Namespace) -> None:
    check_all(lambda: check_exists(arguments.checkpoint, "a checkpoint folder"))
    shown = {"checkpoint": arguments.checkpoint, "out": arguments.out, "to": ", ".join(arguments.to)}
    print_settings("export", {**shown, "min_serving": arguments.min_serving})
    load_tensorflow()
    from bert_keras.export.artifacts import check_export_target, export_checkpoint

    check_export_target(arguments.out)
    with ProgressBar("exporting", "stages") as bar:
        parity = export_checkpoint(
            arguments.checkpoint,
            arguments.out,
            arguments.to,
            overwrite=arguments.overwrite,
            progress=bar.update,
            min_serving=arguments.min_serving,
            model_name=arguments.model_name,
            pairs=arguments.pairs,
        )
    sentence = f"{verdict_table(parity['artifacts'])}\nwrote {arguments.out}: each reloaded in a fresh process"
    print_result(sentence, {"out": str(arguments.out), **parity}, as_json=arguments.json)
