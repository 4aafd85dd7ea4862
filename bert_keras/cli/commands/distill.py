"""Train a small student on the outputs of a fine-tuned teacher.

The student has some of the teacher's layers (--layers), or is a new encoder that starts from the teacher's embeddings,
or a checkpoint (--student). It learns the teacher's outputs, and the labels of --train as far as there are any. Its
task, labels and lengths are those of the teacher. After each epoch it is evaluated on held-out examples, and OUT
contains the best epoch, metrics.json with the scores of both models, and a model card.

Settings come from --config and the other options, which override it. The resolved settings are saved as
distillation.toml in OUT.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from bert_keras.checks import format_count
from bert_keras.cli.commands.finetune import (
    check_dev_share,
    describe_training,
    get_file_name,
    report_missing_matplotlib,
)
from bert_keras.cli.console import print_result, print_settings, print_table, print_warnings
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options import finetuning_options, task_options, training_options
from bert_keras.cli.options.argument_checks import (
    add_flag,
    add_model,
    add_option,
    add_path,
    check_all,
    check_exists,
    positive_integer,
    positive_number,
    read_model,
)
from bert_keras.config import PRESETS
from bert_keras.pipelines.readers.option_spelling import spell_flag
from bert_keras.tasks.examples.option_checks import DEV_SHARE
from bert_keras.training.config.finetuning_settings import Distillation
from bert_keras.training.config.settings_files import DISTILLATION_KEYS, read_distillation_file

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.tasks.base import Task
    from bert_keras.tasks.examples.distillation_data import DistillationData
    from bert_keras.training.distilling.distilling_to_folder import Distilled


# flag, field of Distillation, type or choices, help
_STUDENT = (
    ("--layers", "num_layers", positive_integer, "number of layers: without --student that many of the teacher's"),
    (
        "--student",
        "student",
        str,
        f"new encoder of this size ({', '.join(PRESETS)}), or a checkpoint folder with the teacher's vocabulary",
    ),
    ("--hidden-dim", "hidden_dim", positive_integer, "width of a new encoder (default: that of the preset)"),
    ("--num-heads", "num_heads", positive_integer, "attention heads of a new encoder (default: those of the preset)"),
    (
        "--intermediate-dim",
        "intermediate_dim",
        positive_integer,
        "feed-forward width of a new encoder (default: in the preset's proportion to the width)",
    ),
)
_LOSSES = (
    ("--temperature", "temperature", positive_number, "divides the logits of classes"),
    ("--label-weight", "label_weight", float, "weight of the labels; the teacher's outputs have the rest, up to 1"),
    ("--hidden-weight", "hidden_weight", float, "weight of the hidden states"),
    ("--attention-weight", "attention_weight", float, "weight of the attention probabilities"),
)
_DEFAULTS = {"on_error": "stop"} | {
    field.name: field.default for field in dataclasses.fields(Distillation) if field.default is not None
}
_OPTION_NAMES = {
    key: field
    for flag, field, *_ in (*_STUDENT, *_LOSSES, *finetuning_options.FLAGS)
    if (key := flag.removeprefix("--").replace("-", "_")) != field
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model(parser, "teacher", "fine-tuned checkpoint folder with a vocabulary")
    add_path(parser, "out", "output checkpoint folder")
    add_option(parser, "--config", pathlib.Path, "TOML file with settings; options override it")
    add_option(parser, "--train", pathlib.Path, "file with labelled examples; may be left out with --unlabelled")
    add_option(parser, "--unlabelled", pathlib.Path, "file with examples without labels, as for predict")
    add_option(parser, "--dev", pathlib.Path, "file with held-out examples (default: a fraction of --train)")
    text = f"without --dev: fraction that is held out, stratified by class (default {DEV_SHARE:g})"
    add_option(parser, "--dev-share", positive_number, text)
    task_options.add_length_options(parser, length="that of the teacher", overlap="that of the teacher")
    task_options.add_on_error(parser)
    parser.set_defaults(on_error=None)
    finetuning_options.add_settings(parser.add_argument_group("student"), _STUDENT, _DEFAULTS)
    text = "keep only the tokens that the training texts use, and single characters of ASCII"
    add_flag(parser, "--trim-vocabulary", text, has_negative=True)
    finetuning_options.add_settings(parser.add_argument_group("losses"), _LOSSES, _DEFAULTS)
    flags = [row for row in finetuning_options.FLAGS if not row[1].startswith("lora_")]
    training = parser.add_argument_group("training")
    finetuning_options.add_settings(training, flags, _DEFAULTS)
    finetuning_options.add_kept_epoch(training)
    training_options.add_training_options(parser)
    task_options.add_file_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    finetuning_options.apply_settings_file(
        arguments, lambda path: read_distillation_file(path, _OPTION_NAMES), DISTILLATION_KEYS, _DEFAULTS
    )
    teacher, settings = _checked(arguments)
    task = _read_task(arguments, teacher, settings)
    data = _read(arguments, task)  # before the workers start, so that a bad file is reported once
    if training_options.run_in_workers(arguments):
        return
    load_tensorflow()
    strategy = training_options.prepare_devices(arguments)
    from bert_keras.training.distilling.distilling_to_folder import distill, score_teacher
    from bert_keras.training.strategies import is_chief
    from bert_keras.training.tracking.tracked_training import FitProgress

    described = {"task": task_options.format_task(task), **task_options.describe_skipped(data.bad)}
    described |= describe_settings(settings, has_labels=data.num_labelled > 0)
    described |= {"sequences": task_options.format_lengths(task), **describe_training(settings, task, strategy)}
    data = score_teacher(data, teacher)
    score = {"teacher's score": f"{task.main_score} {data.teacher_scores[task.main_score]:.4g}"}
    print_settings("distill", {"out": arguments.out, **_describe_files(arguments, data, str), **score, **described})
    print_warnings(data.warnings)
    with FitProgress(None) as progress:
        distilled = distill(
            teacher,
            arguments.out,
            train=data,
            card_facts=_describe_files(arguments, data, get_file_name) | described,
            **training_options.get_run_arguments(arguments, progress, strategy),
            **dataclasses.asdict(settings),
        )
    if is_chief(strategy):
        report_missing_matplotlib(task)
        _print_result(arguments, distilled)


def _print_result(arguments: argparse.Namespace, distilled: Distilled) -> None:
    data, name = distilled.data, distilled.task.main_score
    print_table(
        ["epoch", *distilled.epochs[0]], [[place, *epoch.values()] for place, epoch in enumerate(distilled.epochs, 1)]
    )
    print_table(["model", "parameters", name], [[who, f"{size:,}", score] for who, size, score in distilled.compare()])
    ratio = "" if distilled.ratio is None else f", {distilled.ratio:.1%} of the teacher's"
    skipped = f"; {format_count(data.bad.num_bad, 'bad example')} skipped" if data.bad.num_bad else ""
    sentence = (
        f"wrote {arguments.out}: {name} {distilled.scores[name]:.4g}{ratio}, on {len(data.dev):,} held-out examples "
        f"({distilled.describe_epoch()}){skipped}"
    )
    result = {"out": str(arguments.out), **distilled.collect_metrics(), "warnings": list(data.warnings)}
    print_result(sentence, result, as_json=arguments.json)


def describe_settings(settings: Distillation, *, has_labels: bool) -> dict[str, object]:
    """Return the student and the losses, to print; without labelled examples there is no loss on labels."""
    if settings.student is None:
        student = f"{settings.num_layers} of the teacher's layers"
    else:
        sizes = {
            name: getattr(settings, name) for name in ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")
        }
        given = [f"{name} {value}" for name, value in sizes.items() if value is not None]
        student = ", ".join([settings.student, *given])
    label_weight = settings.label_weight if has_labels else 0.0
    weights = {
        "labels": label_weight,
        "outputs": 1 - label_weight,
        "hidden states": settings.hidden_weight,
        "attention": settings.attention_weight,
    }
    return {
        "student": student + (", with the tokens of the training texts" if settings.trim_vocabulary else ""),
        "losses": ", ".join(f"{name} {weight:g}" for name, weight in weights.items() if weight),
        "temperature": f"{settings.temperature:g}",
    }


def _checked(arguments: argparse.Namespace) -> tuple[Checkpoint, Distillation]:
    """Run the checks that do not read the examples; return the teacher and the settings."""
    files = [path for path in (arguments.train, arguments.dev, arguments.unlabelled) if path is not None]
    student = None if arguments.student in PRESETS else arguments.student
    inputs = [*files, *(path for path in (arguments.config, student) if path is not None)]
    teacher, *_, settings = check_all(
        lambda: read_model(arguments.teacher),
        lambda: check_dev_share(arguments),
        *(lambda path=path: check_exists(path, "a file of examples") for path in files),
        lambda: training_options.check_out(arguments, arguments.teacher, *inputs),
        lambda: training_options.check_tracking(arguments),
        lambda: finetuning_options.make_settings(arguments, Distillation),
    )
    return teacher, settings


def _read_task(arguments: argparse.Namespace, teacher: Checkpoint, settings: Distillation) -> Task:
    """Return the task of the teacher, after checking that the options fit to both."""
    from bert_keras.tasks.examples.distillation_data import read_teacher_task
    from bert_keras.training.distilling.student_start import start_student

    lengths = task_options.get_given_options(arguments, "max_sequence_length", "window_overlap")
    task = read_teacher_task(teacher, **lengths)
    task_options.check_options_of_task(arguments, task.name, task.problem)
    start_student(teacher, settings)
    return task


def _read(arguments: argparse.Namespace, task: Task) -> DistillationData:
    """Read the training and held-out examples."""
    from bert_keras.tasks.examples.distillation_data import read_distillation_data

    return read_distillation_data(
        task,
        arguments.train,
        arguments.dev,
        arguments.unlabelled,
        task_options.get_file_options(arguments),
        dev_share=DEV_SHARE if arguments.dev_share is None else arguments.dev_share,
        seed=arguments.seed,
        on_error=arguments.on_error,
        spell=spell_flag,
    )


def _describe_files(
    arguments: argparse.Namespace, data: DistillationData, format_path: Callable[[pathlib.Path], object]
) -> dict[str, object]:
    """Return the teacher and the data files, to print; `format_path` formats the paths."""
    shown: dict[str, object] = {"teacher": format_path(arguments.teacher)}
    if arguments.train is not None:
        shown["train"] = f"{format_path(arguments.train)} ({data.num_labelled:,} examples)"
    if arguments.unlabelled is not None:
        number = len(data.train) - data.num_labelled
        joined = f"{number:,} pairs of {data.num_joined_texts:,} texts"
        shown["unlabelled"] = (
            f"{format_path(arguments.unlabelled)} ({joined if data.num_joined_texts else f'{number:,} examples'})"
        )
    if data.held_out is None:
        shown["dev"] = f"{format_path(arguments.dev)} ({len(data.dev):,} examples)"
        return shown
    source = arguments.train if data.is_dev_labelled else arguments.unlabelled
    shown["dev"] = f"{len(data.dev):,} examples of {format_path(source)}: {data.held_out.describe()}"
    return shown
