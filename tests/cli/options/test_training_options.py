"""Training options: local workers, stopping and resuming, full disks, and invalid input."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from bert_keras.cli.commands.pretrain import resolve_settings
from bert_keras.cli.main import main, parser
from bert_keras.cli.options import training_options
from bert_keras.extras import make_python_command
from bert_keras.pipelines.records.making_records import write_records
from bert_keras.publishing import publish_folder

REPOSITORY = pathlib.Path(__file__).parents[3]
STORIES = [[" ".join([word] * 5)] * 6 for word in "the cat sat on a mat and every dog ran".split() * 2]
TINY = [
    *("--set", "model.num_layers=1", "--set", "model.num_heads=2", "--set", "model.hidden_dim=16"),
    *("--set", "model.intermediate_dim=24", "--batch-size", "4", "--no-xla"),
]


@pytest.fixture(scope="module")
def records(tokenizer, tmp_path_factory):
    """Records folder with next-sentence pairs, some of them held out."""
    folder = tmp_path_factory.mktemp("pretrain") / "records"
    write_records(folder, STORIES, tokenizer, max_sequence_length=16, held_out_rate=0.3)
    return folder


def read_log(out: pathlib.Path) -> list[dict]:
    lines = [json.loads(line) for line in (out / "training_log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


@pytest.mark.slow
def test_two_workers_match_one_even_after_resuming_with_one(records, cli, tmp_path):
    arguments = [*map(str, ("pretrain", records, "out", *TINY, "--steps", 60, "--backup-every", 5))]
    command = [sys.executable, "-m", "bert_keras.cli.main", *arguments, "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment)
    backups = tmp_path / ".out.training"
    while process.poll() is None and not list(backups.glob("step-*")):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 75, stderr[-3000:]
    assert "4 sequences per step = 2 replicas x 1 micro-batches x 2" in stderr
    assert stderr.count("training was stopped at step") == stderr.count("with --resume to continue") == 1
    assert not (tmp_path / "out").exists()

    refused = cli(*arguments)
    assert refused.returncode == 2
    assert "continue with --resume, or start over with --overwrite" in refused.stderr
    resumed = cli(*arguments, "--resume")
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    assert "resuming from step" in resumed.stderr
    one = cli("pretrain", records, "one", *TINY, "--steps", 60)
    assert one.returncode == 0, one.stderr[-3000:]
    for ours, theirs in zip(read_log(tmp_path / "out"), read_log(tmp_path / "one"), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "out"]


@pytest.mark.slow
def test_overwrite_with_resume_replaces_out_and_deterministic_runs_match_bit_for_bit(records, cli, tmp_path):
    with publish_folder(tmp_path / "out", "pretrain") as folder:
        (folder / "old").write_text("old")
    arguments = ["pretrain", records, "out", *TINY, "--steps", 5, "--deterministic"]
    assert cli(*arguments, "--resume").returncode == 2
    weights = []
    for _ in range(2):
        done = cli(*arguments, "--resume", "--overwrite")
        assert done.returncode == 0, done.stderr[-3000:]
        assert "there is none to resume from" in done.stderr
        weights.append((tmp_path / "out/model.safetensors").read_bytes())
    assert not (tmp_path / "out/old").exists()
    assert weights[0] == weights[1]


@pytest.mark.parametrize(("flags", "compiled"), [([], "auto"), (["--deterministic"], False), (["--no-xla"], False)])
def test_deterministic_pretraining_disables_xla(flags, compiled, records):
    arguments = parser().parse_args(["pretrain", str(records), "out", "--preset", "tiny", "--steps", "1", *flags])
    assert resolve_settings(arguments)[0].speed.jit_compile == compiled


@pytest.mark.slow
def test_trained_model_survives_a_full_disk(records, cli, small_disk, monkeypatch):
    out = small_disk / "out"
    # the training state takes 200 of 256 kB, so the model of 60 kB does not fit
    wider = ["--set", "model.hidden_dim=42"]
    arguments = ["pretrain", records, out, *TINY, *wider, "--steps", 4, "--backup-every", 3]
    monkeypatch.setenv("TMPDIR", str(small_disk))
    done = cli(*arguments)
    assert done.returncode == 2, done.stderr[-3000:]
    assert f"{out} cannot be written (No space left on device); the state after step 3 is in" in done.stderr
    assert [path.name for path in small_disk.iterdir()] == [".out.training"]
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    resumed = cli(*arguments, "--resume")
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    assert [path.name for path in small_disk.iterdir()] == ["out"]


@pytest.mark.slow
def test_every_worker_rejects_an_indivisible_batch(records, cli, tmp_path):
    done = cli("pretrain", records, "out", *TINY, "--steps", 8, "--workers", 3)
    assert done.returncode == 2
    assert "a batch of 4 sequences cannot be divided among 3 replicas with 1 micro-batches each" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_multi_worker_requires_tf_config(records, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    command = ["pretrain", str(records), str(tmp_path / "out"), *TINY, "--steps", "8", "--strategy", "multi-worker"]
    assert main(command) == 2
    assert "TF_CONFIG is not set; expected" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "position"), [(["--workers", "3"], -1), (["--workers=3"], 3)])
def test_workers_get_the_same_arguments_without_the_workers_option(option, position, records, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(training_options, "run_workers", lambda *arguments: started.append(arguments) or 75)
    arguments = ["pretrain", str(records), str(tmp_path / "out"), *TINY, "--steps", "8"]
    command = [*arguments[:position], *option, *arguments[position:]] if position > 0 else [*arguments, *option]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 75, "expected the exit status of the workers"
    expected = [*make_python_command("bert_keras.cli.main"), *arguments, "--strategy", "multi-worker"]
    assert started == [(expected, 3)]
