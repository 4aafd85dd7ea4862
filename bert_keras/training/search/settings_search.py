"""`search_settings`: train with different settings, stop the worse half early, and return the best model."""

import dataclasses
import gc
import hashlib
import json
import math
import pathlib
import time
from collections.abc import Callable, Mapping

import keras
import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.loading import load_tokenizer
from bert_keras.errors import DivergedTrainingError, InputError, InterruptedTrainingError
from bert_keras.training.backups import NO_BACKUP, BackupOptions
from bert_keras.training.finetuned_folder import FineTuned
from bert_keras.training.finetuning import identify_data
from bert_keras.training.fitting import digest_text
from bert_keras.training.search.searched_finetuning import (
    COMPLETE,
    DIVERGED,
    RANGES,
    STOPPED,
    Search,
    SearchSpace,
    TrialLog,
    TrialResult,
    find_best,
)
from bert_keras.training.training_data import TrainingData

TrainTrial = Callable[..., FineTuned]  # called with the settings, the number of the trial, and a callback


def search_settings(
    train: TrainTrial,
    search: Search,
    space: SearchSpace,
    *,
    folder: pathlib.Path | None = None,
    backup: BackupOptions = NO_BACKUP,
    main_score: str,
    identity: Mapping[str, object],
) -> FineTuned:
    """Train one model per trial and return the one with the highest score on the held-out examples.

    The resource of the halving is the epoch: a trial continues after epoch 1, 2, 4, ... only if its score is in the
    upper half of the trials that reached this epoch (asynchronous successive halving; Li et al. 2020, "A System for
    Massively Parallel Hyperparameter Tuning"). The first trial takes the settings of `space.base` where they are in
    range; later ones are suggested by Optuna's TPE sampler. The suggestions depend on the seed and the scores alone, so
    a search that was interrupted and resumed ends with the same trials.

    Args:
        train: function that trains with the settings, the number of the trial and the callback that it receives.
        search: number of trials, and what to call after each.
        space: the settings to vary.
        folder: where the trials are recorded; trials recorded there count. None = in memory.
        backup: whether to accept changes since the recorded trials, and how messages name options.
        main_score: name of the score to maximize.
        identity: plain values that identify data and settings, keyed by a name for messages.

    Returns:
        The best model, with `trials`: the results of all trials. If its trial was trained before the search was
        resumed, it is trained again.

    Raises:
        InputError: the recorded trials are of another search, or all trials diverged.
        InterruptedTrainingError: SIGTERM arrived; finished trials are recorded.
        MissingExtraError: Optuna is not installed.
    """
    log = TrialLog(folder, space.base.seed)
    log.check_same_search(identity, allow_changes=backup.allow_changes, spell=backup.spell)
    log.start(space.start())
    best: tuple[int, FineTuned] | None = None  # the number of the best trial and its model
    while (number := len(log.results()) + 1) <= search.num_trials:
        trial = log.ask()
        settings = space.suggest(trial)
        report = _Report(trial, main_score, settings.num_epochs)
        start, tuned, score = time.monotonic(), None, None
        try:
            tuned = train(settings, number, report)
            score = tuned.scores[main_score]
        except DivergedTrainingError:
            pass
        except InterruptedTrainingError as error:
            raise InterruptedTrainingError(error.step, folder, backup.spell("resume", True)) from None
        outcome = STOPPED if report.was_stopped else COMPLETE
        if score is None or not math.isfinite(score):
            outcome, score, tuned = DIVERGED, None, None
        varied = dict(sorted(trial.params.items()))
        result = TrialResult(number, outcome, score, report.num_epochs, time.monotonic() - start, varied)
        log.tell(trial, result)
        search.on_trial(result)
        if (leader := find_best(log.results())) is not None and leader.number == number:
            best = (number, tuned)
        del tuned
        gc.collect()  # Keras models have reference cycles, and a model of Base has 440 MB
    results = log.results()[: search.num_trials]
    winner = find_best(results)
    if winner is None:
        raise InputError(
            f"the loss or the score of all {len(results)} trials was not finite; expected one trial that trains: check "
            "the labels, or give a lower learning rate"
        )
    if best is not None and best[0] == winner.number:
        tuned = best[1]
    else:  # for as many epochs, with the learning-rate schedule that it had
        settings = dataclasses.replace(space.base, **winner.settings)
        tuned = train(settings, winner.number, _StopAfterEpochs(winner.num_epochs))
    return dataclasses.replace(tuned, trials=tuple(results))


def identify_search(space: SearchSpace, checkpoint: Checkpoint, data: TrainingData) -> dict[str, str]:
    """Return digests that identify the ranges, settings and data of a search, keyed by a name for messages."""
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


class _Report(keras.callbacks.Callback):
    """Report the score of each epoch to the study, and stop the training if the study says so.

    Attributes:
        main_score: the name of the score.
        num_epochs: epochs reported so far.
        was_stopped: whether the study stopped the training.
    """

    def __init__(self, trial: object, main_score: str, max_epochs: int):
        super().__init__()
        self.main_score = main_score
        self.num_epochs = 0
        self.was_stopped = False
        self._trial = trial
        self._max_epochs = max_epochs

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Report the score of the epoch."""
        self.num_epochs += 1
        score = logs[f"val_{self.main_score}"]
        if not math.isfinite(score):
            return
        self._trial.report(score, step=self.num_epochs)
        if self.num_epochs < self._max_epochs and self._trial.should_prune():
            self.was_stopped = True
            self.model.stop_training = True


class _StopAfterEpochs(keras.callbacks.Callback):
    """Stop a training after a number of epochs."""

    def __init__(self, num_epochs: int):
        super().__init__()
        self._num_epochs = num_epochs

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Stop after the last epoch."""
        if epoch + 1 >= self._num_epochs:
            self.model.stop_training = True
