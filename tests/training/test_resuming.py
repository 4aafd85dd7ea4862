"""A training that was killed, stopped, or left with damaged backups ends like an uninterrupted one."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError, InterruptedTrainingError
from bert_keras.training.backups import NO_BACKUP, BackupFolder, BackupOptions, TrainingState
from bert_keras.training.callbacks import TrainingLog
from bert_keras.training.fitting import BackupCallback, Phase, TrainingProgress, fit_phases
from tests.training.processes import kill_at_random, start, wait_for_step
from tests.training.train_tiny import train

PHASES = ({"records": 0, "share": 0.6}, {"records": 1, "share": 0.4, "batch_size": 4})


def start_training(records, out: pathlib.Path, *options) -> subprocess.Popen:
    """Start a training on records of two lengths."""
    phases = ",".join("{" + ",".join(f"{key}={value}" for key, value in phase.items()) + "}" for phase in PHASES)
    return start("train_tiny.py", *records, out, "--set", f"phases=[{phases}]", *options)


@pytest.fixture(scope="module")
def two_records(make_records_folder):
    """Records of two lengths, for two phases."""
    return [make_records_folder()[0], make_records_folder(max_sequence_length=32)[0]]


def train_here(records, backup: BackupOptions = NO_BACKUP, callbacks=(), **settings) -> dict:
    """Train in this process and return the report; starting another process takes longer than the training."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return train(records, {"phases": PHASES, **named}, backup, callbacks=callbacks)


def resume_from(backups: pathlib.Path, records, every_steps: int = 0, **options) -> dict:
    return train_here(records, BackupOptions(BackupFolder(backups), every_steps, resume=True), **options)


@pytest.fixture(scope="module")
def late_backup(tmp_path_factory):
    """Folder with a backup of step 23 of `uninterrupted`."""
    return tmp_path_factory.mktemp("late") / "backups"


@pytest.fixture(scope="module")
def uninterrupted(two_records, late_backup):
    """The report of an uninterrupted training; the first phase has 15 steps, the second 10."""
    return train_here(two_records, BackupOptions(BackupFolder(late_backup), every_steps=23))


def assert_same_end(ours: dict, theirs: dict) -> None:
    assert ours["digests"] == theirs["digests"]
    assert ours["log"] == theirs["log"]
    assert ours["epoch_losses"] == theirs["epoch_losses"][-len(ours["epoch_losses"]) :]  # also of one resumed within
    assert len(set(theirs["epoch_losses"])) == 5
    assert [line["step"] for line in ours["log"] if "num_steps" not in line][:2] == [0, 7]  # evaluated, and once
    assert len(ours["digests"]) > 60


def kill_and_resume(records, folder: pathlib.Path, trial: int) -> dict:
    """Kill a training at a random moment, resume it in this process, and return the report."""
    backups, every = folder / "backups", (1, 2, 5)[trial % 3]
    process = start_training(records, folder / "out.json", "--backups", backups, "--every", every)
    kill_at_random(process, backups, trial, num_steps=25)
    return resume_from(backups, records, every)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(5))
def test_a_killed_training_ends_with_the_same_bits(trial, two_records, uninterrupted, tmp_path):
    assert_same_end(kill_and_resume(two_records, tmp_path, trial), uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(5, 55))
def test_fifty_killed_trainings_end_with_the_same_bits(trial, two_records, uninterrupted, tmp_path):
    assert_same_end(kill_and_resume(two_records, tmp_path, trial), uninterrupted)


class StopAfter(keras.callbacks.Callback):
    """Send SIGTERM to this process after some steps."""

    def __init__(self, num_steps: int):
        super().__init__()
        self._left = num_steps

    def on_train_batch_end(self, batch, logs=None):
        self._left -= 1
        if not self._left:
            signal.raise_signal(signal.SIGTERM)


def stop_after(num_steps: int, records, backups: pathlib.Path) -> None:
    """Train until SIGTERM, with a backup every 4 steps and one of the last step."""
    with pytest.raises(
        InterruptedTrainingError, match=rf"training was stopped at step {num_steps}.* with resume=True to continue"
    ):
        train_here(records, BackupOptions(BackupFolder(backups), every_steps=4), callbacks=[StopAfter(num_steps)])


