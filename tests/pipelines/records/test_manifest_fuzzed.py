"""Mutated manifests either work in the commands that use them or raise `InputError`."""

import dataclasses
import hashlib
import json
import pathlib

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.data_quality import find_records_warnings
from bert_keras.pipelines.corpus.text_sources import find_sources
from bert_keras.pipelines.records.documents import FileText
from bert_keras.pipelines.records.manifest import COUNTS, FORMAT, FORMAT_VERSION, list_shard_paths, read_manifest
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.training.config.recipes import Pretraining
from tests.fuzzing import fuzz, mutate_json

QUICK, LONG, SEED = 200, 10_000, 22
SHARDS = {"train-00000.tfrecord": b"records", "held_out-00000.tfrecord": b"more"}
MANIFEST = {
    "format": FORMAT,
    "format_version": FORMAT_VERSION,
    **dict.fromkeys(COUNTS, 7),
    **dataclasses.asdict(RecordSettings(max_sequence_length=128)),
    "sentences": "lines",
    "lowercase": True,
    "vocabulary_size": 30,
    "vocabulary_sha256": "0" * 64,
    "quality": {
        "unknown_token_share": 0.5,
        "alphabet_coverage": 0.9,
        "long_word_share": 0.4,
        "unreachable_token_share": 0.1,
        "random_next_share": 0.5,
    },
    "splits": {"train": dict.fromkeys(COUNTS, 5), "held_out": dict.fromkeys(COUNTS, 2)},
    "sources": [{"name": "text.txt", "bytes": 9, "sha256": "0" * 64}],
    "shards": [
        {
            "name": name,
            "split": name.split("-")[0],
            "num_records": number,
            "num_examples": number,
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
        }
        for (name, content), number in zip(SHARDS.items(), (5, 2), strict=True)
    ],
}


@pytest.fixture(autouse=True)
def records(tmp_path, monkeypatch):
    """Records folder `records` in the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = pathlib.Path("records")
    folder.mkdir()
    for name, content in SHARDS.items():
        (folder / name).write_bytes(content)
    return folder


def use_manifest(content: bytes) -> None:
    """Use a manifest as `pretrain` does before TensorFlow loads."""
    pathlib.Path("records/manifest.json").write_bytes(content)
    manifest = read_manifest("records")
    for split in ("train", "held_out"):
        for path in list_shard_paths("records", manifest, split):
            assert pathlib.Path(path).resolve().parent == pathlib.Path("records").resolve()
    run = Pretraining()
    run.check_records([manifest], ["records"])
    run.plan([manifest["splits"]["train"]["num_records"]])
    json.dumps([*find_records_warnings(manifest)], ensure_ascii=False).encode()


def test_unchanged_manifest_is_valid():
    use_manifest(json.dumps(MANIFEST).encode())


def test_manifest_without_the_share_of_long_words_is_read():
    """The first folders of release 0.2 lack it."""
    manifest = json.loads(json.dumps(MANIFEST))
    del manifest["quality"]["long_word_share"]
    use_manifest(json.dumps(manifest).encode())


def test_manifests_of_format_version_2_are_read_with_current_keys():
    text = json.dumps({**MANIFEST, "format_version": 2})
    text = text.replace("num_records", "num_rows").replace("max_examples_per_sequence", "max_examples_a_row")
    use_manifest(text.encode())
    assert read_manifest("records") == {**MANIFEST, "format_version": 2}


def test_mutated_manifests_are_read_or_rejected():
    outcomes = fuzz(use_manifest, lambda random: mutate_json(random, MANIFEST), count=QUICK, seed=SEED)
    assert min(outcomes["read"], outcomes["refused"]) > 0, f"the mutations do not reach both outcomes: {outcomes}"


@pytest.mark.slow
def test_many_mutated_manifests_are_read_or_rejected():
    outcomes = fuzz(use_manifest, lambda random: mutate_json(random, MANIFEST), count=LONG, seed=SEED)
    print("manifest", dict(outcomes))
    assert sum(outcomes.values()) == LONG


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["shards"][0].update(name="../../etc/passwd"), "names '../../etc/passwd'; expected a path inside"),
        (lambda m: m["shards"][0].update(num_records=6), "counts 5 records in train, but its shards hold 6; expected"),
        (lambda m: m.update(num_tokens=10**16), "sets num_tokens to 10000000000000000; expected an integer"),
        (
            lambda m: m["quality"].pop("unreachable_token_share"),
            "lacks unreachable_token_share; expected a number from 0 to 1",
        ),
        (
            lambda m: m["quality"].update(long_word_share=2),
            "sets long_word_share to 2.*; expected a number",
        ),
        (lambda m: m.update(vocabulary_sha256="x" * 70_000), "sets vocabulary_sha256 to .*; expected 64 hexadecimal"),
        (lambda m: m.update(quality={"unknown_token_share": "x"}), "sets quality to .*; expected an object of numbers"),
    ],
)
def test_contradictory_values_are_rejected(change, message):
    manifest = json.loads(json.dumps(MANIFEST))
    change(manifest)
    with pytest.raises(InputError, match=rf"manifest\.json {message}"):
        use_manifest(json.dumps(manifest).encode())


def test_source_name_that_is_not_utf8_is_escaped():
    path = pathlib.Path("caf\udce9.txt")
    path.write_text("a line\n")
    text = FileText(find_sources(path))
    assert list(text.passages()) == ["a line", ""]
    assert text.names == [fact["name"] for fact in text.facts()] == ["caf\\udce9.txt"]
