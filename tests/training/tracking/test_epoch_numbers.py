"""Callbacks of other packages see the right epochs, parameters and optimizer, also after a crash and over phases."""

import contextlib

import keras
import pytest
import tensorflow as tf

from bert_keras.training.backups import NO_BACKUP, BackupFolder, BackupOptions
from bert_keras.training.fitting import Phase, fit_phases
from bert_keras.training.pretraining import run_pretraining
from bert_keras.training.tracking.tracked_training import TensorBoardLog


class CrashError(Exception):
    """Ends a training."""


class Seen(keras.callbacks.Callback):
    """Record the epochs, and raise at a step of this process."""

    def __init__(self, crash_at=None):
        super().__init__()
        self.epochs, self.batches, self.params_seen, self.ended = [], [], [], []
        self._crash_at = crash_at

    def on_train_begin(self, logs=None):
        self.params_seen.append(dict(self.params))
        assert self.model.optimizer.learning_rate.shape == ()

    def on_epoch_begin(self, epoch, logs=None):
        self.epochs.append(epoch)

    def on_epoch_end(self, epoch, logs=None):
        self.ended.append(epoch)
        assert all(isinstance(float(value), float) for value in logs.values())

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append(batch)
        if len(self.batches) == self._crash_at:
            raise CrashError


@pytest.fixture
def start(records, tiny_run, untraced, tmp_path):
    """Function that trains, and returns the callback that saw it."""
    folder, manifest = records

    def train(*, crash_at=None, callbacks=(), resume=False, **settings):
        run = tiny_run(manifest, budget__steps=10, evaluation__every_steps=4, **settings)
        seen = Seen(crash_at)
        backup = BackupOptions(BackupFolder(tmp_path / "backups"), 3, resume)
        with contextlib.suppress(CrashError):
            run_pretraining(run, [folder], callbacks=[seen, *callbacks], listeners=callbacks, backup=backup)
        return seen

    return train


@pytest.mark.slow
def test_epochs_continue_after_a_crash_and_so_do_the_curves(start, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    first, second = TensorBoardLog(tmp_path / "events"), TensorBoardLog(tmp_path / "events")
    crashed = start(crash_at=8, callbacks=[first])
    assert (crashed.epochs, crashed.ended) == ([0, 1], [0])
    assert crashed.params_seen == [{"verbose": 0, "epochs": 3, "steps": 4}]
    resumed = start(resume=True, callbacks=[second])  # from step 6, within the second epoch
    assert resumed.epochs == resumed.ended == [1, 2]
    assert resumed.batches == [0, 1, 0, 1]
    assert [params["epochs"] for params in resumed.params_seen] == [2, 3]
    first.close()
    second.close()
    events = EventAccumulator(str(tmp_path / "events/train")).Reload()
    assert [event.step for event in events.Scalars("loss")] == [*range(1, 11)]
    events = EventAccumulator(str(tmp_path / "events/validation")).Reload()
    assert [event.step for event in events.Scalars("loss")] == [0, 4, 8, 10]


def test_epochs_are_numbered_over_all_phases():
    model, seen = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]), Seen()
    model.compile("sgd", "mse", run_eagerly=True)
    batches = tf.data.Dataset.from_tensors(([[1.0]], [[2.0]])).repeat()
    phases = [Phase(lambda first: batches, lambda: None, num_steps=3, evaluate_every=2) for _ in range(2)]
    options = {"settings": {}, "data": {}, "strategy": tf.distribute.get_strategy(), "backup": NO_BACKUP}
    fit_phases(model, phases, **options, callbacks=[seen], listeners=[])
    assert (seen.epochs, seen.batches) == ([0, 1, 2, 3], [0, 1, 0, 0, 1, 0])
