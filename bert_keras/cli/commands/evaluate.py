"""Evaluate a checkpoint on labelled examples, or a masked LM on records or texts.

FILE has one of the formats of finetune; on its held-out file, the scores equal those in metrics.json. For a model with
a masked-LM head, FILE is a records folder (loss, accuracy, perplexity) or a file of texts (pseudo-perplexity).
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert_keras.checks import format_count
from bert_keras.cli.commands.evaluate_masked_lm import (
    add_options,
    check_no_masked_lm_options,
    evaluate_masked_lm,
    is_masked_lm,
)
from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.report import ProgressBar, print_result, print_settings
from bert_keras.cli.options import task_options
from bert_keras.cli.options.argument_checks import add_option, add_path, check_all, check_exists
from bert_keras.cli.options.model_folder import add_model, read_model
from bert_keras.errors import InputError
from bert_keras.files import format_json
from bert_keras.publishing import check_writable_file, publish_file

if TYPE_CHECKING:
    from bert_keras.tasks.base import Task


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model(parser, "checkpoint", "fine-tuned or pretrained checkpoint folder")
    add_path(parser, "file", "labelled examples; for a masked LM, a records folder or texts")
    add_option(parser, "--out", pathlib.Path, "write the scores to this JSON file")
    add_option(parser, "--plot", pathlib.Path, "draw the confusion matrix to this PNG file")
    task_options.add_length_options(parser, length="as in training", overlap="as in training")
    task_options.add_prompt(parser, default="the model's default prompt")
    task_options.add_file_options(parser)
    task_options.add_on_error(parser)
    add_options(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    outs = [path for path in (arguments.out, arguments.plot) if path is not None]
    from bert_keras.pipelines.readers.bad_examples import BadExamples
    from bert_keras.tasks.examples.scoring_data import find_labelled_columns, read_scoring_data
    from bert_keras.tasks.task_loading import read_checkpoint_task

    inputs = [arguments.checkpoint, arguments.file]
    checkpoint, *_ = check_all(
        lambda: read_model(arguments.checkpoint),
        lambda: check_exists(arguments.file, "a file of labelled examples or texts, or a records folder"),
        *(lambda path=path: check_writable_file(path, overwrite=arguments.overwrite, inputs=inputs) for path in outs),
        lambda: _check_distinct(outs),
    )
    if is_masked_lm(checkpoint):
        return evaluate_masked_lm(arguments, checkpoint)
    lengths = task_options.get_given_options(arguments, "max_sequence_length", "window_overlap")
    task = task_options.select_prompt(arguments, read_checkpoint_task(checkpoint, **lengths))
    check_all(
        lambda: task_options.check_options_of_task(arguments, task.name, task.problem),
        lambda: check_no_masked_lm_options(arguments),
        lambda: task_options.check_extension(arguments.file, task.name, arguments.format),
        *([lambda: task_options.check_can_plot(task)] if arguments.plot else []),
    )
    files = task_options.get_file_options(arguments)
    bad = BadExamples(skip=arguments.on_error == "skip")
    examples = read_scoring_data(task, arguments.file, files, bad)
    columns = task_options.describe_columns(find_labelled_columns(task, arguments.file, files))
    columns |= task_options.describe_skipped(bad)
    print_settings("evaluate", _describe_settings(arguments, task, len(examples), columns))
    load_tensorflow()
    from bert_keras.tasks.predictor import Predictor

    predictor = Predictor.from_checkpoint(checkpoint, **lengths, **task_options.get_selected_prompt(task))
    with ProgressBar("evaluating", "examples") as bar:
        answers = predictor.answer(examples, progress=bar.update)
    _print_scores(arguments, task, answers, examples, bad.num_bad)


def _print_scores(
    arguments: argparse.Namespace, task: Task, answers: Sequence, examples: Sequence, num_skipped: int
) -> None:
    """Print the scores, and write them and the confusion matrix to the given files."""
    scores = task.score(answers, examples)
    if arguments.out:
        _write(arguments.out, format_json(scores, indent=2).encode() + b"\n")
    if arguments.plot:
        _plot(arguments.plot, task, answers, examples)
    sentence = f"{arguments.file}: {task_options.format_scores(scores, task.main_score)} on {len(examples):,} examples"
    sentence += f"; {format_count(num_skipped, 'bad example')} skipped" if num_skipped else ""
    result = {"examples": len(examples), "skipped": num_skipped, **scores}
    print_result(sentence, result, as_json=arguments.json)


def _check_distinct(outs: list[pathlib.Path]) -> None:
    if len({path.resolve() for path in outs}) < len(outs):
        raise InputError(f"--out and --plot are both {outs[0]}; expected two different files: name another one")


def _describe_settings(
    arguments: argparse.Namespace, task: Task, num_examples: int, columns: dict[str, object]
) -> dict[str, object]:
    return {
        "checkpoint": arguments.checkpoint,
        "task": task_options.format_task(task),
        "file": f"{arguments.file} ({num_examples:,} examples)",
        **columns,
        **task_options.describe_prompt(task),
        "sequences": task_options.format_lengths(task),
    }


def _plot(path: pathlib.Path, task: Task, answers: Sequence, examples: Sequence) -> None:
    from bert_keras.metrics.confusion_figure import render_confusion_matrix

    _write(path, render_confusion_matrix(task.compute_confusion_matrix(answers, examples), task.labels))


def _write(path: pathlib.Path, content: bytes) -> None:
    with publish_file(path) as staging:
        staging.write_bytes(content)
