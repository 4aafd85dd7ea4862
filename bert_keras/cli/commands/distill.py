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
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from bert_keras.cli.console import Result, print_table
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options import finetuning_options, task_options, training_options
from bert_keras.cli.options.declaring import Options
from bert_keras.cli.options.finetuning_options import add_setting, describe_training, get_file_name
from bert_keras.config import PRESETS
from bert_keras.pipelines.readers.option_spelling import spell_flag
from bert_keras.training.config.finetuning_settings import SIZES, Distillation

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.heads.task import Task
    from bert_keras.training.distilling.distillation_data import DistillationData
    from bert_keras.training.distilling.distilling_to_folder import Distilled


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_model("teacher", "fine-tuned checkpoint folder with a vocabulary")
    options.add_option("--unlabelled", pathlib.Path, "file with examples without labels, as for predict")
    groups = {
        "student": ("num_layers", "student", *SIZES, "trim_vocabulary"),
        "losses": ("temperature", "label_weight", "hidden_weight", "attention_weight"),
    }
    for title, names in groups.items():
        group = options.add_group(title)
        for name in names:
            add_setting(group, Distillation, name)
    finetuning_options.add_finetuning_options(
        options,
        Distillation,
        train="file with labelled examples; may be left out with --unlabelled",
        length="that of the teacher",
        overlap="that of the teacher",
    )


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    from bert_keras.training.config.settings_files import DistillationFile

    finetuning_options.apply_settings_file(arguments, DistillationFile)
    teacher, settings = _checked(arguments)
    task = _read_task(arguments, teacher, settings)
    data = _read(arguments, task)  # before the workers start, so that a bad file is reported once
    if training_options.run_in_workers(arguments):
        return None
    load_tensorflow()
    strategy = training_options.prepare_devices(arguments)
    from bert_keras.training.distilling.distilling_to_folder import distill, score_teacher

    described = {"task": task_options.format_task(task), **task_options.describe_skipped(data.bad)}
    described |= describe_settings(settings, has_labels=data.num_labelled > 0)
    described |= {"sequences": task_options.format_lengths(task), **describe_training(settings, task, strategy)}
    data = score_teacher(data, teacher)
    score = {"teacher's score": f"{task.main_score} {data.teacher_scores[task.main_score]:.4g}"}
    shown = {"out": arguments.out, **_describe_files(arguments, data, str), **score, **described}
    facts = _describe_files(arguments, data, get_file_name) | described
    distilled = finetuning_options.run_training(
        arguments,
        data,
        settings,
        strategy,
        shown,
        lambda _, same: distill(teacher, arguments.out, card_facts=facts, **same),
    )
    return None if distilled is None else _make_result(arguments, distilled)


def _make_result(arguments: argparse.Namespace, distilled: Distilled) -> Result:
    name = distilled.task.main_score
    finetuning_options.print_epochs(distilled)
    print_table(["model", "parameters", name], [[who, f"{size:,}", score] for who, size, score in distilled.compare()])
    ratio = "" if distilled.ratio is None else f", {distilled.ratio:.1%} of the teacher's"
    sentence = finetuning_options.format_written(arguments, distilled, f"{name} {distilled.scores[name]:.4g}{ratio},")
    result = {"out": str(arguments.out), **distilled.collect_metrics(), "warnings": list(distilled.data.warnings)}
    return sentence, result


def describe_settings(settings: Distillation, *, has_labels: bool) -> dict[str, object]:
    """Return the student and the losses, to print; without labelled examples there is no loss on labels."""
    if settings.student is None:
        student = f"{settings.num_layers} of the teacher's layers"
    else:
        sizes = {name: getattr(settings, name) for name in ("num_layers", *SIZES)}
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
    student = [] if arguments.student in (None, *PRESETS) else [arguments.student]
    return finetuning_options.check_training(arguments, arguments.teacher, Distillation, files, student)


def _read_task(arguments: argparse.Namespace, teacher: Checkpoint, settings: Distillation) -> Task:
    """Return the task of the teacher, after checking that the options fit to both."""
    from bert_keras.training.distilling.distillation_data import read_teacher_task
    from bert_keras.training.distilling.student_start import start_student

    lengths = task_options.get_given_options(arguments, "max_sequence_length", "window_overlap")
    task = read_teacher_task(teacher, **lengths)
    task_options.check_options_of_task(arguments, task.name, task.problem)
    start_student(teacher, settings)
    return task


def _read(arguments: argparse.Namespace, task: Task) -> DistillationData:
    """Read the training and held-out examples."""
    from bert_keras.training.distilling.distillation_data import read_distillation_data

    return read_distillation_data(
        task,
        arguments.train,
        arguments.dev,
        arguments.unlabelled,
        task_options.get_file_options(arguments),
        **finetuning_options.get_reading_options(arguments),
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
    source = arguments.train if data.is_dev_labelled else arguments.unlabelled
    shown["dev"] = finetuning_options.describe_dev(arguments, data, source, format_path)
    return shown
