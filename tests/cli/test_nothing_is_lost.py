"""Commands never delete files of others and never lose a result."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.errors import InputError
from bert_keras.pipelines.records.making_records import write_records
from bert_keras.staging import LISTING, lock_folder
from tests.cli.conftest import tiny_encoder

STORIES = [[" ".join([word] * 5)] * 6 for word in "the cat sat on a mat and every dog ran".split()]
TINY = [
    *("--set", "model.num_layers=1", "--set", "model.num_heads=2", "--set", "model.hidden_dim=16"),
    *("--set", "model.intermediate_dim=24", "--batch-size", "4", "--no-xla", "--steps", "2"),
]


@pytest.fixture(scope="module")
def original_project(tokenizer, tmp_path_factory):
    """A user's folder with models, records, texts and a Git repository."""
    folder = tmp_path_factory.mktemp("original") / "p"
    bk.save(tiny_encoder(tokenizer, num_layers=1), tokenizer, folder / "models/ck")
    write_records(folder / "rec", STORIES, tokenizer, max_sequence_length=16)
    (folder / ".git").mkdir()
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    for name in ("train.csv", "dev.csv"):
        (folder / name).write_text("text,label\nthe cat,a\na dog,b\n")
    (folder / "art/onnx").mkdir(parents=True)
    (folder / "art/onnx/mine.txt").write_text("mine")
    tokenizer.save(folder)
    return folder


