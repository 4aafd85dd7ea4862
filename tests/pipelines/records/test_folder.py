"""A records folder appears whole, says what it holds, and notices when it was changed."""

import json
import pathlib

import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.pipelines.records import parse_records, read_manifest, shard_paths, write_records
from bert_keras.pipelines.records.pairs import next_sentence_examples
from bert_keras.pipelines.tokenizer import BertTokenizer

DOCUMENTS = [
    ["The unaffable a.", "Playing b, c."],
    ["", "\t"],
    ["a b c d", "", "the the"],
    ["playings", "d, d.", "c"],
]
DOCUMENTS_AS_IDS = [
    [[10, 5, 6, 7, 11, 16], [8, 9, 12, 15, 13, 16]],
    [[11, 12, 13, 14], [10, 10]],
    [[8, 9, 17], [14, 15, 14, 16], [13]],
]


@pytest.fixture
def folder(tiny_tokenizer, tmp_path):
    """Records of `DOCUMENTS` in three shards."""
    write_records(tmp_path / "records", DOCUMENTS, tiny_tokenizer, max_sequence_length=11, seed=5, num_shards=3)
    return tmp_path / "records"


def read_examples(folder):
    """Every example of a folder, in the order of the shards."""
    serialized = [record.numpy() for record in tf.data.TFRecordDataset(shard_paths(folder, read_manifest(folder)))]
    first, second, is_random = parse_records(tf.constant(serialized))
    assert {first.dtype, second.dtype, is_random.dtype} == {tf.int32}
    return list(zip(first.to_list(), second.to_list(), is_random.numpy().tolist(), strict=True))


def test_records_hold_the_pairs_of_the_tokenized_documents_dealt_to_the_shards(folder):
    expected = list(next_sentence_examples(DOCUMENTS_AS_IDS, max_sequence_length=11, seed=5))
    assert read_examples(folder) == expected[::3] + expected[1::3] + expected[2::3]


def test_the_manifest_counts_what_was_written(folder, tiny_tokenizer):
    examples = list(next_sentence_examples(DOCUMENTS_AS_IDS, max_sequence_length=11, seed=5))
    manifest = read_manifest(folder, tokenizer=tiny_tokenizer)
    shards = manifest.pop("shards")
    assert [shard["name"] for shard in shards] == [f"pairs-0000{index}-of-00003.tfrecord" for index in range(3)]
    tokenizer_files = {"vocab.txt", "tokenizer.json", "tokenizer_config.json"}
    shard_names = {shard["name"] for shard in shards}
    assert {path.name for path in folder.iterdir()} == {"manifest.json", *tokenizer_files, *shard_names}
    assert manifest == {
        "format": "bert_keras.pretraining_records",
        "format_version": 1,
        "num_documents": 3,
        "num_sentences": 7,
        "num_examples": len(examples),
        "num_random_next": sum(flag for _, _, flag in examples),
        "num_tokens": sum(len(first) + len(second) + 3 for first, second, _ in examples),
        "max_sequence_length": 11,
        "seed": 5,
        "short_sequence_rate": 0.1,
        "lowercase": True,
        "vocabulary_size": 18,
        "vocabulary_sha256": manifest["vocabulary_sha256"],
    }


def test_a_records_folder_carries_its_tokenizer(folder):
    read_manifest(folder, tokenizer=BertTokenizer.from_checkpoint(folder))


def test_the_same_input_gives_the_same_bytes_and_another_seed_others(tiny_tokenizer, folder, tmp_path):
    settings = {"max_sequence_length": 11, "num_shards": 3}
    again = write_records(tmp_path / "again", iter(DOCUMENTS), tiny_tokenizer, seed=5, **settings)
    assert again == read_manifest(folder)
    other = write_records(tmp_path / "other", DOCUMENTS, tiny_tokenizer, seed=6, **settings)
    assert other["shards"] != again["shards"]


def test_documents_are_kept_apart_however_they_are_batched(tiny_tokenizer, tmp_path, monkeypatch):
    """Tokenizing two sentences at a time gives the same bytes as all at once."""
    from bert_keras.pipelines.records import folder as records

    whole = write_records(tmp_path / "whole", DOCUMENTS, tiny_tokenizer, max_sequence_length=11)
    monkeypatch.setattr(records, "_BATCH_SENTENCES", 2)
    assert write_records(tmp_path / "bits", DOCUMENTS, tiny_tokenizer, max_sequence_length=11) == whole


def test_progress_is_told_after_every_document(tiny_tokenizer, tmp_path):
    calls = []
    write_records(
        tmp_path / "out", DOCUMENTS, tiny_tokenizer, max_sequence_length=11, progress=lambda *call: calls.append(call)
    )
    assert calls == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"documents": DOCUMENTS[:2]}, r"the text has 1 document\(s\)"),
        ({"num_shards": 0}, "num_shards is 0; expected 1 or more"),
        ({"max_sequence_length": 4}, "max_sequence_length is 4"),
        ({"seed": 2**31}, "seed is 2147483648"),
    ],
)
def test_a_failed_run_leaves_nothing_behind(tiny_tokenizer, tmp_path, changes, message):
    settings = {"documents": DOCUMENTS, "tokenizer": tiny_tokenizer, "max_sequence_length": 11, **changes}
    with pytest.raises(InputError, match=message):
        write_records(tmp_path / "out", **settings)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_replaced_only_when_asked(tiny_tokenizer, folder):
    before = read_manifest(folder)
    with pytest.raises(InputError, match="exists and is not empty"):
        write_records(folder, DOCUMENTS, tiny_tokenizer, max_sequence_length=9)
    assert read_manifest(folder) == before
    after = write_records(folder, DOCUMENTS, tiny_tokenizer, max_sequence_length=9, overwrite=True)
    assert read_manifest(folder) == after != before


def spoil_manifest(path: pathlib.Path, **changes):
    manifest = json.loads(path.read_text())
    manifest.update(changes)
    path.write_text(json.dumps({key: value for key, value in manifest.items() if value is not None}))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), r"manifest\.json does not exist"),
        (
            lambda folder: (folder / "pairs-00001-of-00003.tfrecord").unlink(),
            "pairs-00001-of-00003.tfrecord is missing",
        ),
        (lambda folder: (folder / "pairs-00002-of-00003.tfrecord").write_bytes(b"x"), "bytes where .* were recorded"),
        (lambda folder: spoil_manifest(folder / "manifest.json", format_version=2), "version 2; expected .* version 1"),
        (lambda folder: spoil_manifest(folder / "manifest.json", seed=None), "lacks seed: copy the folder again"),
    ],
)
def test_a_damaged_folder_is_refused(folder, spoil, message):
    spoil(folder)
    with pytest.raises(InputError, match=message):
        read_manifest(folder)


def test_one_flipped_bit_is_noticed(folder):
    path = folder / "pairs-00000-of-00003.tfrecord"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="does not match the SHA-256"):
        read_manifest(folder)


def test_another_tokenizer_is_refused_with_both_values(folder, tiny_tokenizer):
    with pytest.raises(InputError, match=r"another tokenizer \(lowercase True there, False here\)"):
        read_manifest(folder, tokenizer=BertTokenizer(tiny_tokenizer.vocabulary, lowercase=False))
    with pytest.raises(InputError, match=r"vocabulary_size 18 there, 19 here; vocabulary_sha256 \w+ there, \w+ here"):
        read_manifest(folder, tokenizer=BertTokenizer([*tiny_tokenizer.vocabulary, "z"]))
