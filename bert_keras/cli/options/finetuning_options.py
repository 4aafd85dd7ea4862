"""Options of `finetune`, the TOML file that can replace them, and what `--search N` checks and prints.

Options of settings have no default for argparse, so that `apply_config` can tell which of them were given.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bert_keras.cli.options import task_options, training_options
from bert_keras.cli.options.argument_checks import (
    add_model,
    add_option,
    add_path,
    format_default,
    non_negative_integer,
    positive_integer,
    positive_number,
)
from bert_keras.cli.options.training_options import format_backups
from bert_keras.config import PROBLEMS
from bert_keras.errors import InputError
from bert_keras.heads.embed import OBJECTIVES
from bert_keras.pipelines.readers.option_spelling import spell_flag
from bert_keras.publishing import get_companion_folder
from bert_keras.tasks.examples.option_checks import DEV_SHARE
from bert_keras.training.config.finetuning_settings import (
    LEARNING_RATE,
    LORA_HEAD_RATE_FACTOR,
    LORA_LEARNING_RATE,
    FineTuning,
)
from bert_keras.training.config.settings_files import FINETUNING_KEYS, read_finetuning_file
from bert_keras.training.config.tables import DTYPE_POLICIES
from bert_keras.training.search.searched_finetuning import check_search_installed

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.tasks.examples.training_data import TrainingData
    from bert_keras.training.config.finetuning_settings import FineTuning
    from bert_keras.training.search.searched_finetuning import Search, SearchSpace, TrialResult
    from bert_keras.training.tracking.tracked_training import FitProgress


# flag, field of FineTuning, type or choices, help
FLAGS = (
    ("--epochs", "num_epochs", positive_integer, "number of training epochs"),
    ("--batch-size", "batch_size", positive_integer, "sequences per step (embed: pairs)"),
    ("--learning-rate", "learning_rate", positive_number, "peak learning rate; 2e-5 to 5e-5 for base, 1e-3 for tiny"),
    ("--warmup-ratio", "warmup_ratio", float, "fraction of steps with a rising learning rate"),
    ("--weight-decay", "weight_decay", float, "weight decay of matrices and embedding tables"),
    ("--layer-decay", "layer_decay", float, "learning-rate factor from each block to the one below; 1: equal rates"),
    ("--head-rate-factor", "head_rate_factor", positive_number, "learning-rate factor of the head"),
    ("--freeze-blocks", "frozen_blocks", non_negative_integer, "freeze the embeddings and N lower blocks"),
    ("--lora-rank", "lora_rank", positive_integer, "train LoRA adapters of this rank and the head; the rest is frozen"),
    ("--lora-alpha", "lora_alpha", positive_integer, "the adapters are scaled by N / rank (default: twice the rank)"),
    ("--patience", "patience", non_negative_integer, "stop after this many epochs without improvement; 0: never"),
    ("--seed", "seed", non_negative_integer, "random seed of the head, dropout and data order"),
    ("--accumulation-steps", "accumulation_steps", positive_integer, "micro-batches per step"),
    ("--dtype", "dtype_policy", DTYPE_POLICIES, "Keras dtype policy"),
)

# options of single tasks: flag, type or choices, help
_TASK_FLAGS = (
    ("--problem", PROBLEMS, "classify: kind of labels (default single_label)"),
    ("--class-weights", ("equal", "balanced"), "classify: balanced gives rare classes more weight (default equal)"),
    ("--labelled-tokens", ("first", "all"), "tag: tokens of a word that are trained with its tag (default first)"),
    ("--max-answer-length", positive_integer, "answer: maximum number of tokens in an answer (default 30)"),
    (
        "--objective",
        tuple(OBJECTIVES),
        "embed: regression for pairs with scores, contrastive for pairs that match (default regression)",
    ),
)

_FIELDS = tuple(field.name for field in dataclasses.fields(FineTuning))
_DEFAULTS = {
    "task": task_options.TASK_NAMES[0],
    "on_error": "stop",
    **dataclasses.asdict(FineTuning()),
    "learning_rate": None,  # this and the next depend on --lora-rank
    "head_rate_factor": None,
}
# options whose key in the file has another name
_OPTION_NAMES = {
    **{key: field for flag, field, *_ in FLAGS if (key := flag.removeprefix("--").replace("-", "_")) != field},
    "keep_last": "keep_best",
}

# the printed line of each setting that a search may vary
_LINES = {
    "learning_rate": "learning rate",
    "batch_size": "batches",
    "weight_decay": "weight decay",
    "layer_decay": "layer decay",
}
_WARMUP = "warmup_ratio"  # part of the line of the learning rate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model(parser, "checkpoint", "BERT or ELECTRA folder with a WordPiece vocabulary")
    add_path(parser, "out", "output checkpoint folder")
    add_option(parser, "--config", pathlib.Path, "TOML file with settings; options override it")
    add_option(parser, "--task", task_options.TASK_NAMES, "task to train for (default classify)")
    add_option(parser, "--train", pathlib.Path, "file with training examples; required here or in --config")
    add_option(parser, "--dev", pathlib.Path, "file with held-out examples (default: a fraction of --train)")
    text = f"without --dev: fraction of --train that is held out, stratified by class (default {DEV_SHARE:g})"
    add_option(parser, "--dev-share", positive_number, text)
    for flag, kind, text in _TASK_FLAGS:
        add_option(parser, flag, kind, text)
    task_options.add_prompt(parser, default="that of CHECKPOINT; it becomes the default prompt of OUT")
    task_options.add_length_options(
        parser,
        length="128, answer 384",
        overlap="tag 32, answer 128, proportionally less for shorter sequences; other tasks truncate",
    )
    task_options.add_on_error(parser)
    parser.set_defaults(on_error=None)
    training = parser.add_argument_group("training")
    rates = {
        "learning_rate": f"{LEARNING_RATE:g}, or {LORA_LEARNING_RATE:g} with --lora-rank",
        "head_rate_factor": f"1, or {LORA_HEAD_RATE_FACTOR:g} with --lora-rank",
    }
    add_settings(training, FLAGS, {**_DEFAULTS, **rates})
    add_kept_epoch(training)
    add_option(
        training,
        "--search",
        positive_integer,
        "train N times with different learning rates, batch sizes and regularization, stop the worse half early, and "
        "write the best model; options that are given are not varied",
    )
    training_options.add_training_options(parser)
    task_options.add_file_options(parser)


def add_settings(parser: argparse.ArgumentParser, flags: Sequence[tuple], defaults: Mapping[str, object]) -> None:
    """Add options for settings, whose defaults only the help names.

    Args:
        parser: parser or argument group.
        flags: options as in `FLAGS`.
        defaults: the default of each setting; None or missing if it has none.
    """
    for flag, field, kind, text in flags:
        add_option(parser, flag, kind, text + format_default(defaults.get(field)), dest=field)


def add_kept_epoch(parser: argparse.ArgumentParser) -> None:
    """Add `--keep-last` and `--keep-best`."""
    kept = parser.add_mutually_exclusive_group()
    for flag, value, text in (
        ("--keep-last", False, "write the last epoch instead of the best one"),
        ("--keep-best", True, "write the best epoch; the default unless --config differs"),
    ):
        kept.add_argument(flag, dest="keep_best", action="store_const", const=value, help=text)


def apply_config(arguments: argparse.Namespace) -> None:
    """Set every option that was not given to its value in the file of `--config`, or else to its default.

    `given_settings` becomes the names of the training settings that an option or the file gives.

    Raises:
        InputError: the file cannot be read or has wrong keys or values; or neither it nor an option names the examples.
    """
    apply_settings_file(arguments, lambda path: read_finetuning_file(path, _OPTION_NAMES), FINETUNING_KEYS, _DEFAULTS)
    if arguments.train is None:
        raise InputError(
            'no training examples were named; expected a file: add --train FILE, or train = "FILE" to the file of '
            "--config"
        )


def apply_settings_file(
    arguments: argparse.Namespace,
    read: Callable[[pathlib.Path], dict[str, object]],
    keys: Sequence[str],
    defaults: Mapping[str, object],
) -> None:
    """Set options as `apply_config` does.

    Args:
        arguments: the options.
        read: reads the file of `--config`.
        keys: the options that the file can give.
        defaults: the defaults of the options.
    """
    given = {name for name in keys if getattr(arguments, name, None) is not None}
    values = {} if arguments.config is None else read(arguments.config)
    for name, other in (("dev", "dev_share"), ("dev_share", "dev")):  # an option replaces its alternative in the file
        if name in given and other not in given:
            values.pop(other, None)
    arguments.given_settings = sorted((given | values.keys()) & set(_FIELDS))
    for name in keys:
        if name not in given:
            setattr(arguments, name, values.get(name, defaults.get(name)))


def make_settings(arguments: argparse.Namespace, kind: type[FineTuning] = FineTuning) -> FineTuning:
    """Return the settings of a run, after its settings file was applied.

    Raises:
        InputError: a setting is out of range, or settings do not fit together.
    """
    return kind(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(kind)})


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