@pytest.fixture
def project(original_project, tmp_path, monkeypatch):
    """A copy of the user's folder; the folder that contains it is the working directory."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(original_project, tmp_path / "p")


def list_contents(folder):
    return {str(path.relative_to(folder)): path.is_file() and path.read_bytes() for path in folder.rglob("*")}


# (command, pattern of the message); p is the user's folder, p/models/ck a checkpoint, p/rec records
REFUSED = {
    "convert to a parent folder of the input": ("convert p/models/ck p", "p/models/ck is an input of this run"),
    "convert to the input": ("convert p/models/ck p/models/ck", "p/models/ck is an input of this run"),
    "convert to records": ("convert p/models/ck p/rec", "p/rec was written by make-records"),
    "pretrain to a parent folder of the records": ("pretrain p/rec p", "p/rec is an input of this run"),
    "pretrain to the records": ("pretrain p/rec p/rec", "p/rec is an input of this run"),
    "pretrain to the start checkpoint": (
        "pretrain p/rec p/models/ck --start-from p/models/ck",
        "p/models/ck is an input of this run",
    ),
    "make-records to a parent folder of the vocabulary": (
        "make-records p/vocab.txt p --max-sequence-length 16",
        "p/vocab.txt is an input of this run",
    ),
    "make-records to a checkpoint": (
        "make-records p/vocab.txt p/models/ck --max-sequence-length 16",
        "p/models/ck was written by save",
    ),
    "finetune to the checkpoint": (
        "finetune p/models/ck p/models/ck --train p/train.csv --dev p/dev.csv",
        "p/models/ck is an input of this run",
    ),
    "finetune to a parent folder of the examples": (
        "finetune p/models/ck p --train p/train.csv --dev p/dev.csv",
        "p/models/ck is an input of this run",
    ),
    "finetune to records": (
        "finetune p/models/ck p/rec --train p/train.csv --dev p/dev.csv",
        "p/rec was written by make-records",
    ),
    "inspect to the model": ("inspect p/models/ck cat --out p/models/ck --no-pictures", "p/models/ck is an input of"),
    "inspect to a repository": ("inspect p/models/ck cat --out p/.git --no-pictures", "p/.git holds HEAD and no"),
    "plan to the model": ("plan p/models/ck --pictures p/models/ck", "p/models/ck is an input of this run"),
    "plan to other folders": ("plan tiny --pictures p", r"p holds .git, art, dev.csv and 6 more and no"),
    "export to the user's folder": ("export p/models/ck p", "p contains art and no artifacts"),
    "export to the checkpoint": ("export p/models/ck p/models/ck", "p/models/ck contains README.md and no artifacts"),
    "export to a folder with files of the user": (
        "export p/models/ck p/art --to onnx",
        "p/art/onnx holds mine.txt and no .bert_keras.json",
    ),
    "demo to the user's folder": ("demo p", "p is not the folder of an earlier demo"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_inputs_and_unrelated_files_are_never_replaced(case, project, capsys):
    command, named = REFUSED[case]
    before = list_contents(project)
    assert main([*command.split(), "--overwrite"]) == 2
    printed = capsys.readouterr().err
    assert named in printed
    assert printed.count("\n") == 1, "only the error is printed, no settings"
    assert list_contents(project) == before


def test_empty_mount_point_can_be_the_output(project, small_disk, capsys):
    out = small_disk
    assert main(["convert", "p/models/ck", str(out)]) == 0
    assert (out / "model.safetensors").stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert main(["convert", "p/models/ck", str(out), "--overwrite"]) == 2
    assert "is a mount point and has content, so it cannot be replaced" in capsys.readouterr().err
    assert (out / "model.safetensors").exists()


def test_read_only_disk_is_reported_before_any_work(project, small_disk, capsys):
    (small_disk / "out").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for out in ("new", "out", "deep/new"):
        assert main(["pretrain", "p/rec", str(small_disk / out), *TINY]) == 2
        printed = capsys.readouterr().err
        assert "cannot be written" in printed
        assert "Read-only file system" in printed
        assert "budget" not in printed  # no settings are printed, so the work has not started


@pytest.mark.slow
def test_mount_point_in_a_read_only_folder_can_be_the_output(project, small_disk):
    (small_disk / "mount").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small_disk / "mount")], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        assert main(["pretrain", "p/rec", str(small_disk / "mount"), *TINY, "--backup-every", "1"]) == 0
        names = {path.name for path in (small_disk / "mount").iterdir()}
        assert {"model.safetensors", LISTING} < names
        assert not any(name.startswith(".bert_keras.") and name != LISTING for name in names)
    finally:
        subprocess.run(["umount", "-l", str(small_disk / "mount")], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [True, False])
def test_trained_model_that_cannot_be_published_is_saved_elsewhere(project, small_disk, capsys, monkeypatch, is_kept):
    tempdir = "p" if is_kept else "p/dev.csv"
    monkeypatch.setattr(tempfile, "gettempdir", lambda: tempdir)
    out = small_disk / "out"
    (small_disk / "big").write_bytes(b"0" * 200_000)  # of 256 kB; the model needs 60
    assert main(["pretrain", "p/rec", str(out), *TINY, "--set", "model.hidden_dim=42", "--backup-every", "0"]) == 2
    printed = capsys.readouterr().err.splitlines()[-1]
    assert "out cannot be written (No space left on device); " in printed
    if is_kept:
        assert "the trained model is in p/out.unpublished." in printed
        [folder] = project.glob("out.unpublished.*")
        bk.load(folder)
    else:
        assert "the trained model is lost, because there is no backup either" in printed
    assert [path.name for path in small_disk.iterdir()] == ["big"]


@pytest.mark.slow
def test_model_finetuned_in_python_is_saved_elsewhere(project, small_disk):
    (small_disk / "big").write_bytes(b"0" * 200_000)  # of 256 kB; the model needs more than the rest
    examples = [("the cat", "a"), ("a dog", "b")]
    with pytest.raises(InputError, match=r"out cannot be written .*; the trained model is in .*: move it") as raised:
        bk.finetune(
            "p/models/ck", small_disk / "out", train=examples, dev=examples, num_epochs=1, max_sequence_length=8
        )
    saved_folder = re.search(r"model is in (.*): move it", str(raised.value))[1]
    assert pathlib.Path(saved_folder).name.startswith("out.unpublished.")
    assert len(bk.Predictor.from_checkpoint(saved_folder)(["the cat"])) == 1
    assert {"metrics.json", "README.md"} < {path.name for path in pathlib.Path(saved_folder).iterdir()}
    assert [path.name for path in small_disk.iterdir()] == ["big"]


def test_second_training_into_the_same_folder_is_rejected_at_the_start(project, capsys):
    reject_second_training(project, capsys)


@pytest.mark.slow
def test_training_after_a_rejected_one_leaves_no_backup_folder(project, capsys):
    reject_second_training(project, capsys)
    assert main(["pretrain", "p/rec", "out", *TINY]) == 0
    assert not (project.parent / ".out.training").exists()


def reject_second_training(project, capsys):
    with lock_folder(project.parent / ".out.training"):
        for _ in range(2):  # a rejected training leaves the lock of the first one in place
            assert main(["pretrain", "p/rec", "out", *TINY]) == 2
            assert "another process is using" in capsys.readouterr().err


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.slow
def test_simultaneous_exports_lose_no_files(project, cli):
    command = [sys.executable, "-m", "bert_keras.cli.main", "export", "p/models/ck", "out"]
    processes = [
        subprocess.Popen([*command, "--to", "saved_model"], stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    statuses = sorted(process.returncode for process in processes)
    assert statuses == [0, 2], errors
    assert any("another process is using" in error for error in errors)
    assert (project.parent / "out/saved_model/1/saved_model.pb").exists()
    assert not (project.parent / "out/saved_model/2").exists()


@pytest.mark.slow
def test_killed_export_does_not_block_its_folder(project, cli):
    command = [sys.executable, "-m", "bert_keras.cli.main", "export", "p/models/ck", "out", "--to", "saved_model"]
    out = project.parent / "out"
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(out.glob("saved_model/.1.*.tmp/*")):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(out.glob("saved_model/.1.*.tmp"))
    retried = cli(*command[3:], cwd=project.parent)
    assert retried.returncode == 0, retried.stderr[-2000:]
    assert sorted(path.name for path in out.iterdir()) == ["parity.json", "saved_model", "serving"]
    assert [path.name for path in (out / "saved_model").iterdir()] == ["1"]


@pytest.mark.slow
def test_training_does_not_resume_with_another_checkpoint(project, cli, tokenizer):
    shutil.rmtree(project / "models/other", ignore_errors=True)
    bk.save(tiny_encoder(tokenizer, num_layers=1), tokenizer, project / "models/other")  # different random weights
    task = ["--train", "p/train.csv", "--dev", "p/dev.csv", "--batch-size", "2", "--epochs", "200"]
    arguments = [sys.executable, "-m", "bert_keras.cli.main", "finetune", "p/models/ck", "out", *task]
    process = subprocess.Popen([*arguments, "--backup-every", "1"], stderr=subprocess.PIPE, text=True)
    backups = project.parent / ".out.training"
    while process.poll() is None and not list(backups.glob("step-*")):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, printed = process.communicate(timeout=120)
    assert process.returncode == 75, printed[-2000:]
    refused = cli("finetune", "p/models/other", "out", *task, "--resume", cwd=project.parent)
    assert refused.returncode == 2
    assert "is of another run (the checkpoint changed)" in refused.stderr
