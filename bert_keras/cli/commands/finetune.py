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
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bert_keras.cli.console import Result, print_table
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options import finetuning_options, task_options, training_options
from bert_keras.cli.options.declaring import Options, positive_integer
from bert_keras.cli.options.finetuning_options import describe_training, get_file_name, to_words
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.option_spelling import spell_flag
from bert_keras.publishing import get_companion_folder
from bert_keras.training.config.finetuning_settings import FineTuning, TaskSettings
from bert_keras.training.config.settings import list_fields
from bert_keras.training.search.searched_finetuning import check_search_installed, format_trials

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.heads.task import Task
    from bert_keras.training.finetuned_folder import FineTuned
    from bert_keras.training.search.searched_finetuning import SearchSpace, TrialResult
    from bert_keras.training.tracking.tracked_training import FitProgress
    from bert_keras.training.training_data import TrainingData

# the printed line of each setting that a search may vary
_LINES = {
    "learning_rate": "learning rate",
    "batch_size": "batches",
    "weight_decay": "weight decay",
    "layer_decay": "layer decay",
}
_WARMUP = "warmup_ratio"  # part of the line of the learning rate


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_model("checkpoint", "BERT or ELECTRA folder with a WordPiece vocabulary")
    for name in list_fields(TaskSettings):
        if name != "prompt":  # other commands have it too
            finetuning_options.add_setting(options, TaskSettings, name)
    task_options.add_prompt(options, default="that of CHECKPOINT; it becomes the default prompt of OUT")
    training = finetuning_options.add_finetuning_options(
        options,
        FineTuning,
        train="file with training examples; required here or in --config",
        length="128, answer 384",
        overlap="tag 32, answer 128, proportionally less for shorter sequences; other tasks truncate",
    )
    training.add_option(
        "--search",
        positive_integer,
        "train N times with different learning rates, batch sizes and regularization, stop the worse half early, and "
        "write the best model; options that are given are not varied",
    )


def apply_config(arguments: argparse.Namespace) -> None:
    """Apply the file of `--config`, see `apply_settings_file`.

    Raises:
        InputError: the file is wrong, or neither it nor an option names the examples.
    """
    from bert_keras.training.config.settings_files import FineTuningFile

    finetuning_options.apply_settings_file(arguments, FineTuningFile)
    if arguments.train is None:
        raise InputError(
            'no training examples were named; expected a file: add --train FILE, or train = "FILE" to the file of '
            "--config"
        )


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    apply_config(arguments)
    checkpoint, settings = _checked(arguments)
    data = _read(arguments, checkpoint)  # before the workers start, so that a bad file is reported once
    if training_options.run_in_workers(arguments):
        return None
    adapters = _describe_adapters(settings, data.task, checkpoint)
    load_tensorflow()
    strategy = training_options.prepare_devices(arguments)
    from bert_keras.training.finetuning_to_folder import finetune
    from bert_keras.training.search.searched_finetuning import Search, make_search_space

    described = _describe_task(data) | describe_training(settings, data.task, strategy) | adapters
    backups = {"backups": training_options.format_backups(arguments)}
    if arguments.search is not None:
        space = make_search_space(
            settings,
            hidden_dim=checkpoint.config.hidden_dim,
            num_sequences=len(data.train),
            fixed=arguments.given_settings,
            batch_multiple=strategy.num_replicas_in_sync * settings.accumulation_steps,
        )
        described = leave_out_searched(described, settings, space)
        trials = f"each finished trial, in {get_companion_folder(arguments.out, 'search')}"
        backups = {"search": f"{arguments.search} trials; {space.describe()}", "backups": trials}
    names = {"checkpoint": arguments.checkpoint, "out": arguments.out}
    names |= {} if arguments.config is None else {"config": arguments.config}
    names |= _describe_files(arguments, data, str)
    facts = _describe_files(arguments, data, get_file_name) | described

    def train(progress: FitProgress, same: dict[str, object]) -> FineTuned:
        report = functools.partial(_print_trial, progress, arguments.search)
        search = arguments.search and Search(arguments.search, arguments.given_settings, report)
        return finetune(checkpoint, arguments.out, search=search, card_facts=facts, **same)

    shown = names | described | backups
    tuned = finetuning_options.run_training(arguments, data, settings, strategy, shown, train)
    return None if tuned is None else _make_result(arguments, tuned)


def _make_result(arguments: argparse.Namespace, tuned: FineTuned) -> Result:
    if tuned.trials:
        print_table(*format_trials(tuned.trials, tuned.task.main_score))
    finetuning_options.print_epochs(tuned)
    scores = task_options.format_scores(tuned.scores, tuned.task.main_score)
    result = {"out": str(arguments.out), **tuned.collect_metrics(), "warnings": list(tuned.data.warnings)}
    if tuned.trials:
        result["trials"] = [dataclasses.asdict(trial) for trial in tuned.trials]
    return finetuning_options.format_written(arguments, tuned, scores), result


