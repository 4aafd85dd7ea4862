"""Runs that are killed, interrupted or out of disk space resume and write the bytes of an uninterrupted run."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.records import making_records
from bert_keras.pipelines.records.documents import DocumentText
from bert_keras.pipelines.records.making_records import write_records as write
from bert_keras.pipelines.records.manifest import read_manifest
from bert_keras.pipelines.records.records_folder import count_finished_blocks, get_partial_path
from bert_keras.staging import lock_folder
from tests.marks import slow

SETTINGS = {"max_sequence_length": 29, "seed": 5, "block_bytes": 1000, "held_out_rate": 0.2, "packed": True}


@pytest.fixture(scope="module")
def text(make_text):
    return make_text(70)


@pytest.fixture(scope="module")
def uninterrupted(text, tiny_tokenizer, tmp_path_factory):
    """Files of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "out"
    write(folder, text, tiny_tokenizer, **SETTINGS)
    return read_content(folder)


def read_content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


class StoppedError(Exception):
    """Error that stops a run."""


def stop_after(num_blocks, error):
    def progress(*_):
        nonlocal num_blocks
        num_blocks -= 1
        if not num_blocks:
            raise error

    return progress


def stop_run(folder, text, tokenizer, num_blocks=3, error=StoppedError, **changes):
    """Write records until the given number of blocks is finished."""
    with pytest.raises(error):
        write(folder, text, tokenizer, **{**SETTINGS, **changes}, progress=stop_after(num_blocks, error))


@pytest.fixture
def processed_blocks(monkeypatch):
    """Indices of the blocks that the run actually processes."""
    processed = []
    make_worker = making_records.make_block_worker

    def make_recording_worker(*arguments, **options):
        work = make_worker(*arguments, **options)
        return lambda block: (processed.append(block.index), work(block))[1]

    monkeypatch.setattr(making_records, "make_block_worker", make_recording_worker)
    return processed


@pytest.mark.parametrize("num_blocks", [1, 3, 7])
def test_stopped_run_resumes_with_the_same_bytes(
    text, tiny_tokenizer, tmp_path, uninterrupted, processed_blocks, num_blocks
):
    stop_run(tmp_path / "out", text, tiny_tokenizer, num_blocks)
    assert not (tmp_path / "out").exists()
    assert count_finished_blocks(tmp_path / "out") == num_blocks
    calls = []
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS, progress=lambda *call: calls.append(call))
    assert read_content(tmp_path / "out") == uninterrupted
    assert processed_blocks == list(range(7))  # each block once
    assert len(calls) == 7
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 6}, "seed 6 there, 5 here"),
        ({"duplicates": 2}, "duplicates 2 there, 1 here"),
        ({"max_sequence_length": 31}, "max_sequence_length 31 there, 29 here"),
    ],
)
def test_run_with_other_settings_starts_afresh_with_a_warning(
    text, tiny_tokenizer, tmp_path, uninterrupted, processed_blocks, caplog, changes, message
):
    stop_run(tmp_path / "out", text, tiny_tokenizer, **changes)
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert f"an unfinished run with other settings ({message}): starting afresh" in caplog.text
    assert read_content(tmp_path / "out") == uninterrupted
    assert processed_blocks == [0, 1, 2, *range(7)]


def test_other_tokenizer_starts_afresh(text, tiny_tokenizer, tmp_path, uninterrupted, caplog):
    cased = type(tiny_tokenizer)(tiny_tokenizer.vocabulary, lowercase=False)
    stop_run(tmp_path / "out", text, cased)
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert "lowercase false there, true here; strip_accents false there, true here; tokenizer_sha256" in caplog.text
    assert read_content(tmp_path / "out") == uninterrupted


def test_other_sources_start_afresh(text, tiny_tokenizer, tmp_path, caplog):
    stop_run(tmp_path / "out", DocumentText(text, name="mine"), tiny_tokenizer)
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert 'sources ["mine"] there, ["documents"] here' in caplog.text


def test_only_blocks_with_changed_text_are_remade(
    text, tiny_tokenizer, tmp_path, uninterrupted, processed_blocks, caplog
):
    other = [[*text[0][:-1], "un un"], *text[1:]]
    stop_run(tmp_path / "out", other, tiny_tokenizer, 7)
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert "the text of block 0 has changed" in caplog.text
    assert read_content(tmp_path / "out") == uninterrupted
    assert processed_blocks[7] == 0
    assert len(processed_blocks) < 14


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "train-00001.tfrecord").write_bytes(b""),
        lambda folder: (folder / "train-00001.tfrecord").unlink(),
        lambda folder: (folder / "block-00001.json").write_bytes(b'{"shards": ['),
        lambda folder: (folder / "block-00001.json").write_text("{}"),
    ],
)
def test_damaged_block_is_remade(text, tiny_tokenizer, tmp_path, uninterrupted, processed_blocks, damage):
    stop_run(tmp_path / "out", text, tiny_tokenizer, 3)
    damage(get_partial_path(tmp_path / "out"))
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert read_content(tmp_path / "out") == uninterrupted
    assert processed_blocks == [0, 1, 2, 1, 3, 4, 5, 6]


