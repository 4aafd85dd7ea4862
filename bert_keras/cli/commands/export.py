"""Export a checkpoint to SavedModel, TFLite and ONNX, and check that the results are equal.

OUT contains saved_model/VERSION, with a new version number for each export, and serving/ for TensorFlow Serving;
tflite/, with files for phones; onnx/, for onnxruntime, transformers.js and optimum, and deploy/, which serves it with
Docker, Kubernetes, KServe or Triton; and parity.json. Every artifact is reloaded in a fresh process and compared with
the checkpoint. If one differs, nothing is written and the exit status is 1.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
from typing import TYPE_CHECKING

from bert_keras.cli.console import (
    ProgressBar,
    Result,
    format_notes,
    format_parity_table,
    print_settings,
)
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options import task_options
from bert_keras.cli.options.argument_checks import check_all, check_exists, read_model
from bert_keras.cli.options.declaring import Options, non_negative_number, positive_integer
from bert_keras.errors import InputError
from bert_keras.extras import check_can_export
from bert_keras.pipelines.corpus.text_sources import find_sources

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.export.settings import ExportSettings

# where the names differ
_OPTIONS_OF_SETTINGS = {"quantizations": "quantize", "examples": "eval", "calibration": "calibrate"}
_GUIDES = {"saved_model": "serving", "onnx": "deploy"}  # format: the folder with the commands to serve it


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_model("checkpoint", "BERT or ELECTRA folder with a WordPiece vocabulary")
    options.add_path("out", "output folder")
    options.add_argument(
        "--to",
        nargs="+",
        choices=["saved_model", "tflite", "onnx"],
        default=["saved_model"],
        help="formats to export to (default saved_model)",
    )
    serving = "oldest version of TensorFlow Serving that must load the SavedModel (default 2.13)"
    options.add_option("--min-serving", str, serving, metavar="VERSION")
    options.add_option("--model-name", str, "name of the served model (default: the name of the checkpoint folder)")
    pairs = "whether the SavedModel takes pairs of texts (default: as in training)"
    options.add_flag("--pairs", pairs, has_negative=True)
    options.add_option(
        "--trim-vocabulary",
        pathlib.Path,
        "keep only special tokens, single characters and the tokens that the texts of FILE use: one text per line, "
        '.jsonl with the field "text", .gz of either, a folder of these, or - for standard input',
    )
    options.add_thorough()
    _add_quantization_options(options)
    group = options.add_group("TFLite")
    group.add_option("--tflite-length", positive_integer, "sequence length (default: that of the task, at most 128)")
    signatures = "also write a file with one signature per length, such as 32 64 128"
    group.add_option("--tflite-lengths", positive_integer, signatures, nargs="+")
    task_options.add_file_options(options)
    task_options.add_on_error(options)
    options.add_overwrite("replace tflite/, onnx/ and deploy/ in OUT; a SavedModel always gets a new version number")


def _add_quantization_options(options: Options) -> None:
    group = options.add_group("quantization of TFLite and ONNX files")
    group.add_argument(
        "--quantize",
        nargs="+",
        choices=["float32", "float16", "dynamic_int8", "dynamic_int4", "auto"],
        help="auto: the smallest TFLite file and the fastest 8-bit ONNX file that score as well as CHECKPOINT on "
        "--eval; otherwise the precisions of TFLite's weights, one file each; dynamic_int4 is the smallest "
        "and the least exact (default: float32, float16 and dynamic_int8)",
    )
    group.add_option("--eval", pathlib.Path, "labelled examples on which the files are evaluated")
    group.add_option("--tolerance", non_negative_number, "score that auto may lose (default 0.5)", metavar="POINTS")
    calibrate = "texts whose activations determine the scales of 8-bit ONNX files with auto (default: those of --eval)"
    group.add_option("--calibrate", pathlib.Path, calibrate)


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    from bert_keras.export.settings import ExportSettings
    from bert_keras.export.targets import check_export_target

    files = (arguments.eval, arguments.calibrate, arguments.trim_vocabulary)
    inputs = [arguments.checkpoint, *filter(None, files)]
    checkpoint, *_ = check_all(
        lambda: read_model(arguments.checkpoint),
        lambda: check_export_target(arguments.out, arguments.to, overwrite=arguments.overwrite, inputs=inputs),
        lambda: _check_format_options(arguments),
        *([lambda: check_exists(arguments.eval, "a file of labelled examples")] if arguments.eval else []),
        *([lambda: check_exists(arguments.calibrate, "a file of texts")] if arguments.calibrate else []),
        *(lambda kind=kind: check_can_export(kind) for kind in arguments.to),
        *([lambda: find_sources(arguments.trim_vocabulary)] if arguments.trim_vocabulary else []),
    )
    examples, skipped = _read_examples(arguments, checkpoint) if arguments.eval else (None, {})
    calibration = _read_calibration(arguments, checkpoint) if arguments.calibrate else None
    settings = _get_settings(arguments) | {"examples": examples, "calibration": calibration}
    checked = ExportSettings(**settings)
    checked.check_formats(arguments.to)
    checked.check_lengths(checkpoint.config.max_sequence_length)
    print_settings("export", _describe_settings(arguments, checked) | skipped)
    load_tensorflow()
    from bert_keras.export.artifacts import export_model

    with ProgressBar("exporting", None, has_rate=False) as bar:
        parity = export_model(
            checkpoint, arguments.out, arguments.to, overwrite=arguments.overwrite, progress=bar.update, **settings
        )
    reports = parity["artifacts"]
    lines = [*format_parity_table(reports).split("\n"), *format_notes(reports)]
    lines.append(f"wrote {arguments.out}: each artifact was compared with the checkpoint in a fresh process")
    guides = [arguments.out / folder / "README.md" for kind, folder in _GUIDES.items() if kind in arguments.to]
    if guides:
        lines.append(f"commands to serve it: {', '.join(map(str, guides))}")
    return lines, {"out": str(arguments.out), **parity}


def _get_settings(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the given fields of `ExportSettings`, except the examples."""
    names = ("min_serving", "model_name", "pairs", "tflite_length", "tolerance", "thorough", "trim_vocabulary")
    given = task_options.get_given_options(arguments, *names)
    if arguments.quantize is not None:
        given["quantizations"] = tuple(arguments.quantize)
    if arguments.tflite_lengths is not None:
        given["tflite_lengths"] = tuple(arguments.tflite_lengths)
    return given


