"""The settings of a fine-tuning in a TOML file: `finetune --config FILE`, and `finetuning.toml` in OUT.

The keys are the arguments of `bk.finetune`, so `bk.finetune(checkpoint, out, **tomllib.load(file))` repeats a run too.
No TensorFlow here.
"""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import tomli_w

from bert_keras.config import PROBLEMS
from bert_keras.errors import InputError
from bert_keras.tasks.examples.option_checks import TASKS_OF_OPTION
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.config.reading_keys import ReadingKeys, list_keys
from bert_keras.training.config.settings import Count, Text, find_faults, join_faults, settings
from bert_keras.training.config.sources import upgrade_settings
from bert_keras.training.config.toml_files import read_toml

if TYPE_CHECKING:
    from bert_keras.tasks.base import Task

FILE_NAME = "finetuning.toml"
_PATHS = ("train", "dev", "unlabelled")


@settings
class FineTuningFile(ReadingKeys, FineTuning):
    """All keys of the file: those of `ReadingKeys` and the settings of `FineTuning`; None = not in the file.

    Args:
        task: "classify", "tag", "answer" or "embed".
        problem, class_weights, labelled_tokens, max_answer_length, objective, prompt: settings of single tasks.
    """

    task: Literal["classify", "tag", "answer", "embed"] | None = None
    problem: Literal[PROBLEMS] | None = None
    class_weights: Literal["equal", "balanced"] | None = None
    labelled_tokens: Literal["first", "all"] | None = None
    max_answer_length: Count | None = None
    objective: Literal["regression", "contrastive"] | None = None
    prompt: Text | None = None


KEYS = list_keys(FineTuningFile, FineTuning)


def read_finetuning_file(path: str | os.PathLike, options: Mapping[str, str] | None = None) -> dict[str, object]:
    """Read and check a file of settings of a fine-tuning, see `read_settings_file`."""
    return read_settings_file(path, FineTuningFile, KEYS, options)


def read_settings_file(
    path: str | os.PathLike, kind: type, keys: Sequence[str], options: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Read and check a file of settings.

    Args:
        path: the file.
        kind: the class with all keys of the file.
        keys: the keys, for suggestions.
        options: key of each option whose name differs from its key, to suggest it: {"epochs": "num_epochs"}.

    Returns:
        The settings of the file by key; names of files as paths.

    Raises:
        InputError: the file cannot be read, or keys or values are wrong; the message lists all of them.
    """
    values = upgrade_settings(read_toml(pathlib.Path(path)))
    faults = []
    for name, key in (options or {}).items():
        if name in values and name not in keys:
            del values[name]
            faults.append(f"{name} is the name of an option; in the file it is {key}")
    if faults := [*faults, *find_faults(kind, values, keys)]:
        raise InputError(f"{path}: {join_faults(faults)}")
    return {name: pathlib.Path(value) if name in _PATHS else value for name, value in values.items()}


def resolve_settings(
    reading: Mapping[str, object], task: "Task", fine_tuning: FineTuning, keys: Sequence[str] = KEYS
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
    return {name: _to_plain(values[name]) for name in keys if values.get(name) is not None}


def to_toml(values: Mapping[str, object]) -> str:
    """Return the settings of `resolve_settings` as TOML; `--config` with that file repeats the run."""
    return tomli_w.dumps(values)


def _to_plain(value: object) -> object:
    return list(value) if isinstance(value, tuple | list) else value
