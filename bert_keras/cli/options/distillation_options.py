"""Options of `distill`, and the TOML file that can replace them; see `finetuning_options.py`."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib

from bert_keras.cli.options import finetuning_options, task_options, training_options
from bert_keras.cli.options.argument_checks import add_option, add_path, positive_integer, positive_number
from bert_keras.cli.options.model_folder import add_model
from bert_keras.config import PRESETS
from bert_keras.tasks.examples.option_checks import DEV_SHARE
from bert_keras.training.config.finetuning_settings import Distillation, FineTuning
from bert_keras.training.config.settings_files import DISTILLATION_KEYS, read_distillation_file

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
_FIELDS = tuple(field.name for field in dataclasses.fields(Distillation))
_OWN = {*_FIELDS} - {field.name for field in dataclasses.fields(FineTuning)}
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
    add_option(
        parser,
        "--dev-share",
        positive_number,
        f"without --dev: fraction that is held out, stratified by class (default {DEV_SHARE:g})",
    )
    task_options.add_length_options(parser, length="that of the teacher", overlap="that of the teacher")
    task_options.add_on_error(parser)
    parser.set_defaults(on_error=None)
    _add_group(parser, "student", _STUDENT)
    parser.add_argument(
        "--trim-vocabulary",
        action=argparse.BooleanOptionalAction,
        help="keep only the tokens that the training texts use, and single characters of ASCII",
    )
    _add_group(parser, "losses", _LOSSES)
    flags = [row for row in finetuning_options.FLAGS if not row[1].startswith("lora_")]
    training = parser.add_argument_group("training")
    finetuning_options.add_settings(training, flags, {name: _DEFAULTS.get(name) for name in _FIELDS})
    training_options.add_training_options(parser)
    task_options.add_file_options(parser)


def _add_group(parser: argparse.ArgumentParser, title: str, flags: tuple) -> None:
    group = parser.add_argument_group(title)
    for flag, field, kind, text in flags:
        default = finetuning_options.format_default(_DEFAULTS.get(field))
        add_option(group, flag, kind, text + default, dest=field)


def apply_config(arguments: argparse.Namespace) -> None:
    """Set every option that was not given to its value in the file of `--config`, or else to its default.

    Raises:
        InputError: the file cannot be read or has wrong keys or values.
    """
    finetuning_options.apply_settings_file(
        arguments, lambda path: read_distillation_file(path, _OPTION_NAMES), DISTILLATION_KEYS, _DEFAULTS
    )


def make_settings(arguments: argparse.Namespace) -> Distillation:
    """Return the settings of the run, after `apply_config`.

    Raises:
        InputError: a setting is out of range, or settings do not fit together.
    """
    return Distillation(**{name: getattr(arguments, name) for name in _FIELDS})


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
