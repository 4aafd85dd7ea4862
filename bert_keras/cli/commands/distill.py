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
from bert_keras.cli.console.quiet import load_tensorflow
from bert_keras.cli.console.report import print_result, print_settings, print_table, print_warnings
from bert_keras.cli.options import distillation_options, task_options, tracking_options, training_options
from bert_keras.cli.options.argument_checks import check_all, check_exists
from bert_keras.cli.options.model_folder import read_model
from bert_keras.config import PRESETS
from bert_keras.pipelines.readers.option_spelling import spell_flag
from bert_keras.tasks.examples.option_checks import DEV_SHARE
from bert_keras.training.config.finetuning_settings import Distillation

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.tasks.base import Task
    from bert_keras.tasks.examples.distillation_data import DistillationData
    from bert_keras.training.distilling.distilling_to_folder import Distilled

add_arguments = distillation_options.add_arguments


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    distillation_options.apply_config(arguments)
    teacher, settings = _checked(arguments)
    task = _read_task(arguments, teacher, settings)
    data = _read(arguments, task)  # before the workers start, so that a bad file is reported once
    if training_options.run_in_workers(arguments):
        return
    load_tensorflow()
    strategy = training_options.prepare_devices(arguments)
    from bert_keras.training.distilling.distilling_to_folder import distill
    from bert_keras.training.distilling.teacher_training import score_teacher
    from bert_keras.training.strategies import is_chief
    from bert_keras.training.tracking.tracked_training import FitProgress

    described = {"task": task_options.format_task(task), **task_options.describe_skipped(data.bad)}
    described |= distillation_options.describe_settings(settings, has_labels=data.num_labelled > 0)
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
            callbacks=[progress, *tracking_options.make_callbacks(arguments)],
            tensorboard=arguments.tensorboard,
            verbose=False,
            strategy=strategy,
            card_facts=_describe_files(arguments, data, get_file_name) | described,
            **training_options.get_backup_arguments(arguments),
            **dataclasses.asdict(settings),
        )
    if is_chief(strategy):
        report_missing_matplotlib(task)
        _print_result(arguments, distilled)


def _print_result(arguments: argparse.Namespace, distilled: Distilled) -> None:
    from bert_keras.training.distilling.distilling_to_folder import collect_distillation_metrics
    from bert_keras.training.finetuned_folder import describe_epoch

    data, name = distilled.data, distilled.task.main_score
    print_table(
        ["epoch", *distilled.epochs[0]], [[place, *epoch.values()] for place, epoch in enumerate(distilled.epochs, 1)]
    )
    print_table(["model", "parameters", name], [[who, f"{size:,}", score] for who, size, score in distilled.compare()])
    ratio = "" if distilled.ratio is None else f", {distilled.ratio:.1%} of the teacher's"
    skipped = f"; {format_count(data.bad.num_bad, 'bad example')} skipped" if data.bad.num_bad else ""
    sentence = (
        f"wrote {arguments.out}: {name} {distilled.scores[name]:.4g}{ratio}, on {len(data.dev):,} held-out examples "
        f"({describe_epoch(distilled)}){skipped}"
    )
    result = {"out": str(arguments.out), **collect_distillation_metrics(distilled), "warnings": list(data.warnings)}
    print_result(sentence, result, as_json=arguments.json)


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
        lambda: tracking_options.check_tracking(arguments),
        lambda: distillation_options.make_settings(arguments),
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
