"""Options of the verbs that read files of a task: `finetune`, `evaluate`, `predict`."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bert_keras.checks import quote
from bert_keras.cli.options.argument_checks import positive_integer, whole_number
from bert_keras.errors import InputError
from bert_keras.figures import check_matplotlib
from bert_keras.tasks.examples import option_checks

if TYPE_CHECKING:
    from bert_keras.pipelines.readers.bad_examples import BadExamples
    from bert_keras.pipelines.readers.tables.column_names import Columns
    from bert_keras.tasks.base import Task
    from bert_keras.tasks.examples.file_options import FileOptions

TASK_NAMES = ("classify", "tag", "answer", "embed")
FORMATS = ("csv", "tsv", "jsonl", "json", "conll", "conllu", "txt")

FILE_OPTIONS = (
    *("max_sequence_length", "window_overlap", "format", "delimiter", "text_column", "second_text_column"),
    *("label_column", "columns", "separator", "word_column", "tag_column"),
)
_TASK_OF_ENDING = dict.fromkeys((".conll", ".conllu", ".iob", ".bio"), "tag")
_NUM_SCORES_SAID = 3


def add_file_options(parser: argparse.ArgumentParser, *, labelled: bool = True) -> None:
    """Adds the options that say how files are read; what is not said is guessed from their endings and columns."""
    group = parser.add_argument_group("files")
    group.add_argument("--format", choices=FORMATS, help="of the files (default: by their endings)")
    group.add_argument("--text-column", metavar="NAME", help="the column of texts (default: by its usual names)")
    group.add_argument("--second-text-column", metavar="NAME", help="the column of the second texts of pairs")
    if labelled:
        group.add_argument("--label-column", metavar="NAME", help="the column of labels, or of scores")
    group.add_argument(
        "--columns", metavar="NAMES", type=_names, help="names of all columns, comma-separated, where no line has them"
    )
    group.add_argument(
        "--delimiter",
        metavar="MARK",
        help="between the fields of a .csv: comma, semicolon, tab or | (default: recognized from the first lines)",
    )
    if labelled:
        group.add_argument("--separator", metavar="MARK", help="between several labels of a text (default |)")
    group.add_argument(
        "--word-column",
        metavar="COLUMN",
        help="tag: the column of words, from 0 (default the first); of .jsonl the field (default words, or tokens)",
    )
    group.add_argument(
        "--tag-column",
        metavar="COLUMN",
        help="tag: the column of tags (default the last; CoNLL-U: upos); of .jsonl the field (default tags, ...)",
    )


def add_on_error(parser: argparse.ArgumentParser) -> None:
    """Adds `--on-error`: what happens to bad examples."""
    parser.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="bad examples: count them, show the first and stop, or leave them out (default %(default)s)",
    )


def add_length_options(parser: argparse.ArgumentParser, *, length: str, overlap: str) -> None:
    """Adds the options of long texts; `length` and `overlap` say what happens without them."""
    parser.add_argument(
        "--max-sequence-length", type=positive_integer, metavar="TOKENS", help=f"tokens a row (default {length})"
    )
    parser.add_argument(
        "--window-overlap",
        type=whole_number,
        metavar="TOKENS",
        help=f"read longer texts in windows that share so many tokens (default {overlap})",
    )


def add_prompt(parser: argparse.ArgumentParser, *, otherwise: str) -> None:
    """Adds the option that names a prompt; `otherwise` says which one is used without it."""
    parser.add_argument(
        "--prompt",
        metavar="NAME",
        help=f"embed: the model's prompt that stands before each text; '': none (default {otherwise})",
    )


def with_prompt(arguments: argparse.Namespace, task: Task) -> Task:
    """Returns the task with the prompt that was asked for.

    Raises:
        InputError: the task takes none, or there is none of that name.
    """
    if arguments.prompt is None:
        return task
    if task.name != "embed":
        raise InputError(f"--prompt is for embed, and the task is {task.name}: leave it out")
    return task.with_prompt(arguments.prompt)


def said_prompt(task: Task) -> dict[str, object]:
    """Returns the setting of a task that `with_prompt` made, where it made one."""
    return {"prompt": task.prompt} if getattr(task, "prompt", None) is not None else {}


def prompt_shown(task: Task) -> dict[str, object]:
    """Returns what stands before each text, to be shown where something does."""
    prompt = getattr(task, "prompt_text", "")
    return {"prompt": f"{quote(prompt)} before each text"} if prompt else {}


def check_options_of_task(arguments: argparse.Namespace, task: str, problem: str | None = None) -> None:
    """Raises `InputError` that tells every option that was given and that `task` does not look at."""
    given = said(arguments, *option_checks.TASKS_OF_OPTION)
    option_checks.check_options_of_task(given, task, problem=problem or "single_label", spell=spelled)


def spelled(name: str) -> str:
    """Returns an option as it is given on the command line."""
    return f"--{name.replace('_', '-')}"


def check_ending(path: pathlib.Path, task: str, form: str | None) -> None:
    """Raises `InputError` if a file's name ends as those of another task do, and no format was given."""
    fits = _TASK_OF_ENDING.get(pathlib.Path(path.name.lower().removesuffix(".gz")).suffix, task)
    if fits != task and form is None:
        raise InputError(f"{path} is a file for the task {fits}, and the task is {task}: name another file or task")


