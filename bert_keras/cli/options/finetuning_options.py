"""The parts that `finetune` and `distill` share: options, settings files, checks, and what they print.

Options of settings have no default for argparse, so that `apply_settings_file` can tell which of them were given.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from bert_keras.checks import format_count
from bert_keras.cli.console import print_line, print_settings, print_table, print_warnings
from bert_keras.cli.options import task_options, training_options
from bert_keras.cli.options.argument_checks import check_all, check_exists, read_model
from bert_keras.cli.options.declaring import Options, positive_number
from bert_keras.errors import InputError, MissingExtraError
from bert_keras.figures import check_matplotlib
from bert_keras.heads.examples.option_checks import DEV_SHARE
from bert_keras.pipelines.readers.option_spelling import spell_flag
from bert_keras.training.config.finetuning_settings import OPTION_NAMES, FineTuning
from bert_keras.training.config.settings import list_fields

if TYPE_CHECKING:
    import tensorflow as tf

    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.heads.task import Task
    from bert_keras.training.config.settings_files import ReadingKeys
    from bert_keras.training.distilling.distillation_data import DistillationData
    from bert_keras.training.finetuned_folder import FineTuned
    from bert_keras.training.tracking.tracked_training import FitProgress
    from bert_keras.training.training_data import TrainingData

Settings = TypeVar("Settings", bound=FineTuning)


def add_finetuning_options(
    options: Options, settings: type[FineTuning], *, train: str, length: str, overlap: str
) -> Options:
    """Add OUT, the options for the examples and those of `FineTuning`, and return the group of the latter.

    Args:
        options: the options of the command.
        settings: `FineTuning`, or a class that extends it, with its defaults.
        train: help of `--train`.
        length, overlap: the defaults of the options for long texts.
    """
    options.add_path("out", "output checkpoint folder")
    options.add_option("--config", pathlib.Path, "TOML file with settings; options override it")
    options.add_option("--train", pathlib.Path, train)
    options.add_option("--dev", pathlib.Path, "file with held-out examples (default: a fraction of --train)")
    text = f"without --dev: fraction of the examples that is held out, stratified by class (default {DEV_SHARE:g})"
    options.add_option("--dev-share", positive_number, text)
    task_options.add_length_options(options, length=length, overlap=overlap)
    task_options.add_on_error(options)
    options.parser.set_defaults(on_error=None)
    group = options.add_group("training")
    others = ("keep_best", "gradient_checkpointing", *(() if settings is FineTuning else ("lora_rank", "lora_alpha")))
    for name in list_fields(FineTuning):
        if name not in others:
            add_setting(group, settings, name)
    kept = group.parser.add_mutually_exclusive_group()
    for flag, value, text in (
        ("--keep-last", False, "write the last epoch instead of the best one"),
        ("--keep-best", True, "write the best epoch; the default unless --config differs"),
    ):
        kept.add_argument(flag, dest="keep_best", action="store_const", const=value, help=text)
    training_options.add_training_options(options)
    task_options.add_file_options(options)
    return group


def add_setting(options: Options, settings: type, name: str) -> None:
    """Add the option of a field of a settings class, under the name that it has for users."""
    options.add_setting(settings, name, flag=spell_flag(OPTION_NAMES.get(name, name)))


def apply_settings_file(arguments: argparse.Namespace, kind: type[ReadingKeys]) -> None:
    """Set every option that was not given to its value in the file of `--config`, or else to its default.

    `given_settings` becomes the names of the training settings that an option or the file gives.

    Args:
        arguments: the options.
        kind: the class of the keys of the file.

    Raises:
        InputError: the file cannot be read or has wrong keys or values.
    """
    from bert_keras.training.config.settings_files import read_settings_file

    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    given = {name for name in defaults if getattr(arguments, name, None) is not None}
    values = {} if arguments.config is None else read_settings_file(arguments.config, kind)
    for name, other in (("dev", "dev_share"), ("dev_share", "dev")):  # an option replaces its alternative in the file
        if name in given and other not in given:
            values.pop(other, None)
    arguments.given_settings = sorted((given | values.keys()) & set(list_fields(FineTuning)))
    for name in defaults.keys() - given:
        setattr(arguments, name, values.get(name, defaults[name]))


def make_settings(arguments: argparse.Namespace, kind: type[Settings] = FineTuning) -> Settings:
    """Return the settings of a run, after its settings file was applied.

    Raises:
        InputError: a setting is out of range, or settings do not fit together.
    """
    return kind(**{name: getattr(arguments, name) for name in list_fields(kind)})


def check_training(
    arguments: argparse.Namespace,
    model: pathlib.Path | str,
    kind: type[Settings],
    files: list[pathlib.Path],
    inputs: list[pathlib.Path],
    *checks: Callable[[], object],
) -> tuple[Checkpoint, Settings]:
    """Run the checks that do not read the examples; return the checkpoint and the settings.

    Args:
        arguments: the options.
        model: the checkpoint to start from.
        kind: the class of the settings.
        files: the files of examples.
        inputs: the other paths that the run reads.
        *checks: those of the command.

    Raises:
        InputError: a check failed; the message lists all problems.
    """
    inputs = [*files, *inputs, *([] if arguments.config is None else [arguments.config])]
    checkpoint, *_, settings = check_all(
        lambda: read_model(model),
        lambda: _check_dev_share(arguments),
        *(lambda path=path: check_exists(path, "a file of examples") for path in files),
        lambda: training_options.check_out(arguments, model, *inputs),
        *checks,
        lambda: training_options.check_tracking(arguments),
        lambda: make_settings(arguments, kind),
    )
    return checkpoint, settings


def _check_dev_share(arguments: argparse.Namespace) -> None:
    """Raise `InputError` if `--dev-share` is out of range, or was given together with `--dev`."""
    if arguments.dev_share is None:
        return
    if arguments.dev is not None:
        raise InputError(
            f"--dev {arguments.dev} and --dev-share {arguments.dev_share:g} were both given; expected one of them: "
            "leave the other out"
        )
    from bert_keras.heads.examples import held_out

    held_out.check_dev_share(arguments.dev_share)


def get_reading_options(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the arguments that the functions which read training and held-out examples share."""
    share = DEV_SHARE if arguments.dev_share is None else arguments.dev_share
    return {"dev_share": share, "seed": arguments.seed, "on_error": arguments.on_error}


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
        **{to_words(name): f"{value:g}" if isinstance(value, float) else value for name, value in unusual.items()},
        "seed": settings.seed,
    }


