"""Fine-tune a checkpoint for text classification, token tagging, question answering or sentence embedding.

The set of labels is taken from the training file. After each epoch the model is evaluated on held-out examples: those
of --dev, or else a tenth of the training file. OUT contains the best epoch, metrics.json and a model card.

Settings come from --config and the other options, which override it. The resolved settings are saved as
finetuning.toml in OUT.

Input files: classify, embed: tables of texts or pairs (.csv, .tsv, .jsonl, .json); tag: words with tags (.conll,
.conllu, .jsonl, .json); answer: questions in SQuAD format (.json, .jsonl).
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from bert_keras.checks import format_count
from bert_keras.cli.console import print_line, print_result, print_settings, print_table, print_warnings
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options import finetuning_options, task_options, training_options
from bert_keras.cli.options.argument_checks import check_all, check_exists, read_model
from bert_keras.cli.options.finetuning_options import (
    check_search,
    describe_search,
    leave_out_searched,
    make_search,
    make_space,
)
from bert_keras.errors import InputError, MissingExtraError
from bert_keras.figures import check_matplotlib
from bert_keras.tasks.examples.option_checks import DEV_SHARE
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.search.searched_finetuning import format_trials

if TYPE_CHECKING:
    import tensorflow as tf

    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.tasks.base import Task
    from bert_keras.tasks.examples.training_data import TrainingData
    from bert_keras.training.finetuned_folder import FineTuned

add_arguments = finetuning_options.add_arguments


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    finetuning_options.apply_config(arguments)
    checkpoint, settings = _checked(arguments)
    if arguments.workers is not None:
        _read(arguments, checkpoint)  # so that a bad file is reported once, before the workers start
        training_options.run_in_workers(arguments)
        return
    data = _read(arguments, checkpoint)
    adapters = _describe_adapters(settings, data.task, checkpoint)
    load_tensorflow()
    strategy = training_options.prepare_devices(arguments)
    from bert_keras.training.finetuning_to_folder import finetune
    from bert_keras.training.strategies import is_chief
    from bert_keras.training.tracking.tracked_training import FitProgress

    described = _describe_task(data) | describe_training(settings, data.task, strategy)
    described |= adapters
    space = make_space(arguments, settings, checkpoint, data, strategy.num_replicas_in_sync)
    described = leave_out_searched(described, settings, space)
    names = {"checkpoint": arguments.checkpoint, "out": arguments.out}
    names |= {} if arguments.config is None else {"config": arguments.config}
    names |= _describe_files(arguments, data, str)
    print_settings("finetune", names | described | describe_search(arguments, space))
    print_warnings(data.warnings)
    with FitProgress(None) as progress:
        tuned = finetune(
            checkpoint,
            arguments.out,
            train=data,
            search=make_search(arguments, progress),
            card_facts=_describe_files(arguments, data, get_file_name) | described,
            **training_options.get_run_arguments(arguments, progress, strategy),
            **dataclasses.asdict(settings),
        )
    if not is_chief(strategy):
        return
    report_missing_matplotlib(data.task)
    _print_result(arguments, tuned)


def _print_result(arguments: argparse.Namespace, tuned: FineTuned) -> None:
    data = tuned.data
    if tuned.trials:
        print_table(*format_trials(tuned.trials, data.task.main_score))
    print_table(["epoch", *tuned.epochs[0]], [[place, *epoch.values()] for place, epoch in enumerate(tuned.epochs, 1)])
    skipped = f"; {format_count(data.bad.num_bad, 'bad example')} skipped" if data.bad.num_bad else ""
    scores = task_options.format_scores(tuned.scores, tuned.task.main_score)
    sentence = (
        f"wrote {arguments.out}: {scores} on {len(data.dev):,} held-out examples ({tuned.describe_epoch()}){skipped}"
    )
    result = {"out": str(arguments.out), **tuned.collect_metrics(), "warnings": list(data.warnings)}
    if tuned.trials:
        result["trials"] = [dataclasses.asdict(trial) for trial in tuned.trials]
    print_result(sentence, result, as_json=arguments.json)


def _checked(arguments: argparse.Namespace) -> tuple[Checkpoint, FineTuning]:
    """Run the checks that do not read the examples; return the checkpoint and the settings."""
    files = [path for path in (arguments.train, arguments.dev) if path is not None]
    inputs = files if arguments.config is None else [*files, arguments.config]
    checkpoint, *_, settings = check_all(
        lambda: read_model(arguments.checkpoint),
        lambda: check_dev_share(arguments),
        *(lambda path=path: check_exists(path, "a file of examples") for path in files),
        lambda: training_options.check_out(arguments, arguments.checkpoint, *inputs),
        lambda: task_options.check_options_of_task(arguments, arguments.task, arguments.problem),
        *(lambda path=path: task_options.check_extension(path, arguments.task, arguments.format) for path in files),
        lambda: training_options.check_tracking(arguments),
        lambda: check_search(arguments),
        lambda: finetuning_options.make_settings(arguments),
    )
    if settings.lora_rank is not None:
        from bert_keras.checkpoints.adapters.adapter_files import check_rank

        check_rank(settings.lora_rank, checkpoint)
    return checkpoint, settings


def check_dev_share(arguments: argparse.Namespace) -> None:
    """Raise `InputError` if `--dev-share` is out of range, or was given together with `--dev`."""
    if arguments.dev_share is None:
        return
    if arguments.dev is not None:
        raise InputError(
            f"--dev {arguments.dev} and --dev-share {arguments.dev_share:g} were both given; expected one of them: "
            "leave the other out"
        )
    from bert_keras.tasks.examples import held_out

    held_out.check_dev_share(arguments.dev_share)


def _read(arguments: argparse.Namespace, checkpoint: Checkpoint) -> TrainingData:
    """Read the training and held-out examples, and create the task."""
    from bert_keras.tasks.examples.training_data import TASK_SETTINGS, read_training_data_for_checkpoint

    return read_training_data_for_checkpoint(
        checkpoint,
        arguments.task,
        arguments.train,
        arguments.dev,
        task_options.get_file_options(arguments),
        dev_share=DEV_SHARE if arguments.dev_share is None else arguments.dev_share,
        seed=arguments.seed,
        on_error=arguments.on_error,
        **task_options.get_given_options(arguments, *TASK_SETTINGS, "prompt"),
    )


def _describe_files(
    arguments: argparse.Namespace, data: TrainingData, format_path: Callable[[pathlib.Path], object]
) -> dict[str, object]:
    """Return the checkpoint and the data files, to print; `format_path` formats the paths."""
    shown = {
        "checkpoint": format_path(arguments.checkpoint),
        "train": f"{format_path(arguments.train)} ({len(data.train):,} examples)",
    }
    if data.held_out is not None:
        return {
            **shown,
            "dev": f"{len(data.dev):,} examples of {format_path(arguments.train)}: {data.held_out.describe()}",
        }
    shown["dev"] = f"{format_path(arguments.dev)} ({len(data.dev):,} examples)"
    if arguments.dev.resolve() == arguments.train.resolve():
        shown["dev"] += ", the same file as --train: the scores will be too high"
    return shown


def _describe_task(data: TrainingData) -> dict[str, object]:
    """Return the task and its labels, to print."""
    task = data.task
    shown = task_options.describe_skipped(data.bad)
    shown |= {"task": task_options.format_task(task), **task_options.describe_columns(data.columns)}
    if labels := getattr(task, "labels", ()):
        shown["labels"] = f"{len(labels)}: {', '.join(labels[:8])}{' ...' if len(labels) > 8 else ''}"
    if task.has_confusion_matrix:
        shown["baseline"] = _format_baseline(data.train, data.dev)
    shown |= task_options.describe_prompt(task)
    shown["sequences"] = task_options.format_lengths(task)
    rare = ("class_weights", "labelled_tokens", "max_answer_length", "highest_score")
    unusual = {name: getattr(task, name, None) for name in rare}
    usual = (None, "equal", "first", 1.0)
    return shown | {_to_words(name): value for name, value in unusual.items() if value not in usual}


def describe_training(settings: FineTuning, task: Task, strategy: tf.distribute.Strategy) -> dict[str, object]:
    """Return the training settings to print; the rarer ones only if they differ from their defaults."""
    kept = f"the best by {task.main_score}" if settings.keep_best else "the last"
    stopped = f", stopping after {settings.patience} without improvement" if settings.patience else ""
    usual, rare = FineTuning(), ("weight_decay", "layer_decay", "head_rate_factor", "frozen_blocks", "dtype_policy")
    unusual = {name: getattr(settings, name) for name in rare if getattr(settings, name) != getattr(usual, name)}
    return {
        "epochs": f"{settings.num_epochs}{stopped}; {kept} is kept",
        "batches": training_options.format_batch(settings.batch_size, strategy, settings.accumulation_steps),
        "learning rate": f"{settings.learning_rate:g}, {settings.warmup_ratio:.0%} warm-up",
        **{_to_words(name): f"{value:g}" if isinstance(value, float) else value for name, value in unusual.items()},
        "seed": settings.seed,
    }


def _describe_adapters(settings: FineTuning, task: Task, checkpoint: Checkpoint) -> dict[str, object]:
    """Return the LoRA adapters and how many parameters they train, to print; nothing without `--lora-rank`."""
    if settings.lora_rank is None:
        return {}
    from bert_keras.checkpoints.adapters.adapter_files import count_trained_parameters

    num_trained, num_parameters = count_trained_parameters(
        task.head.model_name,
        checkpoint,
        settings.lora_rank,
        num_classes=task.head_arguments().get("num_classes"),
        num_frozen_blocks=settings.frozen_blocks or 0,
    )
    share = f"{num_trained:,} of {num_parameters:,} parameters are trained ({num_trained / num_parameters:.2%})"
    return {"LoRA": f"rank {settings.lora_rank}, alpha {settings.lora_alpha}; {share}"}


def _format_baseline(train: list, dev: list) -> str:
    """Format the accuracy of the majority-class baseline."""
    [(label, _)] = collections.Counter(example.label for example in train).most_common(1)
    share = sum(example.label == label for example in dev) / len(dev)
    return f"accuracy {share:.4g} (always {label})"


def _to_words(name: str) -> str:
    return name.replace("_", " ")


def get_file_name(path: pathlib.Path | str) -> str:
    """Return the name of a file or folder, without its path; the name of a model on the Hub as it is."""
    return path if isinstance(path, str) else path.absolute().name


def report_missing_matplotlib(task: Task) -> None:
    """Print that matplotlib is missing if the task has a confusion matrix to draw."""
    if task.has_confusion_matrix:
        try:
            check_matplotlib()
        except MissingExtraError as error:
            print_line(f"  no confusion_matrix.png: {error}")
