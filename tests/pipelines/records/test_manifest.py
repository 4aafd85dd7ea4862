"""Untrusted manifests: every value must have the right type, and every shard must be inside the folder."""

import json

import pytest

import bert_keras as bk
from bert_keras.files import compute_digest
from bert_keras.pipelines.records.manifest import list_shard_paths, make_manifest, read_manifest
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec
from tests.fuzzing import fuzz, mutate_json
from tests.marks import slow

QUICK, LONG, SEED = 25, 10_000, 24
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")


class Counts(dict):
    """Counts of a shard, with 3 for every key."""

    def __missing__(self, name):
        return 3


@pytest.fixture
def folder(tmp_path):
    """Folder with two shards and their manifest."""
    folder = tmp_path / "records"
    folder.mkdir()
    shards = []
    for split in ("train", "held_out"):
        path = folder / f"{split}-00000.tfrecord"
        path.write_bytes(b"records")
        shards.append(Counts(name=path.name, split=split, **compute_digest(path)))
    spec = TokenizerSpec(WORDS)
    manifest = make_manifest(RecordSettings(32), spec, "lines", [{"name": "a.txt", "bytes": 5}], shards)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def edit(folder, change) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def test_unchanged_folder_is_valid(folder):
    assert len(list_shard_paths(folder, read_manifest(folder))) == 1


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "x/../../outside", 5, None, ["a"]])
def test_shard_outside_the_folder_is_rejected(folder, name):
    (folder.parent / "outside").write_bytes(b"records")
    edit(folder, lambda manifest: manifest["shards"][0].update(name=name))
    with pytest.raises(bk.InputError, match=r"manifest\.json (names|sets name to) .*expected a (path|text|string)"):
        read_manifest(folder)


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (lambda manifest: manifest.update(max_sequence_length="32"), "sets max_sequence_length to '32'"),
        (lambda manifest: manifest.update(max_sequence_length=0), "max_sequence_length is 0; expected at least 5"),
        (lambda manifest: manifest.update(packed=1), "sets packed to 1; expected true or false"),
        (lambda manifest: manifest.update(held_out_rate=float("nan")), "sets held_out_rate to nan"),
        (lambda manifest: manifest.update(num_records=-1), "sets num_records to -1; expected an integer from 0"),
        (lambda manifest: manifest.update(shards={}), "sets shards to"),
        (lambda manifest: manifest.update(shards=[5]), "sets shards to"),
        (lambda manifest: manifest["splits"].update(train=None), "sets train to None"),
        (lambda manifest: manifest["splits"]["train"].update(num_records=1.5), "sets num_records to 1.5"),
        (lambda manifest: manifest["shards"][0].update(split="x" * 70_000), "sets split to 'xxx"),
        (lambda manifest: manifest["shards"][0].update(bytes="7"), "sets bytes to '7'"),
        (lambda manifest: manifest["shards"][0].pop("sha256"), "lacks sha256"),
        (lambda manifest: manifest.update(format=["x" * 70_000]), "has format"),
    ],
)
def test_invalid_value_is_reported_with_its_key(folder, change, pattern):
    edit(folder, change)
    with pytest.raises(bk.InputError, match=rf"manifest\.json:? .*{pattern}") as raised:
        read_manifest(folder)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("count", [QUICK, *slow(LONG)])
def test_mutated_manifest_is_read_or_rejected(folder, count):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())

    def read(content: bytes) -> None:
        path.write_bytes(content)
        list_shard_paths(folder, read_manifest(folder))

    outcomes = fuzz(read, lambda random: mutate_json(random, manifest), count=count, seed=SEED)
    print(f"manifest: {dict(outcomes)}")
    assert min(outcomes["read"], outcomes["refused"]) > 0
