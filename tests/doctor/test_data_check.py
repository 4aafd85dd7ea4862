"""Damaged records, backups, vocabularies and data files: every fault is found, with its fix."""

import json
import re
import shutil

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.doctor.examination import examine_path
from bert_keras.pipelines.records.making_records import write_records
from bert_keras.training.backups import BackupFolder, TrainingState
from tests.made_once import made_once

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"the cat sat a dog ran .".split()]
SHARD = "train-00000.tfrecord"
QUESTION = '{"id": "1", "question": "who?", "context": "a cat", "answers": {"text": ["cat"], "answer_start": [1]}}'
QA = '{"id": "1", "question": "who?", "answers": [{"text": "cat", "answer_start": 1}]}'
SQUAD = f'{{"data": [{{"title": "t", "paragraphs": [{{"context": "a cat", "qas": [{QA}]}}]}}]}}'


@pytest.fixture
def records(tmp_path_factory, tmp_path):
    """A copy of a sound records folder."""

    def make(path):
        documents = [["the cat sat .", "a dog ran ."], ["a cat ran .", "the dog sat ."]] * 3
        write_records(path, documents, bk.BertTokenizer(WORDS), max_sequence_length=16)

    shutil.copytree(made_once(tmp_path_factory, "doctor_records", make), tmp_path / "records")
    return tmp_path / "records"


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def change_counts(folder):
    """Count a record less everywhere, so that the manifest is consistent in itself."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for counts in (manifest["splits"]["train"], manifest["shards"][0]):
        counts["num_records"] -= 1
    (folder / "manifest.json").write_text(json.dumps(manifest))


def change_vocabulary(folder):
    for name in ("vocab.txt", "tokenizer.json"):
        (folder / name).write_text((folder / name).read_text().replace("cat", "cow"))


RECORD_FAULTS = {
    "deleted shard": (lambda folder: (folder / SHARD).unlink(), r"shard: .*tfrecord is missing, .* copy the whole"),
    "flipped bit": (
        lambda folder: flip(folder / SHARD),
        r"shard: .*does not match its recorded SHA-256.*copy it",
    ),
    "wrong count": (change_counts, r"shard: .* has \d+ records; the manifest counts \d+: copy the folder again"),
    "other vocabulary": (change_vocabulary, r"tokenizer: the files in .*vocabulary_sha256 .* \| copy the whole folder"),
    "cut manifest": (
        lambda folder: (folder / "manifest.json").write_text("{"),
        r"manifest: .*not readable JSON.*resto",
    ),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), r"manifest: .*manifest\.json does not exist"),
}


@pytest.mark.parametrize("fault", RECORD_FAULTS)
def test_a_fault_of_records_is_found_and_its_fix_is_named(fault, records, find_faults):
    seed, pattern = RECORD_FAULTS[fault]
    seed(records)
    [line] = find_faults(records)
    assert re.search(pattern, line), line


def test_sound_records_have_no_fault(records):
    [section] = examine_path(records)
    assert {item.mark for item in section.items} <= {"ok", "note"}
    texts = {item.name: item.text for item in section.items if item.mark == "ok"}
    assert re.fullmatch(r"1 shard, [\d,]+ bytes, match their SHA-256 and counts", texts["shards"])
    assert texts["tokenizer"] == "12 tokens, the vocabulary of the records"


def test_a_damaged_backup_is_found(tmp_path, find_faults):
    folder = tmp_path / ".out.training"
    for step in (10, 20):
        BackupFolder(folder).write(TrainingState(step, {"kernel": np.ones(3, "float32")}, {}))
    [section] = examine_path(folder)
    assert [(item.mark, item.name) for item in section.items] == [("ok", "step 10"), ("ok", "step 20")]
    flip(folder / "step-000000020/arrays.safetensors")
    [fault] = find_faults(folder)
    assert re.search(r"step 20: .*does not match its recorded SHA-256", fault)
    flip(folder / "step-000000010/arrays.safetensors")
    assert "backups: none can be read | start the training again with --overwrite" in find_faults(folder)


def test_a_vocabulary_file_is_checked(tmp_path, find_faults):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(WORDS) + "\n")
    [section] = examine_path(path)
    assert section.items[0].text == "12 tokens, no duplicates, BERT's special tokens"
    path.write_text("\n".join([*WORDS, "cat"]) + "\n")
    [fault] = find_faults(path)
    assert re.search(r"line 13: the token 'cat' is also on line 7.*restore the file", fault)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv", "text,label\nthe cat,cat\na dog,dog\n", "2, all readable"),
        ("a.jsonl", '{"text": "the cat", "label": "cat"}\n', "1, all readable"),
        ("a.conll", "the O\ncat B-PET\n\na O\n", "2 with 3 words, for finetune --task tag"),
        (
            "a.json",
            '[{"id": "1", "question": "who?", "context": "a cat", "answers": {"text": ["cat"], "answer_start": [2]}}]',
            "1, 0 without an answer, for --task answer",
        ),
        ("a.jsonl", '{"words": ["a", "cat"], "tags": ["O", "B-PET"]}\n', "1 with 2 words, for finetune --task tag"),
        (
            "a.jsonl",
            '{"text": "a cat", "entities": [{"start": 2, "end": 5, "label": "PET"}]}\n',
            "1 with 2 words, for finetune --task tag",
        ),
        ("a.jsonl", '{"question": "who?", "context": "a cat", "label": "animal"}\n', "1, all readable"),
        ("a.jsonl", '{"text": "a cat", "tokens": 2, "tags": ["x"], "label": "animal"}\n', "1, all readable"),
    ],
)
def test_examples_of_a_data_file_are_counted(name, content, text, tmp_path):
    (tmp_path / name).write_text(content)
    [section] = examine_path(tmp_path / name)
    assert {item.mark for item in section.items} == {"ok"}, section.items
    assert text in [item.text for item in section.items]


@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("a.csv", "text,label\nthe cat\na dog,dog\n", r"a\.csv, line 2: .* \| correct it, or skip .*--on-error skip"),
        ("a.jsonl", "{\n", r"a\.jsonl, line 1: "),
        ("a.conll", "the O\ncat\n", r"a\.conll, line 2: "),
        ("a.json", SQUAD, r"a\.json, data\[0\]\.paragraphs.* is 'cat' at character 1, where .*: correct answer_start"),
        ("a.jsonl", QUESTION, r"a\.jsonl, line 1, question '1': answers\[0\] is 'cat' at character 1, where"),
        ("a.json", '{"text": ["a cat"], "label": ["cat"]}', r"is a JSON object; expected a list of objects"),
        ("a.json", '{"data": ', r"a\.json: not JSON"),
        (
            "a.jsonl",
            '{"words": ["a", "cat"], "tags": ["O"]}\n',
            r"line 1: there are 2 words and 1 tag; expected one tag",
        ),
        ("a.csv", "text,label\n", r"has no examples \| name another file"),
    ],
)
def test_an_invalid_example_of_a_data_file_is_a_fault(name, content, pattern, tmp_path, find_faults):
    (tmp_path / name).write_text(content)
    assert any(re.search(pattern, line) for line in find_faults(tmp_path / name)), find_faults(tmp_path / name)
