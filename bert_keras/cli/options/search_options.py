"""What `finetune --search N` checks and prints."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bert_keras.cli.console.report import print_table
from bert_keras.cli.options.training_options import format_backups
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.option_spelling import spell_flag
from bert_keras.publishing import get_companion_folder
from bert_keras.training.search.trials import check_search_installed, format_trials

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.tasks.examples.training_data import TrainingData
    from bert_keras.training.config.finetuning_settings import FineTuning
    from bert_keras.training.finetuning import FineTuned
    from bert_keras.training.search.searched_finetuning import Search, SearchSpace
    from bert_keras.training.search.trials import TrialResult
    from bert_keras.training.tracking.tracked_training import FitProgress

# the printed line of each setting that a search may vary
_LINES = {
    "learning_rate": "learning rate",
    "batch_size": "batches",
    "weight_decay": "weight decay",
    "layer_decay": "layer decay",
}
_WARMUP = "warmup_ratio"  # part of the line of the learning rate


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


def make_space(
    arguments: argparse.Namespace,
    settings: FineTuning,
    checkpoint: Checkpoint,
    data: TrainingData,
    num_replicas: int,
) -> SearchSpace | None:
    """Return what `--search` varies; None without the option.

    Raises:
        InputError: there is nothing to vary.
    """
    if arguments.search is None:
        return None
    from bert_keras.training.search.searched_finetuning import make_search_space

    return make_search_space(
        settings,
        hidden_dim=checkpoint.config.hidden_dim,
        num_sequences=len(data.train),
        fixed=arguments.given_settings,
        batch_multiple=num_replicas * settings.accumulation_steps,
    )


def describe_search(arguments: argparse.Namespace, space: SearchSpace | None) -> dict[str, object]:
    """Return the number of trials and the ranges, and where trials are recorded, to print."""
    if space is None:
        return {"backups": format_backups(arguments)}
    trials = f"each finished trial, in {get_companion_folder(arguments.out, 'search')}"
    return {"search": f"{arguments.search} trials; {space.describe()}", "backups": trials}


def leave_out_searched(
    described: Mapping[str, object], settings: FineTuning, space: SearchSpace | None
) -> dict[str, object]:
    """Return the printed settings without those that a search varies: each trial has its own."""
    if space is None:
        return dict(described)
    lines = {_LINES[name] for name in space.varied if name in _LINES}
    shown = {line: value for line, value in described.items() if line not in lines}
    rate = _LINES["learning_rate"]
    if rate in shown and _WARMUP in space.varied:
        shown[rate] = f"{settings.learning_rate:g}"
    if rate in lines and _WARMUP not in space.varied:
        shown["warm-up"] = f"{settings.warmup_ratio:.0%}"
    return shown


def make_search(arguments: argparse.Namespace, progress: FitProgress) -> Search | None:
    """Return the search of `--search`, which prints a line per trial; None without the option."""
    if arguments.search is None:
        return None
    from bert_keras.training.search.searched_finetuning import Search

    def print_trial(trial: TrialResult) -> None:
        score = "no score" if trial.score is None else f"{trial.score:.4g}"
        text = f"trial {trial.number} of {arguments.search}: {score}, {trial.outcome}, {trial.describe()}"
        progress.print(text, event="trial", trial=trial.number, score=trial.score, outcome=trial.outcome)
        progress.restart()

    return Search(arguments.search, arguments.given_settings, print_trial)


def print_trials(tuned: FineTuned) -> None:
    """Print the table of trials, if there was a search."""
    if tuned.trials:
        print_table(*format_trials(tuned.trials, tuned.task.main_score))