def file_options(arguments: argparse.Namespace) -> FileOptions:
    """Returns how files are read."""
    from bert_keras.tasks.examples.file_options import FileOptions

    names = ("format", "text_column", "second_text_column", "label_column", "columns", "delimiter", "separator")
    return FileOptions(**said(arguments, *names, "word_column", "tag_column"))


def said(arguments: argparse.Namespace, *names: str) -> dict[str, object]:
    """Returns those of the options that were given."""
    return {name: value for name in names if (value := getattr(arguments, name, None)) is not None}


def task_shown(task: Task) -> str:
    """Returns a task in words."""
    kinds = [kind for name in ("problem", "objective") if (kind := getattr(task, name, None)) is not None]
    kinds += ["where there is one"] if getattr(task, "allows_null", False) else []
    return ", ".join([task.name, *kinds])


def columns_shown(columns: Columns | None) -> dict[str, object]:
    """Returns the columns of a table in words, to be shown where there is one."""
    if columns is None:
        return {}
    from bert_keras.pipelines.readers.tables.delimiters import DELIMITERS

    purposes = {"text": columns.text, "second text": columns.second_text, "label": columns.label}
    shown = {"columns": ", ".join(f"{purpose} {name!r}" for purpose, name in purposes.items() if name is not None)}
    if columns.delimiter is not None:
        shown["delimiter"] = DELIMITERS[columns.delimiter]
    return shown


def skipped_shown(bad: BadExamples) -> dict[str, object]:
    """Returns how many examples were skipped in words, and what is wrong with the first, if there are any."""
    return {"skipped": bad.describe()} if bad.num_bad else {}


def rows_shown(task: Task) -> str:
    """Returns what becomes of long texts, in words."""
    longer = "cut" if task.window_overlap is None else f"in windows that share {task.window_overlap}"
    return f"at most {task.max_sequence_length} tokens, longer texts {longer}"


def scores_shown(scores: Mapping[str, float], main_score: str) -> str:
    """Returns the scores that matter most in words, the main one first."""
    # where each example has one class, micro_f1 is the accuracy
    names = [name for name in scores if not (name == "micro_f1" and "accuracy" in scores)]
    names.sort(key=lambda name: name != main_score)
    return ", ".join(f"{name} {scores[name]:.4g}" for name in names[:_NUM_SCORES_SAID])


def check_picture(task: Task) -> None:
    """Raises `InputError` if no confusion matrix can be drawn: the task has none, or matplotlib is not installed."""
    from bert_keras.tasks.confusion_report import has_confusion

    if not has_confusion(task):
        raise InputError(
            f"only a classifier with single labels has a confusion matrix, and this is {task_shown(task)}: "
            "leave --plot out"
        )
    check_matplotlib()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
