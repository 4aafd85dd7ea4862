"""Export a checkpoint as artifacts, each proven equal in a fresh process.

OUT gets saved_model/VERSION, counted up each time, with serving/, what a TensorFlow Serving needs to serve it;
tflite/, files for phones; onnx/, a folder for onnxruntime, transformers.js and optimum; and parity.json,
the verdicts. If an artifact differs from the checkpoint, none is put there, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bert_keras.cli.console.parity_table import add_thorough, left_out_lines, parity_table, score_lines
from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.report import ProgressBar, print_result, print_settings
from bert_keras.cli.options import task_options
from bert_keras.cli.options.argument_checks import (
    add_overwrite,
    check_all,
    check_exists,
    number_from_zero,
    positive_integer,
)
from bert_keras.cli.options.model_folder import read_model
from bert_keras.errors import InputError
from bert_keras.extras import check_can_export

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.export.settings import ExportSettings

_OF_ARTIFACTS = {
    "saved_model": ("min_serving", "model_name", "pairs"),
    "tflite": ("quantize", "eval", "tolerance", "tflite_length", "tflite_lengths"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint",
        type=pathlib.Path,
        metavar="CHECKPOINT",
        help="a BERT or ELECTRA folder with a WordPiece vocabulary",
    )
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the folder to write to")
    parser.add_argument(
        "--to",
        nargs="+",
        choices=["saved_model", "tflite", "onnx"],
        default=["saved_model"],
        help="which artifacts (default saved_model)",
    )
    parser.add_argument(
        "--min-serving",
        metavar="VERSION",
        help="the oldest TensorFlow Serving that is to load the SavedModel (default 2.13)",
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
    add_thorough(parser)
    group = parser.add_argument_group("TFLite")
    group.add_argument(
        "--quantize",
        nargs="+",
        choices=["float32", "float16", "dynamic_int8", "auto"],
        help="how weights are kept, a file each; auto: the smallest file whose score on --eval is still the model's "
        "(default: all three)",
    )
    group.add_argument("--eval", type=pathlib.Path, metavar="FILE", help="labelled examples to score the files on")
    group.add_argument(
        "--tolerance",
        type=number_from_zero,
        metavar="POINTS",
        help="what auto may lose (default 0.5)",
    )
    group.add_argument(
        "--tflite-length",
        type=positive_integer,
        metavar="TOKENS",
        help="of each row (default: the task's, 128 at most)",
    )
    group.add_argument(
        "--tflite-lengths",
        type=positive_integer,
        nargs="+",
        metavar="TOKENS",
        help="write also a file with a signature for each of several lengths, such as 32 64 128",
    )
    task_options.add_file_options(parser)
    task_options.add_on_error(parser)
    add_overwrite(parser, "replace tflite/ and onnx/ in OUT; a SavedModel always gets the next version")


def run(arguments: argparse.Namespace) -> None:
    from bert_keras.export.settings import ExportSettings
    from bert_keras.export.targets import check_export_target

    checkpoint, *_ = check_all(
        lambda: read_model(arguments.checkpoint),
        lambda: check_export_target(
            arguments.out, arguments.to, overwrite=arguments.overwrite, inputs=_inputs(arguments)
        ),
        lambda: _check_options_of_artifacts(arguments),
        *([lambda: check_exists(arguments.eval, "a file of labelled examples")] if arguments.eval else []),
        *(lambda kind=kind: check_can_export(kind) for kind in arguments.to),
    )
    examples, skipped = _examples(arguments, checkpoint) if arguments.eval else (None, {})
    settings = _settings(arguments) | {"examples": examples}
    checked = ExportSettings(**settings)
    checked.check_lengths(checkpoint.config.max_sequence_length)
    print_settings("export", _shown(arguments, checked) | skipped)
    load_tensorflow()
    from bert_keras.export.artifacts import export_model

    with ProgressBar("exporting", None) as bar:
        parity = export_model(
            checkpoint,
            arguments.out,
            arguments.to,
            overwrite=arguments.overwrite,
            progress=bar.update,
            **settings,
        )
    verdicts = parity["artifacts"]
    tables = [*parity_table(verdicts).split("\n"), *score_lines(verdicts), *left_out_lines(verdicts)]
    lines = [*tables, f"wrote {arguments.out}: each artifact was reloaded in a fresh process"]
    print_result(lines, {"out": str(arguments.out), **parity}, as_json=arguments.json)


def _settings(arguments: argparse.Namespace) -> dict[str, object]:
    """Returns the fields of `ExportSettings` that were given, but for the examples."""
    given = task_options.said(arguments, *_OF_ARTIFACTS["saved_model"], "tflite_length", "tolerance", "thorough")
    if arguments.quantize is not None:
        given["quantizations"] = tuple(arguments.quantize)
    if arguments.tflite_lengths is not None:
        given["tflite_lengths"] = tuple(arguments.tflite_lengths)
    return given


def _check_options_of_artifacts(arguments: argparse.Namespace) -> None:
    """Raises `InputError` that names the options of artifacts that were not asked for, and of a missing --eval."""
    problems = []
    for kind, names in _OF_ARTIFACTS.items():
        if kind not in arguments.to and (given := task_options.said(arguments, *names)):
            found = f"{_named(given)} is for --to {kind}, and --to is {' '.join(arguments.to)}"
            problems.append(f"{found}: leave it out, or add {kind}")
    given = [*task_options.said(arguments, *task_options.FILE_OPTIONS)]
    given += ["on_error"] if arguments.on_error == "skip" else []
    if given and arguments.eval is None:
        problems.append(f"{_named(given)} is for the file of --eval: leave it out, or name a file")
    if problems:
        raise InputError("; ".join(problems))


def _named(options: Iterable[str]) -> str:
    return ", ".join(map(task_options.spelled, options))


def _inputs(arguments: argparse.Namespace) -> list[pathlib.Path]:
    return [arguments.checkpoint, *([arguments.eval] if arguments.eval else [])]


def _shown(arguments: argparse.Namespace, settings: ExportSettings) -> dict[str, object]:
    shown = {"checkpoint": arguments.checkpoint, "out": arguments.out, "to": ", ".join(arguments.to)}
    if "saved_model" in arguments.to:
        shown["min_serving"] = settings.min_serving
    if "tflite" in arguments.to:
        shown["quantize"] = ", ".join(settings.quantizations)
        shown |= {"eval": f"{arguments.eval}, {settings.tolerance} points may be lost"} if arguments.eval else {}
    return shown


def _examples(arguments: argparse.Namespace, checkpoint: Checkpoint) -> tuple[list, dict[str, object]]:
    """Returns the examples of the checkpoint's task that TFLite files are scored on, and in words those skipped."""
    from bert_keras.pipelines.readers.bad_examples import BadExamples
    from bert_keras.tasks.examples.scoring_data import read_scoring_data
    from bert_keras.tasks.task_loading import TASK_CLASSES, read_checkpoint_task

    if checkpoint.model not in TASK_CLASSES:
        raise InputError(f"{arguments.checkpoint} has no task to be scored in: leave --eval out")
    task = read_checkpoint_task(checkpoint)
    task_options.check_options_of_task(arguments, task.name, task.problem)
    task_options.check_ending(arguments.eval, task.name, arguments.format)
    bad = BadExamples(skip=arguments.on_error == "skip")
    examples = read_scoring_data(task, arguments.eval, task_options.file_options(arguments), bad)
    return examples, task_options.skipped_shown(bad)
