"""A run that is killed, interrupted or out of disk resumes and gives the bytes of an uninterrupted run."""

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
from bert_keras.pipelines.records import DocumentText, read_manifest
from bert_keras.pipelines.records import records_folder as folder_module
from bert_keras.pipelines.records import write_records as write
from bert_keras.pipelines.records.partial_folder import count_finished_blocks, partial_path
from bert_keras.staging import lock_folder

SETTINGS = {"max_sequence_length": 29, "seed": 5, "block_bytes": 1000, "held_out_rate": 0.2, "packed": True}


@pytest.fixture(scope="module")
def text(made_text):
    return made_text(70)


@pytest.fixture(scope="module")
def uninterrupted(text, tiny_tokenizer, tmp_path_factory):
    """The files of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "out"
    write(folder, text, tiny_tokenizer, **SETTINGS)
    return read_content(folder)


def read_content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


class StoppedError(Exception):
    """The error that stops a run."""


def stop_after(num_blocks, error):
    def progress(*_):
        nonlocal num_blocks
        num_blocks -= 1
        if not num_blocks:
            raise error

    return progress


def stopped(folder, text, tokenizer, num_blocks=3, error=StoppedError, **changes):
    """Write records until some blocks are finished."""
    with pytest.raises(error):
        write(folder, text, tokenizer, **{**SETTINGS, **changes}, progress=stop_after(num_blocks, error))


@pytest.fixture
def blocks_made(monkeypatch):
    """The indices of the blocks that are actually made."""
    made = []
    make_worker = folder_module.make_block_worker

    def make_listening_worker(*arguments, **options):
        work = make_worker(*arguments, **options)
        return lambda block: (made.append(block.index), work(block))[1]

    monkeypatch.setattr(folder_module, "make_block_worker", make_listening_worker)
    return made


@pytest.mark.parametrize("num_blocks", [1, 3, 7])
def test_a_stopped_run_resumes_with_the_same_bytes(
    text, tiny_tokenizer, tmp_path, uninterrupted, blocks_made, num_blocks
):
    stopped(tmp_path / "out", text, tiny_tokenizer, num_blocks)
    assert not (tmp_path / "out").exists()
    assert count_finished_blocks(tmp_path / "out") == num_blocks
    calls = []
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS, progress=lambda *call: calls.append(call))
    assert read_content(tmp_path / "out") == uninterrupted
    assert blocks_made == list(range(7))  # each once
    assert len(calls) == 7
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seed": 6}, "seed 6 there, 5 here"),
        ({"duplicates": 2}, "duplicates 2 there, 1 here"),
        ({"max_sequence_length": 31}, "max_sequence_length 31 there, 29 here"),
    ],
)
def test_a_run_with_other_settings_starts_afresh_with_a_warning(
    text, tiny_tokenizer, tmp_path, uninterrupted, blocks_made, caplog, changes, told
):
    stopped(tmp_path / "out", text, tiny_tokenizer, **changes)
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert f"an unfinished run with other settings ({told}): starting afresh" in caplog.text
    assert read_content(tmp_path / "out") == uninterrupted
    assert blocks_made == [0, 1, 2, *range(7)]


def test_another_tokenizer_starts_afresh(text, tiny_tokenizer, tmp_path, uninterrupted, caplog):
    cased = type(tiny_tokenizer)(tiny_tokenizer.vocabulary, lowercase=False)
    stopped(tmp_path / "out", text, cased)
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert "lowercase false there, true here; strip_accents false there, true here; tokenizer_sha256" in caplog.text
    assert read_content(tmp_path / "out") == uninterrupted


def test_other_sources_start_afresh(text, tiny_tokenizer, tmp_path, caplog):
    stopped(tmp_path / "out", DocumentText(text, name="mine"), tiny_tokenizer)
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert 'sources ["mine"] there, ["documents"] here' in caplog.text


def test_only_blocks_with_changed_text_are_remade(text, tiny_tokenizer, tmp_path, uninterrupted, blocks_made, caplog):
    other = [[*text[0][:-1], "un un"], *text[1:]]
    stopped(tmp_path / "out", other, tiny_tokenizer, 7)
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert "the text of block 0 has changed" in caplog.text
    assert read_content(tmp_path / "out") == uninterrupted
    assert blocks_made[7] == 0
    assert len(blocks_made) < 14


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "train-00001.tfrecord").write_bytes(b""),
        lambda folder: (folder / "train-00001.tfrecord").unlink(),
        lambda folder: (folder / "block-00001.json").write_bytes(b'{"shards": ['),
        lambda folder: (folder / "block-00001.json").write_text("{}"),
    ],
)
def test_a_damaged_block_is_remade(text, tiny_tokenizer, tmp_path, uninterrupted, blocks_made, harm):
    stopped(tmp_path / "out", text, tiny_tokenizer, 3)
    harm(partial_path(tmp_path / "out"))
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert read_content(tmp_path / "out") == uninterrupted
    assert blocks_made == [0, 1, 2, 1, 3, 4, 5, 6]


def test_other_files_in_the_partial_folder_are_not_published(text, tiny_tokenizer, tmp_path, uninterrupted):
    stopped(tmp_path / "out", text * 3, tiny_tokenizer, 12)  # a longer text with the same beginning
    (partial_path(tmp_path / "out") / ".train-00005.tfrecord.tmp").write_bytes(b"torn")
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert read_content(tmp_path / "out") == uninterrupted


def test_a_damaged_fingerprint_starts_afresh(text, tiny_tokenizer, tmp_path, uninterrupted, blocks_made):
    stopped(tmp_path / "out", text, tiny_tokenizer)
    (partial_path(tmp_path / "out") / "run.json").unlink()
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert read_content(tmp_path / "out") == uninterrupted
    assert blocks_made == [0, 1, 2, *range(7)]


def test_a_second_concurrent_run_is_rejected(text, tiny_tokenizer, tmp_path):
    path = partial_path(tmp_path / "out")
    with lock_folder(path):
        with pytest.raises(InputError, match=r"another process is using .*\.out\.partial"):
            write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
        assert path.is_dir()
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)


def test_a_disk_error_is_one_sentence_with_the_remaining_blocks(text, tiny_tokenizer, tmp_path):
    error = OSError(28, "No space left on device", "x.tfrecord")
    with pytest.raises(InputError) as told:
        write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS, progress=stop_after(2, error))
    assert str(told.value) == (
        f"{tmp_path / 'out'} cannot be written (x.tfrecord: No space left on device): free some space, or choose "
        f"a folder on another disk; 2 finished blocks remain in {tmp_path / '.out.partial'}, and the same command "
        "resumes with them"
    )


def test_a_full_disk_leaves_complete_files_and_the_run_resumes(text, tiny_tokenizer, tmp_path, small_disk):
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
def test_an_unwritable_place_is_reported(text, tiny_tokenizer, tmp_path):
    (tmp_path / "file").write_text("x")
    for place in (pathlib.Path("/proc/out"), tmp_path / "file/out"):
        with pytest.raises(InputError, match=rf"{place} cannot be written \(.*\): name a folder elsewhere"):
            write(place, text, tiny_tokenizer, **SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# Without TensorFlow a process starts in 0.2 s and can be killed often: its shards are the reversed text, which is as
# good as records for this test.
SCRIPT = """
import sys, time
from bert_keras.pipelines.records import TokenizerSpec, records_folder, write_records
from bert_keras.pipelines.records.blocks import Shard
from bert_keras.pipelines.records.manifest import COUNTS, QUALITY_COUNTS

