"""`run_search`: what `bk.finetune(search=N)` does: ranges for the model and the data, and the trials next to OUT."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np

from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.option_spelling import Spell
from bert_keras.publishing import get_companion_folder
from bert_keras.training.config.finetuning_settings import FineTuning
from bert_keras.training.output_folder import get_backup_folder
from bert_keras.training.search.search_space import SearchSpace, make_search_space
from bert_keras.training.search.trials import RANGES, TrialResult, check_search_installed, format_setting, has_trials

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.tasks.examples.training_data import TrainingData
    from bert_keras.training.backups import BackupOptions
    from bert_keras.training.finetuning import FineTuned


@dataclasses.dataclass(frozen=True)
class Search:
    """A search for the settings of a fine-tuning.

    Attributes:
        num_trials: number of trials.
        fixed: names of the settings that the user gave, which stay as they are.
        on_trial: function that is called with the result of each trial.
    """

    num_trials: int
    fixed: Collection[str] = ()
    on_trial: Callable[[TrialResult], None] = lambda result: None

    def __post_init__(self) -> None:
        check_integer("search", self.num_trials, 1)
        check_search_installed()


def get_search_folder(out: str | os.PathLike) -> pathlib.Path:
    """Return the folder next to `out` for the trials of an unfinished search: `.OUT.search`."""
    return get_companion_folder(out, "search").absolute()


def check_no_trials(out: str | os.PathLike, *, has_search: bool, resume: bool, overwrite: bool, spell: Spell) -> None:
    """Check that the trials of an interrupted search are resumed or overwritten, not forgotten.

    Raises:
        InputError: there are trials, and neither `resume` nor `overwrite` is set; or `resume` is set for a search, and
            what was interrupted is a training without one, or the other way round.
    """
    folder, backups = get_search_folder(out), get_backup_folder(out)
    if has_trials(folder) and not resume and not overwrite:
        raise InputError(
            f"a search for {out} was interrupted, and its trials are in {folder}: continue with {spell('search')} and "
            f"{spell('resume', True)}, or start over with {spell('overwrite', True)}"
        )
    if resume and not has_search and has_trials(folder):
        raise InputError(
            f"what was interrupted for {out} is a search, and its trials are in {folder}: continue with "
            f"{spell('search')} and {spell('resume', True)}, or start over with {spell('overwrite', True)} alone"
        )
    if resume and has_search and backups.steps():
        raise InputError(
            f"what was interrupted for {out} is a training without a search, and its backup is in {backups.path}: "
            f"continue without {spell('search')}, or start over with {spell('overwrite', True)} alone"
        )


def check_one_machine(strategy: tf.distribute.Strategy) -> None:
    """Raise `InputError` if the strategy has several workers: each of them would choose trials of its own."""
    import tensorflow as tf

    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        raise InputError(
            "a search runs on one machine, and the strategy has several workers: search with one device or "
            "MirroredStrategy, then train with the settings of the best trial"
        )


def run_search(
    search: Search,
    space: SearchSpace,
    train: Callable[..., FineTuned],
    checkpoint: Checkpoint,
    data: TrainingData,
    *,
    folder: pathlib.Path | None,
    tensorboard: str | os.PathLike | None,
    backup: BackupOptions,
) -> FineTuned:
    """Search for the settings of a fine-tuning and return the best model, with the results of all trials.

    Args:
        search: number of trials, and what to call after each.
        space: the settings to vary, see `make_space_for_data`.
        train: function that trains with the settings, the folder for TensorBoard and the callback that it receives.
        checkpoint: the model to fine-tune.
        data: the examples and the task.
        folder: where the trials are recorded, and continued if there are any; None = in memory.
        tensorboard: each trial gets a folder in this one.
        backup: whether changes are allowed, and how messages name options.

    Raises:
        InputError: see `search_settings`.
        InterruptedTrainingError: SIGTERM arrived; finished trials are recorded.
    """
    from bert_keras.training.search.settings_search import SearchOptions, search_settings

    options = SearchOptions(search.num_trials, folder, backup.allow_changes, search.on_trial, backup.spell)
    identity = {} if folder is None else identify_search(space, checkpoint, data)

    def train_trial(settings: FineTuning, number: int, callback: keras.callbacks.Callback) -> FineTuned:
        log_folder = None if tensorboard is None else os.path.join(tensorboard, f"trial-{number:03}")
        return train(settings, log_folder, callback)

    return search_settings(train_trial, space, options, main_score=data.task.main_score, identity=identity)


def make_space_for_data(
    base: FineTuning, fixed: Collection[str], checkpoint: Checkpoint, data: TrainingData, num_replicas: int
) -> SearchSpace:
    """Return the ranges of a search for a checkpoint and its training examples.

    Raises:
        InputError: all settings that a search varies are in `fixed`.
    """
    return make_search_space(
        base,
        hidden_dim=checkpoint.config.hidden_dim,
        num_sequences=len(data.train),
        fixed=fixed,
        batch_multiple=num_replicas * base.accumulation_steps,
    )


def describe_winner(trials: Collection[TrialResult], settings: FineTuning, main_score: str) -> dict[str, object]:
    """Return what the model card says about a search: how it was done, and the settings that won."""
    names = next(iter(trials)).settings
    return {
        "search": f"the best of {len(trials)} trials by {main_score} on the held-out examples, which therefore is "
        "higher than on new examples",
        **{name.replace("_", " "): format_setting(getattr(settings, name)) for name in names},
    }


def identify_search(space: SearchSpace, checkpoint: Checkpoint, data: TrainingData) -> dict[str, str]:
    """Return digests that identify the ranges, settings and data of a search, keyed by a name for messages."""
    from bert_keras.checkpoints.loading import load_tokenizer
    from bert_keras.training.finetuning import identify_data
    from bert_keras.training.resuming import digest_text

    weights = hashlib.sha256()
    for name, weight in sorted(checkpoint.weights.items()):
        weights.update(name.encode())
        weights.update(np.ascontiguousarray(weight.read()))
    values = {
        **identify_data(data.train, data.dev, load_tokenizer(checkpoint)),
        "the checkpoint": weights.hexdigest(),
        "the task": data.task.settings(),
        "the settings": dataclasses.asdict(space.base),
        RANGES: space.describe(),
    }
    return {name: digest_text(json.dumps(value, sort_keys=True)) for name, value in values.items()}


def remove_trials(folder: pathlib.Path) -> None:
    """Remove the folder of a finished or abandoned search, if there is one."""
    shutil.rmtree(folder, ignore_errors=True)
