"""A training that was killed, told to stop, or left with damaged backups ends where an uninterrupted one ends."""

import errno
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from bert_keras.training.backups import BackupFolder, BackupWriter, TrainingState

SCRIPT = pathlib.Path(__file__).with_name("train_tiny.py")
REPOSITORY = pathlib.Path(__file__).parents[2]


def start(records, out: pathlib.Path, *options, **popen) -> subprocess.Popen:
    """Starts `train_tiny.py`."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **popen.pop("environment", {})}
    command = [sys.executable, str(SCRIPT), *map(str, records), str(out), *map(str, options)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes, **popen)


def finish(process: subprocess.Popen, out: pathlib.Path) -> dict:
    """Waits for its end and returns what it wrote."""
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said[-3000:]
    return json.loads(out.read_text())


def wait_for_step(process: subprocess.Popen, step: int) -> None:
    for line in process.stdout:
        if int(line) >= step:
            return


@pytest.fixture(scope="module")
def two_records(make_records_folder):
    """Records of two lengths, for two phases."""
    return [make_records_folder()[0], make_records_folder(max_sequence_length=32)[0]]


PHASES = ("--set", 'phases=[{"records"=0,"share"=0.6},{"records"=1,"share"=0.4,"batch_size"=4}]')


@pytest.fixture(scope="module")
def uninterrupted(two_records, tmp_path_factory):
    """What the training becomes if nothing happens to it."""
    out = tmp_path_factory.mktemp("uninterrupted") / "out.json"
    return finish(start(two_records, out, *PHASES), out)


def assert_same_end(ours: dict, theirs: dict) -> None:
    assert ours["digests"] == theirs["digests"]
    assert ours["log"] == theirs["log"]
    assert len(ours["digests"]) > 60


def kill_and_resume(records, folder: pathlib.Path, trial: int) -> dict:
    """Kills a training at a random moment and lets another process go on; returns what that one wrote."""
    rng = random.Random(trial)
    options = ["--backups", folder / "backups", "--every", rng.choice([1, 2, 5]), *PHASES]
    process = start(records, folder / "out.json", *options)
    wait_for_step(process, rng.randrange(1, 25))
    time.sleep(rng.random() * 0.1)  # a step takes 10 to 30 ms, a backup as long
    process.kill()
    process.communicate()
    return finish(start(records, folder / "out.json", *options, "--resume"), folder / "out.json")


@pytest.mark.parametrize("trial", range(5))
def test_a_killed_training_ends_with_the_same_bits(trial, two_records, uninterrupted, tmp_path):
    assert_same_end(kill_and_resume(two_records, tmp_path, trial), uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(5, 55))
def test_fifty_killed_trainings_end_with_the_same_bits(trial, two_records, uninterrupted, tmp_path):
    assert_same_end(kill_and_resume(two_records, tmp_path, trial), uninterrupted)


def test_a_training_that_is_told_to_stop_keeps_its_state(two_records, uninterrupted, tmp_path):
    options = ["--backups", tmp_path / "backups", "--every", 0, *PHASES]
    process = start(two_records, tmp_path / "out.json", *options)
    wait_for_step(process, 9)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "the training was told to stop at step" in said
    assert "--resume" in said
    again = finish(start(two_records, tmp_path / "out.json", *options, "--resume"), tmp_path / "out.json")
    assert again["num_resumed"] >= 9
    assert_same_end(again, uninterrupted)


@pytest.fixture
def kept(two_records, tmp_path):
    """Backups of a training that was killed after its twelfth step."""
    process = start(two_records, tmp_path / "out.json", "--backups", tmp_path / "backups", "--every", 4, *PHASES)
    wait_for_step(process, 13)
    process.kill()
    process.communicate()
    return tmp_path / "backups"


def flip_a_bit(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


DAMAGES = {
    "a flipped bit": (lambda folder: flip_a_bit(folder / "arrays.safetensors"), "does not match the SHA-256"),
    "cut in half": (
        lambda folder: os.truncate(folder / "arrays.safetensors", (folder / "arrays.safetensors").stat().st_size // 2),
        "does not match the SHA-256",
    ),
    "no arrays": (lambda folder: (folder / "arrays.safetensors").unlink(), "is missing"),
    "no facts": (lambda folder: (folder / "state.json").unlink(), "is missing"),
    "no checksums": (lambda folder: (folder / "SHA256SUMS").unlink(), "is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_backup_is_named_and_the_one_before_is_used(damage, tmp_path):
    kept = BackupFolder(tmp_path / "backups", num_kept=2)
    for step in (3, 6, 9):
        kept.write(TrainingState(step, {"model.00000": np.full((40, 50), step, "float32")}, {"phase": 0}))
    assert kept.steps() == [6, 9]
    apply, message = DAMAGES[damage]
    apply(kept.path / "step-000000009")
    state = kept.newest()
    assert (state.step, state.facts["phase"], state.arrays["model.00000"][0, 0]) == (6, 0, 6.0)
    [told] = kept.damaged
    assert "step-000000009" in told
    assert message in told


def test_a_training_goes_on_from_the_backup_before_a_damaged_one(kept, two_records, uninterrupted, tmp_path):
    *_, before, newest = sorted(kept.glob("step-*"))  # three where it was killed before it removed the oldest
    flip_a_bit(newest / "arrays.safetensors")
    out = tmp_path / "out.json"
    again = finish(start(two_records, out, "--backups", kept, "--every", 4, *PHASES, "--resume"), out)
    assert newest.name in again["damaged"][0]
    assert again["num_resumed"] == int(before.name.removeprefix("step-"))
    assert_same_end(again, uninterrupted)


def test_a_full_disk_costs_a_backup_and_not_the_training(tmp_path, monkeypatch, caplog):
    kept = BackupFolder(tmp_path / "backups")
    kept.write(TrainingState(3, {"a": np.zeros(3)}, {}))
    monkeypatch.setattr("safetensors.numpy.save_file", fails_for_want_of_space)
    writer = BackupWriter(kept)
    writer.begin(TrainingState(6, {"a": np.zeros(3)}, {}))
    writer.finish()
    assert "the backup of step 6 could not be written to" in caplog.text
    assert "No space left on device" in caplog.text
    assert [path.name for path in kept.path.iterdir()] == ["step-000000003"]
    assert kept.newest().step == 3


def fails_for_want_of_space(arrays, path) -> None:
    pathlib.Path(path).write_bytes(b"half")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def test_another_run_is_refused_unless_it_is_meant(kept, two_records, tmp_path):
    options = ["--backups", kept, "--resume", *PHASES, "--set", "optimizer.learning_rate=0.02"]
    process = start(two_records, tmp_path / "out.json", *options)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "is of another run (optimizer.learning_rate was 0.01 and is 0.02): go on with the settings" in said
    finish(start(two_records, tmp_path / "out.json", *options, "--allow-changes"), tmp_path / "out.json")
    process = start(two_records, tmp_path / "out.json", *options, "--allow-changes", "--set", "model.hidden_dim=8")
    _, said = process.communicate(timeout=120)
    assert "the backup holds the state of another model" in said