def test_other_files_in_the_partial_folder_are_not_published(text, tiny_tokenizer, tmp_path, uninterrupted):
    stop_run(tmp_path / "out", text * 3, tiny_tokenizer, 12)  # a longer text that starts with the same documents
    (get_partial_path(tmp_path / "out") / ".train-00005.tfrecord.tmp").write_bytes(b"incomplete")
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert read_content(tmp_path / "out") == uninterrupted


def test_missing_run_settings_start_afresh(text, tiny_tokenizer, tmp_path, uninterrupted, processed_blocks):
    stop_run(tmp_path / "out", text, tiny_tokenizer)
    (get_partial_path(tmp_path / "out") / "run.json").unlink()
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert read_content(tmp_path / "out") == uninterrupted
    assert processed_blocks == [0, 1, 2, *range(7)]


def test_second_concurrent_run_is_rejected(text, tiny_tokenizer, tmp_path):
    path = get_partial_path(tmp_path / "out")
    with lock_folder(path):
        with pytest.raises(InputError, match=r"another process is using .*\.out\.partial"):
            write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
        assert path.is_dir()
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)


def test_disk_error_names_the_remaining_blocks(text, tiny_tokenizer, tmp_path):
    error = OSError(28, "No space left on device", "x.tfrecord")
    with pytest.raises(InputError) as raised:
        write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS, progress=stop_after(2, error))
    assert str(raised.value) == (
        f"{tmp_path / 'out'} cannot be written (x.tfrecord: No space left on device): free some space, or choose "
        f"a folder on another disk; 2 finished blocks remain in {tmp_path / '.out.partial'}, and the same command "
        "resumes with them"
    )


def test_full_disk_leaves_complete_files_and_the_run_resumes(text, tiny_tokenizer, tmp_path, small_disk):
    settings = {**SETTINGS, "duplicates": 20, "packed": False}
    with pytest.raises(InputError, match=r"out cannot be written \(.*No space left on device\).* blocks remain"):
        write(small_disk / "out", text, tiny_tokenizer, **settings)
    assert [path.name for path in small_disk.iterdir()] == [".out.partial"]
    assert not list((small_disk / ".out.partial").glob(".*.tmp"))
    assert count_finished_blocks(small_disk / "out") >= 1
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    write(small_disk / "out", text, tiny_tokenizer, **settings)
    write(tmp_path / "out", text, tiny_tokenizer, **settings)
    assert read_content(small_disk / "out") == read_content(tmp_path / "out")


@pytest.mark.skipif(os.name != "posix", reason="needs a folder without write permission")
def test_unwritable_path_is_rejected(text, tiny_tokenizer, tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (pathlib.Path("/proc/out"), tmp_path / "file/out"):
        with pytest.raises(InputError, match=rf"{path} cannot be written \(.*\): name a folder elsewhere"):
            write(path, text, tiny_tokenizer, **SETTINGS)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


# The script does not load TensorFlow, so that a process starts in 0.2 s and can be killed often. Its shards are the
# reversed text, which is sufficient for this test.
SCRIPT = """
import sys, time
from bert_keras.pipelines.records import making_records
from bert_keras.pipelines.records.making_records import write_records
from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec
from bert_keras.pipelines.records.documents import Shard
from bert_keras.pipelines.records.manifest import COUNTS, QUALITY_COUNTS

def make_reverser(settings, tokenizer, sentences, *, num_threads=None):
    def reverse(block):
        time.sleep(0.004)
        return {"train": Shard(block.text[::-1] * 20, dict.fromkeys((*COUNTS, *QUALITY_COUNTS), 1))}
    return reverse

making_records.make_block_worker = make_reverser
spec = TokenizerSpec(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
documents = [[f"document {d} line {n}" for n in range(40)] for d in range(100)]
if __name__ == "__main__":
    write_records(sys.argv[1], documents, spec, max_sequence_length=9, block_bytes=1000, num_workers=int(sys.argv[2]))
"""


@pytest.mark.parametrize(("num_workers", "num_kills"), [(2, 2), *slow((1, 5), (2, 5))])
def test_process_killed_repeatedly_ends_with_the_same_bytes(tmp_path, num_workers, num_kills):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py")]
    subprocess.run([*command, str(tmp_path / "uninterrupted"), "1"], check=True)
    rng, finished = random.Random(num_workers), [0]
    for _ in range(num_kills):
        process = subprocess.Popen([*command, str(tmp_path / "out"), str(num_workers)], stderr=subprocess.DEVNULL)
        num_blocks = finished[-1] + rng.randint(1, 8)
        while process.poll() is None and count_finished_blocks(tmp_path / "out") < num_blocks:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        finished.append(count_finished_blocks(tmp_path / "out"))
    subprocess.run([*command, str(tmp_path / "out"), str(num_workers)], check=True)
    assert finished == sorted(finished)
    assert num_kills <= finished[-1] < 75
    assert read_content(tmp_path / "out") == read_content(tmp_path / "uninterrupted")
    assert not get_partial_path(tmp_path / "out").exists()


def test_resumed_run_has_a_readable_manifest(text, tiny_tokenizer, tmp_path):
    stop_run(tmp_path / "out", text, tiny_tokenizer)
    manifest = write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert read_manifest(tmp_path / "out") == manifest == json.loads((tmp_path / "out/manifest.json").read_text())