def _checked(arguments: argparse.Namespace) -> tuple[Checkpoint, FineTuning]:
    """Run the checks that do not read the examples; return the checkpoint and the settings."""
    files = [path for path in (arguments.train, arguments.dev) if path is not None]
    checkpoint, settings = finetuning_options.check_training(
        arguments,
        arguments.checkpoint,
        FineTuning,
        files,
        [],
        lambda: task_options.check_options_of_task(arguments, arguments.task, arguments.problem),
        *(lambda path=path: task_options.check_extension(path, arguments.task, arguments.format) for path in files),
        lambda: check_search(arguments),
    )
    if settings.lora_rank is not None:
        from bert_keras.checkpoints.adapters.adapter_files import check_rank

        check_rank(settings.lora_rank, checkpoint)
    return checkpoint, settings


def _read(arguments: argparse.Namespace, checkpoint: Checkpoint) -> TrainingData:
    """Read the training and held-out examples, and create the task."""
    from bert_keras.training.training_data import TASK_SETTINGS, read_training_data_for_checkpoint

    return read_training_data_for_checkpoint(
        checkpoint,
        arguments.task,
        arguments.train,
        arguments.dev,
        task_options.get_file_options(arguments),
        **finetuning_options.get_reading_options(arguments),
        **task_options.get_given_options(arguments, *TASK_SETTINGS, "prompt"),
    )


def _describe_files(
    arguments: argparse.Namespace, data: TrainingData, format_path: Callable[[pathlib.Path], object]
) -> dict[str, object]:
    """Return the checkpoint and the data files, to print; `format_path` formats the paths."""
    return {
        "checkpoint": format_path(arguments.checkpoint),
        "train": f"{format_path(arguments.train)} ({len(data.train):,} examples)",
        "dev": finetuning_options.describe_dev(arguments, data, arguments.train, format_path),
    }


def _describe_task(data: TrainingData) -> dict[str, object]:
    """Return the task and its labels, to print."""
    task = data.task
    shown = task_options.describe_skipped(data.bad)
    facts = task_options.describe_columns(data.columns)
    if labels := getattr(task, "labels", ()):
        facts["labels"] = f"{len(labels)}: {', '.join(labels[:8])}{' ...' if len(labels) > 8 else ''}"
    if task.has_confusion_matrix:
        [(label, _)] = collections.Counter(example.label for example in data.train).most_common(1)
        share = sum(example.label == label for example in data.dev) / len(data.dev)
        facts["baseline"] = f"accuracy {share:.4g} (always {label})"
    shown |= task_options.describe_task(task, **facts)
    rare = ("class_weights", "labelled_tokens", "max_answer_length", "highest_score")
    unusual = {name: getattr(task, name, None) for name in rare}
    usual = (None, "equal", "first", 1.0)
    return shown | {to_words(name): value for name, value in unusual.items() if value not in usual}


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


def check_search(arguments: argparse.Namespace) -> None:
    """Check what can be checked before the examples are read, if `--search` is given.

    Raises:
        InputError: Optuna is missing, several workers were asked for, or an interrupted search would be forgotten.
    """
    from bert_keras.training.search.searched_finetuning import check_no_trials

    found = {"resume": arguments.resume, "overwrite": arguments.overwrite, "spell": spell_flag}
    check_no_trials(arguments.out, has_search=arguments.search is not None, **found)
    if arguments.search is None:
        return
    check_search_installed()
    if arguments.workers is not None or arguments.strategy == "multi-worker":
        raise InputError(
            "--search runs on one machine, and several workers were asked for; expected --strategy one-device, "
            "mirrored or tpu: search without --workers, then train with the settings of the best trial"
        )


def leave_out_searched(described: Mapping[str, object], settings: FineTuning, space: SearchSpace) -> dict[str, object]:
    """Return the printed settings without those that a search varies: each trial has its own."""
    lines = {_LINES[name] for name in space.varied if name in _LINES}
    shown = {line: value for line, value in described.items() if line not in lines}
    rate = _LINES["learning_rate"]
    if rate in shown and _WARMUP in space.varied:
        shown[rate] = f"{settings.learning_rate:g}"
    if rate in lines and _WARMUP not in space.varied:
        shown["warm-up"] = f"{settings.warmup_ratio:.0%}"
    return shown


def _print_trial(progress: FitProgress, num_trials: int, trial: TrialResult) -> None:
    score = "no score" if trial.score is None else f"{trial.score:.4g}"
    text = f"trial {trial.number} of {num_trials}: {score}, {trial.outcome}, {trial.describe()}"
    progress.print(text, event="trial", trial=trial.number, score=trial.score, outcome=trial.outcome)
    progress.restart()