def make_backwards(settings, tokenizer, sentences, *, num_threads=None):
    def backwards(block):
        time.sleep(0.004)
        return {"train": Shard(block.text[::-1] * 20, dict.fromkeys((*COUNTS, *QUALITY_COUNTS), 1))}
    return backwards

records_folder.make_block_worker = make_backwards
facts = TokenizerSpec(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
documents = [[f"document {d} line {n}" for n in range(40)] for d in range(100)]
if __name__ == "__main__":
    write_records(sys.argv[1], documents, facts, max_sequence_length=9, block_bytes=1000, num_workers=int(sys.argv[2]))
"""


@pytest.mark.parametrize("num_workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_process_killed_repeatedly_ends_with_the_same_bytes(tmp_path, num_workers):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py")]
    subprocess.run([*command, str(tmp_path / "calm"), "1"], check=True)
    rng, finished = random.Random(num_workers), [0]
    for _ in range(5):
        process = subprocess.Popen([*command, str(tmp_path / "out"), str(num_workers)], stderr=subprocess.DEVNULL)
        enough = finished[-1] + rng.randint(1, 8)
        while process.poll() is None and count_finished_blocks(tmp_path / "out") < enough:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        finished.append(count_finished_blocks(tmp_path / "out"))
    subprocess.run([*command, str(tmp_path / "out"), str(num_workers)], check=True)
    assert finished == sorted(finished)
    assert 5 <= finished[-1] < 75
    assert read_content(tmp_path / "out") == read_content(tmp_path / "calm")
    assert not partial_path(tmp_path / "out").exists()


def test_a_finished_run_leaves_a_readable_manifest(text, tiny_tokenizer, tmp_path):
    stopped(tmp_path / "out", text, tiny_tokenizer)
    manifest = write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS)
    assert read_manifest(tmp_path / "out") == manifest == json.loads((tmp_path / "out/manifest.json").read_text())