@pytest.fixture(scope="module")
def backups_of_a_stopped_one(two_records, tmp_path_factory):
    """Backups of the steps 8 and 9, in the first phase."""
    folder = tmp_path_factory.mktemp("stopped") / "backups"
    stop_after(9, two_records, folder)
    return folder


@pytest.fixture
def copied_backups(backups_of_a_stopped_one, tmp_path):
    """A copy of `backups_of_a_stopped_one`."""
    return shutil.copytree(backups_of_a_stopped_one, tmp_path / "backups")


@pytest.fixture
def copied_late_backup(uninterrupted, late_backup, tmp_path):
    """A copy of `late_backup`."""
    return shutil.copytree(late_backup, tmp_path / "backups")


@pytest.mark.slow
def test_a_stopped_training_resumes_bit_for_bit(copied_backups, two_records, uninterrupted):
    assert BackupFolder(copied_backups).steps() == [8, 9]
    again = resume_from(copied_backups, two_records)
    assert again["num_resumed"] == 9
    assert_same_end(again, uninterrupted)


@pytest.mark.slow
def test_a_training_stopped_late_in_its_second_phase_resumes_bit_for_bit(two_records, uninterrupted, tmp_path):
    stop_after(23, two_records, tmp_path / "backups")  # of 25: losses are logged every 7 steps, and of the last 4
    assert_same_end(resume_from(tmp_path / "backups", two_records), uninterrupted)


def test_a_backup_late_in_the_second_phase_resumes_bit_for_bit(copied_late_backup, two_records, uninterrupted):
    """The backup is of the uninterrupted training, which saves a training that is stopped."""
    assert BackupFolder(copied_late_backup).steps() == [23]
    again = resume_from(copied_late_backup, two_records)
    assert again["num_resumed"] == 23
    assert_same_end(again, uninterrupted)


class Toy(keras.Model):
    """Model with one weight."""

    def __init__(self):
        super().__init__()
        self.weight = self.add_weight(shape=(), initializer="zeros")

    def call(self, x):
        return x + self.weight


def fit_toy(backup: BackupOptions, num_steps: int, callbacks=()) -> None:
    """Train a toy with `fit_phases`, which all trainings use."""
    model, numbers = Toy(), tf.data.Dataset.from_tensors((np.ones((2, 1), "float32"),) * 2).repeat()
    model.compile("sgd", "mse")
    phase = Phase(lambda first: numbers, lambda: None, num_steps)
    options = {"settings": {}, "data": {}, "strategy": tf.distribute.get_strategy(), "listeners": ()}
    fit_phases(model, [phase], backup=backup, callbacks=callbacks, **options)


def test_sigterm_stops_a_training_after_a_backup_of_its_last_step(tmp_path):
    backups = BackupFolder(tmp_path / "backups")
    with pytest.raises(
        InterruptedTrainingError, match=r"training was stopped at step 9.* with resume=True to continue"
    ):
        fit_toy(BackupOptions(backups, every_steps=4), 20, [StopAfter(9)])
    assert backups.steps() == [8, 9]


@pytest.mark.slow
def test_a_process_writes_a_backup_at_sigterm(two_records, uninterrupted, tmp_path):
    process = start_training(two_records, tmp_path / "out.json", "--backups", tmp_path / "backups", "--every", 0)
    wait_for_step(process, 9)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "training was stopped at step" in errors
    assert "repeat the training with resume=True to continue" in errors
    again = resume_from(tmp_path / "backups", two_records)
    assert again["num_resumed"] >= 9
    assert_same_end(again, uninterrupted)


