"""Answer texts with a fine-tuned checkpoint: a file, standard input or a text in quotes in, JSON lines out.

    bert-keras predict CHECKPOINT reviews.csv
    bert-keras predict CHECKPOINT "a fine film"
    bert-keras predict CHECKPOINT "Who wrote it?" "It was written by Jane Austen."

A bad line is told with its number. It stops the work, or is skipped and counted (--on-error skip).

Texts are read from .txt (one a line), .csv, .tsv, .jsonl and .json; words to be tagged also from .conll and .conllu,
and questions also from SQuAD's .json.
"""

import argparse
import contextlib
import io
import itertools
import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.report import ProgressBar, print_result, print_settings
from bert_keras.cli.console.terminal import print_line, printable_json
from bert_keras.cli.options import task_options
from bert_keras.cli.options.argument_checks import check_all, check_exists, check_unicode, positive_integer
from bert_keras.cli.options.model_folder import read_model
from bert_keras.errors import InputError
from bert_keras.files import format_json
from bert_keras.publishing import check_writable_file, publish_file
from bert_keras.tasks.examples import option_checks

_DECIMALS = 6
_FILE_ENDINGS = (".txt", ".csv", ".tsv", ".jsonl", ".json", ".conll", ".conllu", ".iob", ".bio")
_FILE_OPTIONS = ("format", "text_column", "second_text_column", "columns", "delimiter", "word_column", "tag_column")
_LAST = ("score", "null_score", "best")  # what few readers want stands behind the rest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=pathlib.Path, metavar="CHECKPOINT", help="a fine-tuned checkpoint folder")
    parser.add_argument(
        "inputs",
        metavar="FILE|TEXT",
        nargs="*",
        help="a file of texts; - for standard input, one a line (default); or a text in quotes, with a space in it, "
        "and a second one to make a pair",
    )
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="write there (default: standard output)")
    parser.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="at a bad line stop, or skip and count it (default %(default)s)",
    )
    parser.add_argument(
        "--top",
        type=positive_integer,
        default=1,
        metavar="N",
        help="classes and answers: list the N best too, of answers 5 at most (default 1)",
    )
    task_options.add_length_options(parser, length="as it was trained", overlap="as it was trained")
    task_options.add_prompt(parser, otherwise="the model's own default")
    task_options.add_file_options(parser, labelled=False)
    parser.add_argument("--overwrite", action="store_true", help="replace a file that exists")


def run(arguments: argparse.Namespace) -> None:
    from bert_keras.tasks.task_loading import read_checkpoint_task

    arguments.texts = texts_of(arguments.inputs)
    arguments.file = None if arguments.texts else arguments.inputs[0] if arguments.inputs else "-"
    path = None if arguments.file in (None, "-") else pathlib.Path(arguments.file)
    checkpoint, *_ = check_all(
        lambda: read_model(arguments.checkpoint),
        *([lambda: check_exists(path, "a file of texts, or a text in quotes with a space in it")] if path else []),
        *([lambda: _check_out(arguments, path)] if arguments.out else []),
    )
    lengths = task_options.said(arguments, "max_sequence_length", "window_overlap")
    task = task_options.with_prompt(arguments, read_checkpoint_task(checkpoint, **lengths))
    check_all(lambda: task.check_top(arguments.top, "--top"), lambda: _check_file_options(arguments, task))
    columns, read = _opened(arguments, task)
    print_settings("predict", _shown(arguments, task, columns))
    load_tensorflow()
    from bert_keras.tasks.predictor import Predictor

    predictor = Predictor.from_checkpoint(checkpoint, **lengths, **task_options.said_prompt(task))
    with _output(arguments.out) as out, _progress(out) as bar:
        source = _Examples(read, skip=arguments.on_error == "skip", tell=bar.say)
        num_answers = _answer(predictor, source, out, arguments, bar)
    counts = f"{num_answers:,} {'answer' if num_answers == 1 else 'answers'}"
    if source.num_skipped:
        counts += f", {source.num_skipped:,} bad {'line was' if source.num_skipped == 1 else 'lines were'} skipped"
    if arguments.out:
        result = {"out": str(arguments.out), "answers": num_answers, "skipped": source.num_skipped}
        print_result(f"wrote {arguments.out}: {counts}", result, as_json=arguments.json)
    else:
        print_line(counts)


def texts_of(inputs: list[str]) -> list[str]:
    """Returns the text or the pair of texts that the command line holds; none where it names a file.

    Raises:
        InputError: there are more than two.
    """
    if len(inputs) > 2:
        raise InputError(
            f"there are {len(inputs)} texts; expected a file, one text, or two for a pair: write a file with one a line"
        )
    if len(inputs) == 1 and not _is_text(inputs[0]):
        return []
    check_unicode(inputs)
    return inputs


def _is_text(given: str) -> bool:
    """Whether it is a text: it has a space in it, and neither is nor looks like the name of a file."""
    ending = pathlib.PurePath(given.removesuffix(".gz")).suffix.lower()
    return bool(given.strip()) and len(given.split()) > 1 and ending not in _FILE_ENDINGS and not os.path.exists(given)


