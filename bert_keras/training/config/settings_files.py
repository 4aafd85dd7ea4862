"""The settings of a fine-tuning or a distillation in a TOML file: `--config FILE`, and the file of settings in OUT.

The keys are the arguments of `bk.finetune` and `bk.distill`, so `bk.finetune(checkpoint, out, **tomllib.load(file))`
repeats a run too. No TensorFlow here.
"""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import tomli_w

from bert_keras.errors import InputError
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.option_checks import TASKS_OF_OPTION
from bert_keras.training.config.finetuning_settings import OPTION_NAMES, Distillation, FineTuning, TaskSettings
from bert_keras.training.config.settings import (
    Count,
    CountOrZero,
    PositiveRate,
    Text,
    find_faults,
    join_faults,
    list_fields,
    settings,
)
from bert_keras.training.config.sources import read_toml, upgrade_settings

if TYPE_CHECKING:
    from bert_keras.heads.task import Task

FINETUNING_FILE, DISTILLATION_FILE = "finetuning.toml", "distillation.toml"
_PATHS = ("train", "dev", "unlabelled")


# the options of `FileOptions`, validated strictly
_FileKeys = dataclasses.make_dataclass(
    "_FileKeys",
    [(name, (tuple[Text, ...] if name == "columns" else Text) | None, None) for name in list_fields(FileOptions)],
    frozen=True,
)


@settings
class ReadingKeys(_FileKeys):
    """How the examples of a training are read, with the options of `FileOptions`; None = not in the file.

    Args:
        train, dev: files with training and held-out examples; relative paths start at the current folder.
        dev_share: fraction of `train` that is held out without `dev`.
        on_error: "stop" or "skip".
        max_sequence_length, window_overlap: how long texts are handled.
    """

    train: Text | None = None
    dev: Text | None = None
    dev_share: PositiveRate | None = None
    on_error: Literal["stop", "skip"] = "stop"
    max_sequence_length: Count | None = None
    window_overlap: CountOrZero | None = None


@settings
class FineTuningFile(ReadingKeys, TaskSettings, FineTuning):
    """All keys of `finetuning.toml`: those of `ReadingKeys`, `TaskSettings` and `FineTuning`."""


@settings
class DistillationFile(ReadingKeys, Distillation):
    """All keys of `distillation.toml`: those of `ReadingKeys` and the settings of `Distillation`.

    Args:
        unlabelled: file with texts without labels; a relative path starts at the current folder.
    """

    unlabelled: Text | None = None


def _list_keys(file: type, training: type) -> tuple[str, ...]:
    """Return the keys of a file in their order in it: its own, those of the examples, those of the training."""
    examples = sorted(list_fields(ReadingKeys), key=list_fields(_FileKeys).__contains__)
    others = (*examples, *list_fields(training))
    return (*(name for name in list_fields(file) if name not in others), *others)


FINETUNING_KEYS = _list_keys(FineTuningFile, FineTuning)
DISTILLATION_KEYS = _list_keys(DistillationFile, Distillation)


def read_settings_file(path: str | os.PathLike, kind: type[ReadingKeys]) -> dict[str, object]:
    """Read and check a file of settings of a fine-tuning or a distillation.

    Args:
        path: the file.
        kind: `FineTuningFile` or `DistillationFile`.

    Returns:
        The settings of the file by key; names of files as paths.

    Raises:
        InputError: the file cannot be read, or keys or values are wrong; the message lists all of them.
    """
    values, keys = upgrade_settings(read_toml(pathlib.Path(path))), list_fields(kind)
    faults = []
    for key, name in OPTION_NAMES.items():
        if name in values and key in keys:
            del values[name]
            faults.append(f"{name} is the name of an option; in the file it is {key}")
    if faults := [*faults, *find_faults(kind, values, keys)]:
        raise InputError(f"{path}: {join_faults(faults)}")
    return {name: pathlib.Path(value) if name in _PATHS else value for name, value in values.items()}


def resolve_settings(
    reading: Mapping[str, object], task: "Task", fine_tuning: FineTuning, keys: Sequence[str] = FINETUNING_KEYS
) -> dict[str, object]:
    """Return all settings of a run as plain values, by key.

    Args:
        reading: how the examples were read, see `TrainingData`.
        task: the task; its resolved settings are written.
        fine_tuning: the settings of the training.
        keys: the keys to return.
    """
    resolved = {
        name: getattr(task, name, None)
        for name in (*TASKS_OF_OPTION, "max_sequence_length")
        if name != "prompt" and task.name in TASKS_OF_OPTION.get(name, (task.name,))
    }
    values = {"task": task.name, **resolved, **reading, **dataclasses.asdict(fine_tuning)}
    given = {name: values[name] for name in keys if values.get(name) is not None}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


def to_toml(values: Mapping[str, object]) -> str:
    """Return the settings of `resolve_settings` as TOML; `--config` with that file repeats the run."""
    return tomli_w.dumps(values)
