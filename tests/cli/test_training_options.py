"""Trainings from the shell: several workers, a stop and a new start, and what is refused."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from bert_keras.pipelines.records import write_records

REPOSITORY = pathlib.Path(__file__).parents[2]
STORIES = [[" ".join([word] * 5)] * 6 for word in "the cat sat on a mat and every dog ran".split() * 2]
TINY = [
    *("--set", "model.num_layers=1", "--set", "model.num_heads=2", "--set", "model.hidden_dim=16"),
    *("--set", "model.intermediate_dim=24", "--batch-size", "4", "--no-xla"),
]


@pytest.fixture(scope="module")
def records(tokenizer, tmp_path_factory):
    """A folder of records with next sentences, some of them held out."""
    folder = tmp_path_factory.mktemp("pretrain") / "records"
    write_records(folder, STORIES, tokenizer, max_sequence_length=16, held_out_rate=0.3)
    return folder


def log_of(out: pathlib.Path) -> list[dict]:
    lines = [json.loads(line) for line in (out / "training_log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def test_two_workers_of_one_machine_train_as_one(records, cli, tmp_path):
    both = cli("pretrain", records, "both", *TINY, "--steps", 8, "--workers", 2)
    assert both.returncode == 0, both.stderr[-3000:]
    assert "4 rows a step = 2 replicas x 1 parts x 2" in both.stderr
    assert both.stderr.count("wrote both") + both.stdout.count("wrote both") == 1
    one = cli("pretrain", records, "one", *TINY, "--steps", 8)
    assert one.returncode == 0, one.stderr[-3000:]
    for ours, theirs in zip(log_of(tmp_path / "both"), log_of(tmp_path / "one"), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both", "one"]


def test_a_batch_that_cannot_be_divided_is_refused_by_all_workers(records, cli, tmp_path):
    done = cli("pretrain", records, "out", *TINY, "--steps", 8, "--workers", 3)
    assert done.returncode == 2
    assert "a batch of 4 rows cannot be divided among 3 replicas of 1 parts: make it a multiple of 3" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_stop_keeps_the_state_and_resume_goes_on_from_it(records, cli, tmp_path):
    arguments = [*map(str, ("pretrain", records, "out", *TINY, "--steps", 400, "--backup-every", 20))]
    command = [sys.executable, "-m", "bert_keras.cli.main", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment)
    backups = tmp_path / ".out.training"
    while process.poll() is None and not list(backups.glob("step-*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 75, said[-3000:]
    assert "the training was told to stop at step" in said
    assert not (tmp_path / "out").exists()

    refused = cli(*arguments)
    assert refused.returncode == 2
    assert "go on with --resume, or begin anew with --overwrite" in refused.stderr
    both = cli(*arguments, "--resume", "--overwrite")
    assert both.returncode == 2
    again = cli(*arguments, "--resume")
    assert again.returncode == 0, again.stderr[-3000:]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert log_of(tmp_path / "out")[-1]["step"] == 400


def test_multi_worker_without_tf_config_is_told(records, cli, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    done = cli("pretrain", records, "out", *TINY, "--steps", 8, "--strategy", "multi-worker")
    assert done.returncode == 2
    assert "TF_CONFIG is not set; expected" in done.stderr
