"""Predict labels, tags, answers or vectors of texts with a fine-tuned checkpoint; the output is JSON Lines.

    bert-keras predict CHECKPOINT reviews.csv
    bert-keras predict CHECKPOINT "a fine film"
    bert-keras predict CHECKPOINT "Who wrote it?" "It was written by Jane Austen."

Input files: .txt (one text per line), .csv, .tsv, .jsonl and .json; for tagging also .conll and .conllu, for questions
also SQuAD's .json. A bad line is reported with its number and stops the command; --on-error skip counts and skips it.
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
from typing import TYPE_CHECKING, Any, TextIO

from bert_keras.checks import format_count
from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.report import ProgressBar, print_result, print_settings
from bert_keras.cli.console.terminal import print_line, printable_json
from bert_keras.cli.options import task_options
from bert_keras.cli.options.argument_checks import (
    add_option,
    add_path,
    check_all,
    check_exists,
    check_unicode,
    positive_integer,
)
from bert_keras.cli.options.model_folder import read_model
from bert_keras.errors import InputError
from bert_keras.files import format_json
from bert_keras.pipelines.readers.option_spelling import spell_flag
from bert_keras.publishing import check_writable_file, publish_file
from bert_keras.tasks.examples import option_checks

if TYPE_CHECKING:
    from bert_keras.tasks.base import Task
    from bert_keras.tasks.predictor import Predictor

_DECIMALS = 6
_FILE_ENDINGS = (".txt", ".csv", ".tsv", ".jsonl", ".json", ".conll", ".conllu", ".iob", ".bio")
_FILE_OPTIONS = ("format", "text_column", "second_text_column", "columns", "delimiter", "word_column", "tag_column")
_LAST_KEYS = ("score", "null_score", "best")  # at the end of each line, because few users need them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_path(parser, "checkpoint", "fine-tuned checkpoint folder")
    parser.add_argument(
        "inputs",
        metavar="FILE|TEXT",
        nargs="*",
        help="file of texts; - for standard input, one text per line (default); or a quoted text that contains a "
        "space, and a second one for a pair",
    )
    add_option(parser, "--out", pathlib.Path, "output file (default: standard output)")
    add_option(parser, "--on-error", ("stop", "skip"), "what to do at a bad line", "stop")
    best = "classify, answer: number of best classes or answers to list, at most 5 answers"
    add_option(parser, "--top", positive_integer, best, 1)
    task_options.add_length_options(parser, length="as in training", overlap="as in training")
    task_options.add_prompt(parser, default="the model's default prompt")
    task_options.add_file_options(parser, labelled=False)
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from bert_keras.tasks.task_loading import read_checkpoint_task

    arguments.texts = get_texts(arguments.inputs)
    arguments.file = None if arguments.texts else arguments.inputs[0] if arguments.inputs else "-"
    path = None if arguments.file in (None, "-") else pathlib.Path(arguments.file)
    checkpoint, *_ = check_all(
        lambda: read_model(arguments.checkpoint),
        *([lambda: check_exists(path, "a file of texts, or a text in quotes with a space in it")] if path else []),
        *([lambda: _check_out(arguments, path)] if arguments.out else []),
    )
    lengths = task_options.get_given_options(arguments, "max_sequence_length", "window_overlap")
    task = task_options.select_prompt(arguments, read_checkpoint_task(checkpoint, **lengths))
    check_all(lambda: task.check_top(arguments.top, "--top"), lambda: _check_file_options(arguments, task))
    columns, read = _open_input(arguments, task)
    print_settings("predict", _describe_settings(arguments, task, columns))
    load_tensorflow()
    from bert_keras.tasks.predictor import Predictor

    predictor = Predictor.from_checkpoint(checkpoint, **lengths, **task_options.get_selected_prompt(task))
    with _output(arguments.out) as out, _progress(out) as bar:
        source = _Examples(read, skip=arguments.on_error == "skip", report=bar.print)
        num_answers = _answer(predictor, source, out, arguments, bar)
    counts = format_count(num_answers, "answer")
    if source.num_skipped:
        counts += f", {format_count(source.num_skipped, 'bad line')} skipped"
    if arguments.out:
        result = {"out": str(arguments.out), "answers": num_answers, "skipped": source.num_skipped}
        print_result(f"wrote {arguments.out}: {counts}", result, as_json=arguments.json)
    else:
        print_line(counts)


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


def _check_out(arguments: argparse.Namespace, path: pathlib.Path | None) -> None:
    inputs = [arguments.checkpoint, *([path] if path else [])]
    check_writable_file(arguments.out, overwrite=arguments.overwrite, inputs=inputs)


def _check_file_options(arguments: argparse.Namespace, task: Task) -> None:
    """Raise `InputError` if a file option was given with a text, or an option of tagged words for another task."""
    given = task_options.get_given_options(arguments, *_FILE_OPTIONS)
    if arguments.texts and given:
        options = ", ".join(map(spell_flag, given))
        raise InputError(f"{options} is for files, and a text was given: leave it out")
    option_checks.check_options_of_task(
        {name: given.get(name) for name in ("word_column", "tag_column")}, task.name, spell=spell_flag
    )


def _open_input(arguments: argparse.Namespace, task: Task) -> tuple[dict[str, object], Iterator]:
    """Open the input; return its columns to print, and an iterator over its examples.

    The first example of a file is read at once, so that errors are reported before TensorFlow is loaded.

    Raises:
        InputError: the file cannot be read, or its first example is bad and `--on-error` is stop.
    """
    from bert_keras.tasks.examples.prediction_data import Example, find_prediction_columns, read_prediction_data

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


def _describe_settings(arguments: argparse.Namespace, task: Task, columns: dict[str, object]) -> dict[str, object]:
    return {
        "checkpoint": arguments.checkpoint,
        "task": task_options.format_task(task),
        **({"text": " + ".join(arguments.texts)} if arguments.texts else {"file": _format_file(arguments.file)}),
        **columns,
        **task_options.describe_prompt(task),
        "sequences": task_options.format_lengths(task),
    }


def _format_file(file: str) -> str:
    return "standard input" if file == "-" else file


def _answer(
    predictor: Predictor, source: _Examples, out: TextIO, arguments: argparse.Namespace, bar: ProgressBar
) -> int:
    """Write one line per good example, and return their number.

    Raises:
        InputError: an example was bad; the lines of those before it are written.
    """
    num_answers, position_key = 0, _get_position_key(arguments)
    for answers in predictor.stream(source, once=True):
        for line, answer in zip(source.take_lines(len(answers)), answers, strict=True):
            out.write(_format_json_line(position_key, line, predictor.task.to_json(answer, arguments.top)))
        out.flush()
        num_answers += len(answers)
        bar.update(num_answers)
    if source.error is not None:
        raise source.error
    return num_answers


def _get_position_key(arguments: argparse.Namespace) -> str:
    """Return the JSON key for the position of an example: its line, or its index in a JSON array."""
    from bert_keras.tasks.examples.file_options import guess_format

    is_array = arguments.file is not None and (arguments.format or guess_format(arguments.file)) == "json"
    return "index" if is_array else "line"


def _format_json_line(position_key: str, number: int | None, answer: dict) -> str:
    """Format an answer as a JSON line that begins with the position of its example in the file, if there is one."""
    named = {} if number is None else {position_key: number}
    named |= {name: value for name, value in answer.items() if name not in _LAST_KEYS}
    named |= {name: answer[name] for name in _LAST_KEYS if name in answer}
    return printable_json(format_json(_round(named)), "utf-8") + "\n"


def _round(value: Any) -> Any:
    """Round the numbers of a JSON value to the precision of float32."""
    if isinstance(value, dict):
        return {name: _round(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_round(part) for part in value]
    return round(value, _DECIMALS) if isinstance(value, float) else value


class _Examples:
    """Iterator over the good examples of a file. Bad ones are reported and skipped, or end the iteration."""

    def __init__(self, read: Iterator, *, skip: bool, report: Callable[[str], None]):
        self.error: InputError | None = None
        self.num_skipped = 0
        self._read = read
        self._skip = skip
        self._report = report
        self._lines: list[int | None] = []

    def __iter__(self) -> Iterator:
        try:
            for line, example, error in self._read:
                if error is None:
                    self._lines.append(line)
                    yield example
                elif self._skip:
                    self.num_skipped += 1
                    self._report(f"skipped: {error}")
                else:
                    raise error
        except InputError as error:  # also raised where the rest of the file cannot be parsed
            self.error = error  # raised after the examples before it are answered

    def take_lines(self, number: int) -> list[int | None]:
        """Remove and return the line numbers of the next answered examples."""
        taken, self._lines = self._lines[:number], self._lines[number:]
        return taken


@contextlib.contextmanager
def _output(path: pathlib.Path | None) -> Iterator[TextIO]:
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8, whatever the encoding of the terminal
        yield sys.stdout
        return
    with publish_file(path) as staging, open(staging, "w", encoding="utf-8") as file:
        yield file


def _progress(out: TextIO) -> contextlib.AbstractContextManager[ProgressBar]:
    """Return a progress bar; if the output goes to a terminal, the bar is not started."""
    bar = ProgressBar("predicting", "examples")
    return contextlib.nullcontext(bar) if out.isatty() else bar
