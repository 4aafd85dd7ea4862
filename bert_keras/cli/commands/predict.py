"""Predict labels, tags, answers or vectors of texts with a fine-tuned model; the output is JSON Lines.

    bert-keras predict MODEL reviews.csv
    bert-keras predict MODEL "a fine film"
    bert-keras predict MODEL "Who wrote it?" "It was written by Jane Austen."

MODEL is a checkpoint folder, or an artifact: an output folder of export, an ONNX file in its folder, or a SavedModel.
ONNX files run in onnxruntime or OpenVINO without TensorFlow. Input files: .txt (one text per line), .csv, .tsv, .jsonl
and .json; for tagging also .conll and .conllu, for questions also SQuAD's .json. A bad line is reported with its number
and stops the command; --on-error skip counts and skips it. After an interruption the same command with --out continues.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from bert_keras.checks import format_count
from bert_keras.cli.console import ProgressBar, Result, print_line, print_settings
from bert_keras.cli.options import task_options
from bert_keras.cli.options.argument_checks import check_all, check_exists, check_unicode
from bert_keras.cli.options.declaring import Options, positive_integer
from bert_keras.cli.predictions import (
    ExampleStream,
    Position,
    PredictionModel,
    count_examples,
    fingerprint_files,
    format_json_line,
    open_output,
)
from bert_keras.errors import InputError
from bert_keras.publishing import check_writable_file

if TYPE_CHECKING:
    from bert_keras.engines.predictor import Predictor
    from bert_keras.heads.task import Task

_FILE_ENDINGS = (".txt", ".csv", ".tsv", ".jsonl", ".json", ".conll", ".conllu", ".iob", ".bio")
_FILE_OPTIONS = ("format", "text_column", "second_text_column", "columns", "delimiter", "word_column", "tag_column")
_ANSWER_OPTIONS = ("engine", "top", "prompt", "max_sequence_length", "window_overlap", *_FILE_OPTIONS)


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_model("model", "fine-tuned checkpoint folder, or an artifact of one")
    options.add_argument(
        "inputs",
        metavar="FILE|TEXT",
        nargs="*",
        help="file of texts; - for standard input, one text per line (default); or a quoted text that contains a "
        "space, and a second one for a pair",
    )
    options.add_option("--out", pathlib.Path, "output file (default: standard output)")
    options.add_option("--on-error", ("stop", "skip"), "what to do at a bad line", "stop")
    best = "classify, answer: number of best classes or answers to list, at most 5 answers"
    options.add_option("--top", positive_integer, best, 1)
    task_options.add_length_options(options, length="as in training", overlap="as in training")
    task_options.add_prompt(options, default="the model's default prompt")
    _add_engine_options(options)
    task_options.add_file_options(options, labelled=False)
    options.add_overwrite("replace an existing file")


def _add_engine_options(options: Options) -> None:
    group = options.add_group("artifacts")
    text = "runtime of the artifact; tensorflow runs a SavedModel (default: onnxruntime if there is an ONNX file)"
    group.add_option("--engine", ("onnxruntime", "openvino", "tensorflow"), text)
    group.add_option("--threads", positive_integer, "threads per instance (default: all cores)")
    group.add_option(
        "--instances",
        positive_integer,
        "batches that run at the same time: one answers a single text soonest, one per core most texts per second "
        "(default: one per core for a file in onnxruntime or OpenVINO, otherwise 1)",
    )


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    arguments.texts = get_texts(arguments.inputs)
    arguments.file = None if arguments.texts else arguments.inputs[0] if arguments.inputs else "-"
    path = None if arguments.file in (None, "-") else pathlib.Path(arguments.file)
    out, inputs = arguments.out, [arguments.model, *([path] if path else [])]
    model, *_ = check_all(
        lambda: PredictionModel.read(arguments),
        *([lambda: check_exists(path, "a file of texts, or a text in quotes with a space in it")] if path else []),
        *([lambda: check_writable_file(out, overwrite=arguments.overwrite, inputs=inputs)] if out else []),
    )
    task, changes = task_options.read_task(arguments, model.checkpoint)
    check_all(lambda: task.check_top(arguments.top, "--top"), lambda: _check_file_options(arguments, task))
    columns, read = _open_input(arguments, task)
    shown = {"checkpoint": arguments.model}
    if model.artifact is not None:
        shown = {"artifact": model.artifact.path, "engine": model.artifact.engine}
    file = "standard input" if arguments.file == "-" else arguments.file
    texts = {"text": " + ".join(arguments.texts)} if arguments.texts else {"file": file}
    print_settings("predict", shown | task_options.describe_task(task, **texts, **columns))
    predictor = model.load(arguments, changes)
    stream, settings = sys.stdout, _describe_run(arguments, model, path)
    with _progress(out) as bar, open_output(out, stream, settings, bar.print) as (start, write):
        source = ExampleStream(read, skip=arguments.on_error == "skip", report=bar.print)
        position = _answer(predictor, source, start, write, arguments, bar)
    counts = format_count(position.num_answers, "answer")
    if position.num_skipped:
        counts += f", {format_count(position.num_skipped, 'bad line')} skipped"
    if out:
        result = {"out": str(out), "answers": position.num_answers, "skipped": position.num_skipped}
        return f"wrote {out}: {counts}", result
    print_line(counts)
    return None


def get_texts(inputs: list[str]) -> list[str]:
    """Return the text or the pair of texts on the command line; an empty list if it names a file.

    Raises:
        InputError: there are more than two texts.
    """
    if len(inputs) > 2:
        raise InputError(
            f"there are {len(inputs)} texts; expected a file, one text or a pair: write them to a file, one per line"
        )
    if len(inputs) == 1 and not _is_text(inputs[0]):
        return []
    check_unicode(inputs)
    return inputs


def _is_text(argument: str) -> bool:
    """Return whether an argument is a text: it contains a space, and neither is nor looks like a file name."""
    ending = pathlib.PurePath(argument.removesuffix(".gz")).suffix.lower()
    return (
        bool(argument.strip())
        and len(argument.split()) > 1
        and ending not in _FILE_ENDINGS
        and not os.path.exists(argument)
    )


def _check_file_options(arguments: argparse.Namespace, task: Task) -> None:
    """Raise `InputError` if a file option was given with a text, or an option of tagged words for another task."""
    given = task_options.get_given_options(arguments, *_FILE_OPTIONS)
    if arguments.texts and given:
        raise InputError(f"{task_options.format_options(given)} is for files, and a text was given: leave it out")
    task_options.check_options_of_task(arguments, task.name, names=("word_column", "tag_column"))


def _open_input(arguments: argparse.Namespace, task: Task) -> tuple[dict[str, object], Iterator]:
    """Open the input; return its columns to print, and an iterator over its examples.

    The first example of a file is read at once, so that errors are reported before TensorFlow is loaded.

    Raises:
        InputError: the file cannot be read, or its first example is bad and `--on-error` is stop.
    """
    from bert_keras.heads.examples.prediction_data import Example, find_prediction_columns, read_prediction_data

    if arguments.texts:
        return {}, iter([Example(None, task.make_example(*arguments.texts), None)])
    files = task_options.get_file_options(arguments)
    columns = task_options.describe_columns(find_prediction_columns(task, arguments.file, files))
    read = read_prediction_data(task, arguments.file, files)
    if arguments.file == "-":
        return columns, read
    first = list(itertools.islice(read, 1))
    if first and first[0].error is not None and arguments.on_error == "stop":
        raise first[0].error
    return columns, itertools.chain(first, read)


def _describe_run(
    arguments: argparse.Namespace, model: PredictionModel, path: pathlib.Path | None
) -> dict[str, object]:
    """Return everything that the answers depend on; only an interrupted run with the same values is continued."""
    from bert_keras import __version__

    options = {name: str(getattr(arguments, name, None)) for name in _ANSWER_OPTIONS}
    # standard input cannot be read twice, so its process number makes every run another one
    source = [] if path is None else [path]
    run = {"texts": arguments.texts, "process": os.getpid() if path is None else None}
    return {"version": __version__, **options, **run, "files": fingerprint_files(*model.paths, *source)}


def _answer(
    predictor: Predictor,
    source: ExampleStream,
    start: Position,
    write: Callable[[str, Position], None],
    arguments: argparse.Namespace,
    bar: ProgressBar,
) -> Position:
    """Write one line per valid example, and return how many there were; the last error of `source` is raised then."""
    from bert_keras.heads.examples.file_options import guess_format

    position, total, file_format = start, None, None
    if arguments.file is not None:
        file_format = arguments.format or guess_format(arguments.file)
    if arguments.file not in (None, "-"):
        total = count_examples(pathlib.Path(arguments.file), file_format)
    position_key = "index" if file_format == "json" else "line"  # an array has no lines
    source.skip_answered(position.num_read, position.num_skipped)
    num_before = position.num_answers

    def report(num_done: int) -> None:
        bar.update(num_before + num_done, total)

    for answers in predictor.stream(source, once=True, progress=report):
        lines = [
            format_json_line(position_key, line, predictor.task.to_json(answer, arguments.top))
            for line, answer in zip(source.take_lines(len(answers)), answers, strict=True)
        ]
        position = Position(source.num_read, source.num_skipped, position.num_answers + len(answers))
        write("".join(lines), position)
        bar.update(position.num_answers, total)
    if source.error is not None:
        raise source.error
    return position._replace(num_read=source.num_read, num_skipped=source.num_skipped)


def _progress(out: pathlib.Path | None) -> contextlib.AbstractContextManager[ProgressBar]:
    """Return a progress bar; if the output goes to a terminal, the bar is not started."""
    bar = ProgressBar("predicting", "examples")
    if out is not None:
        return bar
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8, whatever the encoding of the terminal
    return contextlib.nullcontext(bar) if sys.stdout.isatty() else bar