def _check_out(arguments: argparse.Namespace, path: pathlib.Path | None) -> None:
    inputs = [arguments.checkpoint, *([path] if path else [])]
    check_writable_file(arguments.out, overwrite=arguments.overwrite, inputs=inputs)


def _check_file_options(arguments: argparse.Namespace, task) -> None:
    """Raises `InputError` if an option of files was given with a text, or one of tagged words to another task."""
    given = task_options.said(arguments, *_FILE_OPTIONS)
    if arguments.texts and given:
        named = ", ".join(map(task_options.spelled, given))
        raise InputError(f"{named} is for files, and a text was given: leave it out")
    option_checks.check_options_of_task(
        {name: given.get(name) for name in ("word_column", "tag_column")}, task.name, spell=task_options.spelled
    )


def _opened(arguments: argparse.Namespace, task) -> tuple[dict[str, object], Iterator]:
    """Returns the columns that are read, to be shown, and the examples; a file's first one has been read.

    Raises:
        InputError: the file cannot be read, or its first example is bad and not to be skipped.
    """
    from bert_keras.tasks.examples.prediction_data import Example, find_prediction_columns, read_prediction_data

    if arguments.texts:
        return {}, iter([Example(None, task.make_example(*arguments.texts), None)])
    files = task_options.file_options(arguments)
    columns = task_options.columns_shown(find_prediction_columns(task, arguments.file, files))
    read = read_prediction_data(task, arguments.file, files)
    if arguments.file == "-":
        return columns, read
    first = list(itertools.islice(read, 1))
    if first and first[0].error is not None and arguments.on_error == "stop":
        raise first[0].error
    return columns, itertools.chain(first, read)


def _shown(arguments: argparse.Namespace, task, columns: dict[str, object]) -> dict[str, object]:
    return {
        "checkpoint": arguments.checkpoint,
        "task": task_options.task_shown(task),
        **({"text": " + ".join(arguments.texts)} if arguments.texts else {"file": _file_shown(arguments.file)}),
        **columns,
        **task_options.prompt_shown(task),
        "rows": task_options.rows_shown(task),
    }


def _file_shown(file: str) -> str:
    return "standard input" if file == "-" else file


def _answer(predictor, source: "_Examples", out: TextIO, arguments: argparse.Namespace, bar: ProgressBar) -> int:
    """Writes a line for each good example and returns how many there were.

    Raises:
        InputError: an example was bad; those before it are answered.
    """
    num_answers, place = 0, _kind_of_place(arguments)
    for answers in predictor.stream(source, once=True):
        for line, answer in zip(source.taken(len(answers)), answers, strict=True):
            out.write(_json_line(place, line, predictor.task.to_json(answer, arguments.top)))
        out.flush()
        num_answers += len(answers)
        bar.update(num_answers)
    if source.error is not None:
        raise source.error
    return num_answers


def _kind_of_place(arguments: argparse.Namespace) -> str:
    """Returns what tells an example of the file: its line, or its index in a JSON array, which has no lines."""
    from bert_keras.tasks.examples.file_options import guess_format

    is_array = arguments.file is not None and (arguments.format or guess_format(arguments.file)) == "json"
    return "index" if is_array else "line"


def _json_line(place: str, number: int | None, answer: dict) -> str:
    """Returns an answer as a line, behind the place of its example in the file where there is one."""
    named = {} if number is None else {place: number}
    named |= {name: value for name, value in answer.items() if name not in _LAST}
    named |= {name: answer[name] for name in _LAST if name in answer}
    return printable_json(format_json(_rounded(named)), "utf-8") + "\n"


def _rounded(value):
    """Returns a JSON value with its numbers rounded: float32 knows no more."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return round(value, _DECIMALS) if isinstance(value, float) else value


class _Examples:
    """The good examples of a file, one by one, with their lines; bad ones are told, and end it unless skipped."""

    def __init__(self, read: Iterator, *, skip: bool, tell: Callable[[str], None]):
        self.error: InputError | None = None
        self.num_skipped = 0
        self._read = read
        self._skip = skip
        self._tell = tell
        self._lines: list[int | None] = []

    def __iter__(self) -> Iterator:
        try:
            for line, example, error in self._read:
                if error is None:
                    self._lines.append(line)
                    yield example
                elif self._skip:
                    self.num_skipped += 1
                    self._tell(f"skipped: {error}")
                else:
                    raise error
        except InputError as error:  # also where nobody can tell how the file goes on
            self.error = error  # what came before is answered first

    def taken(self, number: int) -> list[int | None]:
        """Returns the lines of the next examples that were answered."""
        taken, self._lines = self._lines[:number], self._lines[number:]
        return taken


@contextlib.contextmanager
def _output(path: pathlib.Path | None) -> Iterator[TextIO]:
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8, whatever the terminal is
        yield sys.stdout
        return
    with publish_file(path) as staging, open(staging, "w", encoding="utf-8") as file:
        yield file


def _progress(out: TextIO) -> contextlib.AbstractContextManager[ProgressBar]:
    """Returns a progress bar, which does not move between lines on a terminal; to be made after `out` is known."""
    bar = ProgressBar("answering", "examples")
    return contextlib.nullcontext(bar) if out.isatty() else bar