def describe_dev(
    arguments: argparse.Namespace,
    data: TrainingData | DistillationData,
    source: pathlib.Path,
    format_path: Callable[[pathlib.Path], object],
) -> str:
    """Return the held-out examples, to print; `source` is the file from which they were taken without `--dev`."""
    if data.held_out is not None:
        return f"{len(data.dev):,} examples of {format_path(source)}: {data.held_out.describe()}"
    is_train = arguments.train is not None and arguments.dev.resolve() == arguments.train.resolve()
    warning = ", the same file as --train: the scores will be too high" if is_train else ""
    return f"{format_path(arguments.dev)} ({len(data.dev):,} examples){warning}"


def to_words(name: str) -> str:
    """Return the name of a setting with spaces."""
    return name.replace("_", " ")


def get_file_name(path: pathlib.Path | str) -> str:
    """Return the name of a file or folder, without its path; the name of a model on the Hub as it is."""
    return path if isinstance(path, str) else path.absolute().name


def run_training(
    arguments: argparse.Namespace,
    data: TrainingData | DistillationData,
    settings: FineTuning,
    strategy: tf.distribute.Strategy,
    shown: Mapping[str, object],
    train: Callable[[FitProgress, dict[str, object]], FineTuned],
) -> FineTuned | None:
    """Print the settings and train with a progress bar.

    Args:
        arguments: the options.
        data: the examples.
        settings: the settings of the run.
        strategy: the distribution strategy.
        shown: the settings to print.
        train: trains, with the progress bar and the arguments that `finetune` and `distill` share.

    Returns:
        The result of `train`, or None in a worker process that prints nothing.
    """
    from bert_keras.training.strategies import is_chief
    from bert_keras.training.tracking.tracked_training import FitProgress

    print_settings(arguments.command, shown)
    print_warnings(data.warnings)
    with FitProgress(None) as progress:
        same = training_options.get_run_arguments(arguments, progress, strategy)
        trained = train(progress, {"train": data, **same, **dataclasses.asdict(settings)})
    if not is_chief(strategy):
        return None
    if trained.task.has_confusion_matrix:
        try:
            check_matplotlib()
        except MissingExtraError as error:
            print_line(f"  no confusion_matrix.png: {error}")
    return trained


def print_epochs(trained: FineTuned) -> None:
    """Print the scores of each epoch as a table."""
    print_table(["epoch", *trained.epochs[0]], [[n, *epoch.values()] for n, epoch in enumerate(trained.epochs, 1)])


def format_written(arguments: argparse.Namespace, trained: FineTuned, scores: str) -> str:
    """Return the sentence about what was written."""
    data = trained.data
    skipped = f"; {format_count(data.bad.num_bad, 'bad example')} skipped" if data.bad.num_bad else ""
    examples = f"on {len(data.dev):,} held-out examples ({trained.describe_epoch()})"
    return f"wrote {arguments.out}: {scores} {examples}{skipped}"
