"""Fine-tune a checkpoint: classify texts, tag words, answer questions, embed sentences.

Labels are learned from the training file. After each epoch the model is scored on held-out examples, those of
--dev or else a tenth of the training file, and the best epoch is what OUT holds, with metrics.json and a model card.

classify, embed: tables of texts or pairs (.csv, .tsv, .jsonl, .json); tag: words with tags (.conll, .conllu, .jsonl,
.json); answer: questions in the form of SQuAD (.json, .jsonl).
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from bert_keras.checks import format_count
from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.report import print_result, print_settings, print_table, print_warnings
from bert_keras.cli.console.terminal import print_line
from bert_keras.cli.options import task_options, training_options
from bert_keras.cli.options.argument_checks import (
    check_all,
    check_exists,
    positive_integer,
    positive_number,
    whole_number,
)
from bert_keras.cli.options.model_folder import read_model
from bert_keras.config import PROBLEMS
from bert_keras.errors import InputError, MissingExtraError
from bert_keras.figures import check_matplotlib
from bert_keras.tasks.examples.option_checks import DEV_SHARE
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.config.tables import DTYPE_POLICIES

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.tasks.base import Task
    from bert_keras.tasks.examples.training_data import TrainingData

# flag, field of FineTuning, type or choices, help
_FLAGS = (
    ("--epochs", "num_epochs", positive_integer, "passes over the examples"),
    ("--batch-size", "batch_size", positive_integer, "rows a step; embed: pairs"),
    ("--learning-rate", "learning_rate", positive_number, "the peak; 2e-5 to 5e-5 for base, 1e-3 for tiny"),
    ("--warmup-ratio", "warmup_ratio", float, "share of the steps in which the rate rises"),
    ("--weight-decay", "weight_decay", float, "of matrices and tables"),
    ("--layer-decay", "layer_decay", float, "rates fall by this factor from block to block down; 1: none do"),
    ("--freeze-blocks", "frozen_blocks", whole_number, "keep embeddings and so many blocks (default: train all)"),
    ("--patience", "patience", whole_number, "stop after so many epochs that are no better; 0: never"),
    ("--seed", "seed", whole_number, "draws head, dropout and order"),
    ("--accumulation-steps", "accumulation_steps", positive_integer, "parts a step is computed in"),
    ("--dtype", "dtype_policy", DTYPE_POLICIES, "precision"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint",
        type=pathlib.Path,
        metavar="CHECKPOINT",
        help="a BERT or ELECTRA folder with a WordPiece vocabulary",
    )
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the checkpoint folder to write")
    parser.add_argument(
        "--task", choices=task_options.TASK_NAMES, default="classify", help="what is learned (default %(default)s)"
    )
    parser.add_argument("--train", type=pathlib.Path, required=True, metavar="FILE", help="examples to learn from")
    parser.add_argument(
        "--dev", type=pathlib.Path, metavar="FILE", help="held-out examples (default: a share of --train is held out)"
    )
    parser.add_argument(
        "--dev-share",
        type=positive_number,
        metavar="SHARE",
        help=f"without --dev: how much is held out, of each class in proportion (default {DEV_SHARE:g})",
    )
    parser.add_argument("--problem", choices=PROBLEMS, help="classify: what a label is (default single_label)")
    parser.add_argument(
        "--class-weights", choices=("equal", "balanced"), help="classify: balanced helps rare classes (default equal)"
    )
    parser.add_argument(
        "--labelled-tokens", choices=("first", "all"), help="tag: which tokens of a word learn its tag (default first)"
    )
    parser.add_argument(
        "--max-answer-length", type=positive_integer, metavar="TOKENS", help="answer: the longest (default 30)"
    )
    parser.add_argument(
        "--objective",
        choices=("regression", "contrastive"),
        help="embed: pairs with scores, or pairs that belong together (default regression)",
    )
    task_options.add_prompt(parser, otherwise="the checkpoint's own default; OUT has it as its default")
    task_options.add_length_options(
        parser,
        length="128, answer 384",
        overlap="tag 32, answer 128, less where rows are shorter than by default; others cut them",
    )
    defaults = FineTuning()
    for flag, field, kind, text in _FLAGS:
        default = getattr(defaults, field)
        typed = {"choices": kind} if isinstance(kind, tuple) else {"type": kind, "metavar": "N"}
        shown = f" (default {default:g})" if isinstance(default, float) else f" (default {default})"
        parser.add_argument(flag, dest=field, default=default, help=text + shown * (default is not None), **typed)
    parser.add_argument("--keep-last", action="store_true", help="end with the last epoch, not the best")
    task_options.add_file_options(parser)
    task_options.add_on_error(parser)
    training_options.add_training_options(parser)


def run(arguments: argparse.Namespace) -> None:
    checkpoint, settings = _checked(arguments)
    if arguments.workers is not None:
        _read(arguments, checkpoint)  # so that a bad file is reported once, and at once
        training_options.started_workers(arguments)
        return
    data = _read(arguments, checkpoint)
    load_tensorflow()
    strategy = training_options.prepare_devices(arguments)
    from bert_keras.cli.console.fit_progress import FitProgress
    from bert_keras.training import run_finetuning
    from bert_keras.training.finetuning_data import collect_metrics, describe_epoch
    from bert_keras.training.strategies import is_chief

    what, how = _task_shown(data), _training_shown(settings, data.task, strategy)
    names = {"checkpoint": arguments.checkpoint, "out": arguments.out} | _files_shown(arguments, data, str)
    backups = {"backups": training_options.backups_shown(arguments)}
    print_settings("finetune", names | what | how | backups)
    print_warnings(data.warnings)
    with training_options.only_training_of(arguments.out, strategy):
        with FitProgress(None) as progress:
            tuned = run_finetuning(
                data.task,
                checkpoint,
                data.train,
                data.dev,
                settings,
                callbacks=[progress],
                strategy=strategy,
                backup=training_options.make_backup_options(arguments, strategy),
            )
        if not is_chief(strategy):
            return
        tuned = dataclasses.replace(tuned, data=data)
        _tell_missing_picture(data.task)
        _save(arguments, tuned, _files_shown(arguments, data, _file_name) | what | how)
    print_table(["epoch", *tuned.epochs[0]], [[place, *epoch.values()] for place, epoch in enumerate(tuned.epochs, 1)])
    skipped = f"; {format_count(data.bad.num_bad, 'bad example')} skipped" if data.bad.num_bad else ""
    sentence = (
        f"wrote {arguments.out}: {task_options.scores_shown(tuned.scores, tuned.task.main_score)} on {len(data.dev):,} "
        f"held-out examples ({describe_epoch(tuned)}){skipped}"
    )
    result = {"out": str(arguments.out), **collect_metrics(tuned), "warnings": list(data.warnings)}
    print_result(sentence, result, as_json=arguments.json)


def _checked(arguments: argparse.Namespace) -> tuple[Checkpoint, FineTuning]:
    """Checks what can be checked before the examples are read, and returns the checkpoint and how to train."""
    files = [path for path in (arguments.train, arguments.dev) if path is not None]
    checkpoint, *_, settings = check_all(
        lambda: read_model(arguments.checkpoint),
        lambda: _check_dev_share(arguments),
        *(lambda path=path: check_exists(path, "a file of examples") for path in files),
        lambda: training_options.check_out(arguments, arguments.checkpoint, *files),
        lambda: task_options.check_options_of_task(arguments, arguments.task, arguments.problem),
        *(lambda path=path: task_options.check_ending(path, arguments.task, arguments.format) for path in files),
        lambda: settings_of(arguments),
    )
    return checkpoint, settings


def _check_dev_share(arguments: argparse.Namespace) -> None:
    """Raises `InputError` if held-out examples are named and held out of the training file."""
    if arguments.dev_share is None:
        return
    if arguments.dev is not None:
        raise InputError(
            f"--dev {arguments.dev} and --dev-share {arguments.dev_share:g} both say which examples are held out; "
            "expected one of them: leave the other out"
        )
    from bert_keras.tasks.examples.held_out import check_dev_share

    check_dev_share(arguments.dev_share)


def _read(arguments: argparse.Namespace, checkpoint: Checkpoint) -> TrainingData:
    """Returns the examples to learn from and to score on, and the task, with rows that the checkpoint can read."""
    from bert_keras.tasks.examples.training_data import TASK_SETTINGS, read_training_data_for_checkpoint

    return read_training_data_for_checkpoint(
        checkpoint,
        arguments.task,
        arguments.train,
        arguments.dev,
        task_options.file_options(arguments),
        dev_share=DEV_SHARE if arguments.dev_share is None else arguments.dev_share,
        seed=arguments.seed,
        on_error=arguments.on_error,
        **task_options.said(arguments, *TASK_SETTINGS, "prompt"),
    )


def settings_of(arguments: argparse.Namespace) -> FineTuning:
    """Returns how to train.

    Raises:
        InputError: a setting is out of range.
    """
    given = {field: getattr(arguments, field) for _, field, _, _ in _FLAGS}
    return FineTuning(
        **given, keep_best=not arguments.keep_last, gradient_checkpointing=arguments.gradient_checkpointing
    )


def _files_shown(
    arguments: argparse.Namespace, data: TrainingData, spell: Callable[[pathlib.Path], object]
) -> dict[str, object]:
    """Returns what it is learned from; `spell` says how paths are written."""
    shown = {
        "checkpoint": spell(arguments.checkpoint),
        "train": f"{spell(arguments.train)} ({len(data.train):,} examples)",
    }
    if data.held_out is not None:
        return {**shown, "dev": f"{len(data.dev):,} examples of {spell(arguments.train)}: {data.held_out.describe()}"}
    shown["dev"] = f"{spell(arguments.dev)} ({len(data.dev):,} examples)"
    if arguments.dev.resolve() == arguments.train.resolve():
        shown["dev"] += ", which are learned too: their scores flatter"
    return shown


def _task_shown(data: TrainingData) -> dict[str, object]:
    """Returns what is learned, in words."""
    from bert_keras.tasks.confusion_report import has_confusion

    task = data.task
    shown = task_options.skipped_shown(data.bad)
    shown |= {"task": task_options.task_shown(task), **task_options.columns_shown(data.columns)}
    if labels := getattr(task, "labels", ()):
        shown["labels"] = f"{len(labels)}: {', '.join(labels[:8])}{' ...' if len(labels) > 8 else ''}"
    if has_confusion(task):
        shown["to beat"] = _majority(data.train, data.dev)
    shown |= task_options.prompt_shown(task)
    shown["rows"] = task_options.rows_shown(task)
    rare = ("class_weights", "labelled_tokens", "max_answer_length", "highest_score")
    unusual = {name: getattr(task, name, None) for name in rare}
    usual = (None, "equal", "first", 1.0)
    return shown | {_spelled(name): value for name, value in unusual.items() if value not in usual}


def _training_shown(settings: FineTuning, task: Task, strategy) -> dict[str, object]:
    """Returns how it is learned, in words; of the rarer settings those that are not the usual ones."""
    kept = f"the best by {task.main_score}" if settings.keep_best else "the last"
    stopped = f", stopped after {settings.patience} that are no better" if settings.patience else ""
    usual, rare = FineTuning(), ("weight_decay", "layer_decay", "frozen_blocks", "dtype_policy")
    unusual = {name: getattr(settings, name) for name in rare if getattr(settings, name) != getattr(usual, name)}
    return {
        "epochs": f"{settings.num_epochs}{stopped}; {kept} is kept",
        "batches": training_options.batch_arithmetic(settings.batch_size, strategy, settings.accumulation_steps),
        "learning rate": f"{settings.learning_rate:g}, {settings.warmup_ratio:.0%} warm-up",
        **{_spelled(name): value for name, value in unusual.items()},
        "seed": settings.seed,
    }


def _majority(train: list, dev: list) -> str:
    """Returns what a model without eyes would score."""
    [(label, _)] = collections.Counter(example.label for example in train).most_common(1)
    share = sum(example.label == label for example in dev) / len(dev)
    return f"accuracy {share:.4g}, of always saying {label}"


def _spelled(name: str) -> str:
    return name.replace("_", " ")


def _file_name(path: pathlib.Path) -> str:
    return path.absolute().name


def _save(arguments: argparse.Namespace, tuned, shown: dict[str, object]) -> None:
    """Writes OUT; `shown` is what the model card says of the training."""
    from bert_keras.checkpoints import save
    from bert_keras.training.finetuning_data import folder_parts, pictures

    parts = folder_parts(tuned, shown, pictures=pictures(tuned)) | {"overwrite": arguments.overwrite}
    training_options.publish(arguments, lambda folder: save(tuned.model, tuned.tokenizer, folder, **parts))


def _tell_missing_picture(task: Task) -> None:
    """Prints that matplotlib is missing, where it would draw a picture."""
    from bert_keras.tasks.confusion_report import has_confusion

    if has_confusion(task):
        try:
            check_matplotlib()
        except MissingExtraError as error:
            print_line(f"  no confusion_matrix.png: {error}")