def flip_a_bit(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


DAMAGES = {
    "a flipped bit": (lambda folder: flip_a_bit(folder / "arrays.safetensors"), "does not match its recorded SHA-256"),
    "cut in half": (
        lambda folder: os.truncate(folder / "arrays.safetensors", (folder / "arrays.safetensors").stat().st_size // 2),
        "does not match its recorded SHA-256",
    ),
    "no arrays": (lambda folder: (folder / "arrays.safetensors").unlink(), "is missing"),
    "no metadata": (lambda folder: (folder / "state.json").unlink(), "is missing"),
    "no checksums": (lambda folder: (folder / "SHA256SUMS").unlink(), "is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_backup_is_reported_and_the_previous_one_used(damage, tmp_path):
    backups = BackupFolder(tmp_path / "backups", num_kept=2)
    for step in (3, 6, 9):
        backups.write(TrainingState(step, {"model.00000": np.full((40, 50), step, "float32")}, {"phase": 0}))
    assert backups.steps() == [6, 9]
    apply, message = DAMAGES[damage]
    apply(backups.path / "step-000000009")
    state = backups.newest()
    assert (state.step, state.metadata["phase"], state.arrays["model.00000"][0, 0]) == (6, 0, 6.0)
    [warning] = backups.damaged
    assert "step-000000009" in warning
    assert message in warning


def test_only_the_chief_writes_backups(tmp_path, monkeypatch):
    for is_chief in (True, False):
        backups = tmp_path / str(is_chief)
        monkeypatch.setattr("bert_keras.training.fitting.is_chief", lambda _, answer=is_chief: answer)
        fit_toy(BackupOptions(BackupFolder(backups), every_steps=2), 5)
        assert backups.exists() == is_chief


def test_an_unfinished_backup_is_ignored_and_removed(tmp_path):
    backups = BackupFolder(tmp_path / "backups")
    backups.write(TrainingState(3, {"a": np.zeros(3)}, {}))
    half = backups.path / ".step-000000006.half"
    shutil.copytree(backups.path / "step-000000003", half)
    assert (backups.steps(), backups.newest().step) == ([3], 3)
    with BackupCallback(BackupOptions(backups, every_steps=3), dict, bool):
        assert [path.name for path in backups.path.iterdir()] == ["step-000000003"]


@pytest.mark.slow
def test_a_training_resumes_from_the_backup_before_a_damaged_one(copied_backups, two_records, uninterrupted):
    *_, before, newest = sorted(copied_backups.glob("step-*"))  # three where it was killed before it removed the oldest
    flip_a_bit(newest / "arrays.safetensors")
    again = resume_from(copied_backups, two_records)
    assert newest.name in again["damaged"][0]
    assert again["num_resumed"] == int(before.name.removeprefix("step-"))
    assert_same_end(again, uninterrupted)


def test_a_full_disk_loses_a_backup_but_not_the_training(small_disk, caplog):
    backups = BackupFolder(small_disk / "backups")
    backups.write(TrainingState(3, {"a": np.zeros(3)}, {}))
    backups.start_writing(TrainingState(6, {"a": np.zeros(100_000)}, {}))
    backups.finish_writing()
    assert "the backup of step 6 could not be written to" in caplog.text
    assert "No space left on device" in caplog.text
    assert [path.name for path in backups.path.iterdir()] == ["step-000000003"]
    assert backups.newest().step == 3


def test_a_backup_of_another_run_is_rejected(copied_late_backup, two_records):
    backups = BackupFolder(copied_late_backup)
    resumed, allowing = BackupOptions(backups, resume=True), BackupOptions(backups, resume=True, allow_changes=True)
    with pytest.raises(
        InputError,
        match=r"another run \(optimizer.learning_rate was 0.01 and is 0.02\): resume .* allow_changes=True, or",
    ):
        train_here(two_records, resumed, optimizer__learning_rate=0.02)
    with pytest.raises(InputError, match="the backup is of another model"):
        train_here(two_records, allowing, model__hidden_dim=8)


@pytest.mark.parametrize(
    ("table", "setting", "before", "other"),
    [
        ("model", "output_bias", "zeros", "token_frequency"),
        ("model", "pretraining_dropout", True, False),
        (None, "head_rate_factor", 1.0, 10.0),
    ],
)
def test_a_backup_without_a_newer_setting_is_of_the_same_run(table, setting, before, other):
    def make_settings(**newer):
        return {"seed": 0, **newer} if table is None else {"seed": 0, table: {"objective": "mlm", **newer}}

    state = TrainingState(3, {}, {"settings": make_settings(), "data": [], "phase": 0})
    for value in (before, other):
        progress = TrainingProgress(make_settings(**{setting: value}), {}, TrainingLog(tokens_per_step=None))
        rejected = pytest.raises(InputError, match=f"{setting} was {before} and is {other}")
        with contextlib.nullcontext() if value == before else rejected:
            progress.select_phase(state, NO_BACKUP)


@pytest.mark.slow
def test_allow_changes_resumes_another_run(copied_backups, two_records):
    backups = BackupFolder(copied_backups)
    allowing = BackupOptions(backups, resume=True, allow_changes=True)
    assert train_here(two_records, allowing, optimizer__learning_rate=0.02)["num_resumed"] == backups.steps()[-1]
