"""Options of the commands that read files of a task: `finetune`, `evaluate`, `predict`, `export`."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from bert_keras.checks import quote
from bert_keras.cli.options.argument_checks import check_all
from bert_keras.cli.options.declaring import Options, non_negative_integer, positive_integer
from bert_keras.errors import InputError
from bert_keras.figures import check_matplotlib
from bert_keras.heads.examples import option_checks
from bert_keras.heads.known_heads import list_finetuned_heads
from bert_keras.pipelines.readers.option_spelling import spell_flag

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.heads.examples.file_options import FileOptions
    from bert_keras.heads.task import Task
    from bert_keras.pipelines.readers.bad_examples import BadExamples
    from bert_keras.pipelines.readers.tables.column_names import Columns

TASK_NAMES = tuple(head.name for head in list_finetuned_heads())  # the first is the default of `finetune`
FORMATS = ("csv", "tsv", "jsonl", "json", "conll", "conllu", "txt")

FILE_OPTIONS = (
    *("max_sequence_length", "window_overlap", "format", "delimiter", "text_column", "second_text_column"),
    *("label_column", "columns", "separator", "word_column", "tag_column"),
)
_TASK_OF_ENDING = {ending: head.name for head in list_finetuned_heads() for ending in head.file_endings}
_NUM_PRINTED_SCORES = 3


def add_file_options(options: Options, *, labelled: bool = True) -> None:
    """Add the options that describe the format of files. By default it is inferred from the extension and columns."""
    group = options.add_group("file format")
    group.add_option("--format", FORMATS, "format of the files (default: from the file extension)")
    group.add_option("--text-column", str, "column of the texts (default: a common name, such as text)")
    group.add_option("--second-text-column", str, "column of the second texts of pairs")
    if labelled:
        group.add_option("--label-column", str, "column of the labels or scores")
    names = "comma-separated names of all columns, for files without a header line"
    group.add_option("--columns", _split_names, names, metavar="NAMES")
    delimiters = "delimiter of .csv fields: comma, semicolon, tab or | (default: detected from the first lines)"
    group.add_option("--delimiter", str, delimiters, metavar="CHARACTER")
    if labelled:
        group.add_option("--separator", str, "separator between the labels of a text (default |)", metavar="TEXT")
    text = "tag: index of the word column, from 0 (default: the first); in .jsonl, the field (default words or tokens)"
    group.add_option("--word-column", str, text)
    group.add_option(
        "--tag-column",
        str,
        "tag: index of the tag column (default: the last; CoNLL-U: upos); in .jsonl, the field (default tags, "
        "ner_tags, ...)",
    )


def add_on_error(options: Options) -> None:
    """Add `--on-error`, which selects whether bad examples stop the command."""
    text = "stop: report the number of bad examples and the first ones, and stop; skip: leave bad examples out"
    options.add_option("--on-error", ("stop", "skip"), text, "stop")


def add_length_options(options: Options, *, length: str, overlap: str) -> None:
    """Add the options for long texts; `length` and `overlap` describe their defaults."""
    options.add_option(
        "--max-sequence-length", positive_integer, f"maximum number of tokens per sequence (default {length})"
    )
    windows = f"split longer texts into windows that overlap by this many tokens (default {overlap})"
    options.add_option("--window-overlap", non_negative_integer, windows)


def add_prompt(options: Options, *, default: str) -> None:
    """Add `--prompt`; `default` describes which prompt is used without it."""
    prompt = f"embed: name of the model's prompt that is put before each text; '' for none (default: {default})"
    options.add_option("--prompt", str, prompt)


def read_task(arguments: argparse.Namespace, checkpoint: Checkpoint) -> tuple[Task, dict[str, object]]:
    """Read the task of a checkpoint, with the lengths and the prompt of the options.

    Returns:
        The task, and these lengths and the prompt as arguments of `Predictor.from_checkpoint`.

    Raises:
        InputError: the task does not use prompts, or the model has no prompt of that name.
    """
    from bert_keras.checkpoints.task_loading import read_checkpoint_task

    changes = get_given_options(arguments, "max_sequence_length", "window_overlap")
    task = read_checkpoint_task(checkpoint, **changes)
    if arguments.prompt is not None:
        check_options_of_task(arguments, task.name, names=("prompt",))
        task = task.with_prompt(arguments.prompt)
    prompt = getattr(task, "prompt", None)
    return task, changes if prompt is None else {**changes, "prompt": prompt}


def check_options_of_task(
    arguments: argparse.Namespace,
    task: str,
    problem: str | None = None,
    names: Iterable[str] = option_checks.TASKS_OF_OPTION,
) -> None:
    """Raise `InputError` that lists every given option, of those in `names`, that `task` does not use."""
    given = get_given_options(arguments, *names)
    option_checks.check_options_of_task(given, task, problem=problem, spell=spell_flag)


def check_extension(path: pathlib.Path, task: str, file_format: str | None) -> None:
    """Raise `InputError` if the extension of a file belongs to another task and no format was given."""
    file_task = _TASK_OF_ENDING.get(pathlib.Path(path.name.lower().removesuffix(".gz")).suffix, task)
    if file_task != task and file_format is None:
        raise InputError(
            f"{path} is a file for the task {file_task}, and the task is {task}: name another file or task"
        )


def read_labelled_examples(
    arguments: argparse.Namespace, task: Task, path: pathlib.Path, *checks: Callable[[], object]
) -> tuple[list, BadExamples]:
    """Read labelled examples for a task, and return them and the bad ones.

    Raises:
        InputError: one of `checks` failed, the file or an option is for another task, or an example is bad.
    """
    from bert_keras.heads.examples.scoring_data import read_scoring_data
    from bert_keras.pipelines.readers.bad_examples import BadExamples

    check_all(
        lambda: check_options_of_task(arguments, task.name, task.problem),
        lambda: check_extension(path, task.name, arguments.format),
        *checks,
    )
    bad = BadExamples(skip=arguments.on_error == "skip")
    return read_scoring_data(task, path, get_file_options(arguments), bad), bad


def get_file_options(arguments: argparse.Namespace) -> FileOptions:
    """Return the given options of the file format."""
    from bert_keras.heads.examples.file_options import FileOptions

    names = ("format", "text_column", "second_text_column", "label_column", "columns", "delimiter", "separator")
    return FileOptions(**get_given_options(arguments, *names, "word_column", "tag_column"))


def get_given_options(arguments: argparse.Namespace, *names: str) -> dict[str, object]:
    """Return those of the options that were given, keyed by name."""
    return {name: value for name in names if (value := getattr(arguments, name, None)) is not None}


def format_options(names: Iterable[str]) -> str:
    """Return the options with these names as they are written on a command line."""
    return ", ".join(map(spell_flag, names))


def format_task(task: Task) -> str:
    """Format the name of a task with its problem or objective."""
    kinds = [kind for name in ("problem", "objective") if (kind := getattr(task, name, None)) is not None]
    kinds += ["some questions have no answer"] if getattr(task, "allows_null", False) else []
    return ", ".join([task.name, *kinds])


def describe_task(task: Task, **shown: object) -> dict[str, object]:
    """Return the task, other settings of its data, the prompt and the lengths, to print."""
    prompt = getattr(task, "prompt_text", "")
    described = {"prompt": f"{quote(prompt)} before each text"} if prompt else {}
    return {"task": format_task(task), **shown, **described, "sequences": format_lengths(task)}


def describe_columns(columns: Columns | None) -> dict[str, object]:
    """Return the columns and the delimiter of a table, to print; empty if the file is no table."""
    if columns is None:
        return {}
    from bert_keras.pipelines.readers.tables.tables import DELIMITERS

    purposes = {"text": columns.text, "second text": columns.second_text, "label": columns.label}
    text = ", ".join(f"{purpose} {name!r}" for purpose, name in purposes.items() if name is not None)
    delimiter = {} if columns.delimiter is None else {"delimiter": DELIMITERS[columns.delimiter]}
    return {"columns": text, **delimiter}


def describe_skipped(bad: BadExamples) -> dict[str, object]:
    """Return the number of skipped examples and the problem of the first, to print; empty if there are none."""
    return {"skipped": bad.describe()} if bad.num_bad else {}


def format_lengths(task: Task) -> str:
    """Format the maximum sequence length of a task and how longer texts are handled."""
    longer = "truncated" if task.window_overlap is None else f"split into windows that overlap by {task.window_overlap}"
    return f"at most {task.max_sequence_length} tokens, longer texts {longer}"


def format_scores(scores: Mapping[str, float], main_score: str) -> str:
    """Format the most important scores, the main one first."""
    # with one class per example, micro_f1 equals the accuracy
    names = [name for name in scores if not (name == "micro_f1" and "accuracy" in scores)]
    names.sort(key=lambda name: name != main_score)
    return ", ".join(f"{name} {scores[name]:.4g}" for name in names[:_NUM_PRINTED_SCORES])


def check_can_plot(task: Task) -> None:
    """Raise `InputError` if the task has no confusion matrix, or matplotlib is not installed."""
    if not task.has_confusion_matrix:
        raise InputError(
            f"only a classifier with single labels has a confusion matrix, and this is {format_task(task)}: "
            "leave out --plot"
        )
    check_matplotlib()


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