def _check_format_options(arguments: argparse.Namespace) -> None:
    """Raise `InputError` that lists options of formats that are not exported, and file options without `--eval`."""
    from bert_keras.export.settings import SETTING_FORMATS

    problems = []
    for formats, settings in itertools.groupby(SETTING_FORMATS, SETTING_FORMATS.get):
        names = [_OPTIONS_OF_SETTINGS.get(name, name) for name in settings]
        if not set(formats) & set(arguments.to) and (given := task_options.get_given_options(arguments, *names)):
            options = task_options.format_options(given)
            problem = f"{options} is for --to {' or '.join(formats)}, and --to is {' '.join(arguments.to)}"
            problems.append(f"{problem}: leave it out, or add {formats[0]}")
    given = [*task_options.get_given_options(arguments, *task_options.FILE_OPTIONS)]
    given += ["on_error"] if arguments.on_error == "skip" else []
    if given and arguments.eval is None:
        options = task_options.format_options(given)
        problems.append(f"{options} is for the file of --eval: leave it out, or name a file")
    if problems:
        raise InputError("; ".join(problems))


def _describe_settings(arguments: argparse.Namespace, settings: ExportSettings) -> dict[str, object]:
    shown = {"checkpoint": arguments.checkpoint, "out": arguments.out, "to": ", ".join(arguments.to)}
    if arguments.trim_vocabulary:
        shown["trim_vocabulary"] = arguments.trim_vocabulary
    if "saved_model" in arguments.to:
        shown["min_serving"] = settings.min_serving
    if "tflite" in arguments.to or settings.is_automatic:
        shown["quantize"] = ", ".join(settings.quantizations)
        shown |= {"eval": arguments.eval} if arguments.eval else {}
        shown |= {"calibrate": arguments.calibrate} if arguments.calibrate else {}
        shown |= {"tolerance": f"{settings.points_tolerance} points"} if settings.is_automatic else {}
    return shown


def _read_calibration(arguments: argparse.Namespace, checkpoint: Checkpoint) -> list:
    """Read the texts to calibrate on, as examples of the task."""
    from bert_keras.checkpoints.task_loading import read_checkpoint_task
    from bert_keras.heads.examples.file_options import FileOptions
    from bert_keras.heads.examples.prediction_data import read_prediction_data

    examples = list(read_prediction_data(read_checkpoint_task(checkpoint), arguments.calibrate, FileOptions()))
    if error := next((example.error for example in examples if example.error), None):
        raise error
    return [example.example for example in examples]


def _read_examples(arguments: argparse.Namespace, checkpoint: Checkpoint) -> tuple[list, dict[str, object]]:
    """Read the examples on which TFLite files are evaluated; return them and the number skipped, to print."""
    from bert_keras.checkpoints.task_loading import read_checkpoint_task
    from bert_keras.heads.known_heads import find_finetuned_head

    if find_finetuned_head(checkpoint.model) is None:
        raise InputError(f"{arguments.checkpoint} has no task head, so it cannot be evaluated: leave out --eval")
    examples, bad = task_options.read_labelled_examples(arguments, read_checkpoint_task(checkpoint), arguments.eval)
    return examples, task_options.describe_skipped(bad)
