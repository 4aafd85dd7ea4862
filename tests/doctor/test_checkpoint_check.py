"""Damaged checkpoints: every fault is found, with its fix, without TensorFlow."""

import json
import re
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras.doctor.examination import examine_path
from bert_keras.files import write_checksums
from tests.checkpoints.tiny_folders import SIZES, WORDS, write_classifier, write_embedder, write_preset
from tests.made_once import made_once

FILES = ["config.json", "model.safetensors", "vocab.txt"]


@pytest.fixture
def folder(tmp_path_factory, tmp_path):
    """A copy of a sound folder of a classifier, with checksums."""

    def make(path):
        write_classifier(path)
        write_checksums(path, FILES)

    shutil.copytree(made_once(tmp_path_factory, "doctor_classifier", make), tmp_path / "model")
    return tmp_path / "model"


def cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


def spoil(*names, value=np.nan):
    def change(folder):
        tensors = load_file(folder / "model.safetensors")
        for name in names or tensors:
            tensors[name] = np.full_like(tensors[name], value)
        save_file(tensors, folder / "model.safetensors")
        write_checksums(folder, FILES)

    return change


def flip(folder):
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def drop(folder):
    tensors = load_file(folder / "model.safetensors")
    del tensors["classifier.bias"]
    save_file(tensors, folder / "model.safetensors")
    write_checksums(folder, FILES)


def add_token(folder):
    path = folder / "vocab.txt"
    path.write_text("\n".join([*WORDS, "more", "tokens"]) + "\n")
    write_checksums(folder, FILES)


def set_task(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["bert_keras"]["task"]["new_setting"] = 1
    path.write_text(json.dumps(config))
    write_checksums(folder, FILES)


FAULTS = {
    "truncated": (cut, r"weights: .*model\.safetensors has [\d,]+ bytes; expected .*copy it again from its source"),
    "NaN": (spoil("classifier.bias"), r"values: .*tensor classifier\.bias contains NaN or infinity.*before training"),
    "infinity everywhere": (
        spoil(value=np.inf),
        r"values: \d+ of \d+ tensors contain NaN or infinity .* \| use a checkpoint from before training diverged",
    ),
    "flipped bit": (flip, r"checksums: .*model\.safetensors does not match its recorded SHA-256.*copy it again"),
    "missing tensor": (drop, r"complete: .*lacks 1 of the \d+ tensors of BertClassifier \(classifier\.bias\)"),
    "long vocabulary": (add_token, r"tokenizer: .*15 tokens, the model's token table 13 rows.*restore the vocabulary"),
    "task of a newer version": (set_task, r"task: .*the task setting new_setting.*: update bert-keras, or remove"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), r"weights: .*no model\.safetensors;"),
    "no config": (lambda folder: (folder / "config.json").unlink(), r"config: .*config\.json does not exist"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_checkpoint_is_found_and_its_fix_is_named(fault, folder, find_faults):
    seed, pattern = FAULTS[fault]
    seed(folder)
    faults = find_faults(folder)
    assert sum(bool(re.search(pattern, line)) for line in faults) == 1, faults


def test_a_much_shorter_vocabulary_is_a_fault(tmp_path, find_faults):
    folder = write_classifier(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["vocab_size"] = 2000
    (folder / "config.json").write_text(json.dumps(config))
    tensors = load_file(folder / "model.safetensors")
    [name] = [name for name in tensors if name.endswith("word_embeddings.weight")]
    tensors[name] = np.zeros((2000, SIZES["hidden_size"]), "float32")
    save_file(tensors, folder / "model.safetensors")
    [fault] = find_faults(folder)
    assert re.search(r"13 tokens, the model's token table 2,000 rows.* \| restore the vocabulary", fault)


def test_all_faults_of_a_folder_are_found_at_once(folder, find_faults):
    spoil("classifier.bias")(folder)
    add_token(folder)
    flip(folder)
    faults = find_faults(folder)
    assert [line.split(":")[0] for line in faults] == ["values", "checksums", "tokenizer"]


def test_a_sound_checkpoint_has_no_fault(folder, tmp_path):
    [section] = examine_path(folder)
    assert {item.mark for item in section.items} == {"ok"}
    texts = {item.name: item.text for item in section.items}
    assert texts["task"] == "classify, up to 16 tokens, 3 labels: red, green, blue"
    assert texts["config"].startswith("Hugging Face folder, BertClassifier: 2 layers of width 6, 3 heads, 13 tokens")
    [section] = examine_path(write_embedder(tmp_path / "sentences"))
    assert {item.mark for item in section.items} <= {"ok", "note"}, section.items
    assert section.items[0].text.startswith("sentence-transformers folder, BertEmbedder")


@pytest.mark.parametrize(("vocabulary", "mark"), [("[PAD]\n[PAD]\n", "FAULT"), (None, "note")])
def test_a_tokenizer_that_cannot_be_read_is_reported_once(vocabulary, mark, tmp_path, monkeypatch):
    path = write_preset(tmp_path / "preset") / "assets/tokenizer/vocabulary.txt"
    if vocabulary is not None:
        path.parent.mkdir(parents=True)
        path.write_text(vocabulary)
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/__init__.py").write_text("raise ImportError('not needed here')")
    monkeypatch.syspath_prepend(tmp_path)
    [section] = examine_path(tmp_path / "preset")
    assert [item.mark for item in section.items if item.name == "tokenizer"] == [mark], section.items


@pytest.mark.slow
def test_a_keras_file_is_loaded_in_another_process(make_model, tmp_path, find_faults):
    make_model("classifier").save(tmp_path / "model.keras")
    [section] = examine_path(tmp_path / "model.keras")
    assert [(item.mark, item.name) for item in section.items] == [("ok", "load")]
    (tmp_path / "model.keras").write_bytes(b"PK\x03\x04 no archive")
    [fault] = find_faults(tmp_path / "model.keras")
    assert re.search(r"load: .*model\.keras", fault)
