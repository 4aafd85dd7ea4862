"""Mutated files of model folders are read or refused with `InputError`, without TensorFlow.

`pytest -m slow` reads 10,000 of each kind; one that failed is had again by `fuzz(..., first=NUMBER, count=1)`.
"""

import json
import pathlib
from typing import NamedTuple

import pytest

from bert_keras.analysis.inspection.training_history import read_training_history
from bert_keras.checkpoints.keras_files import keras_weights
from bert_keras.checkpoints.keras_files.keras_weights import check_preset
from bert_keras.checkpoints.reading import read_tokenizer_settings, read_without_tensorflow, read_without_weights
from bert_keras.checkpoints.task_loading import read_checkpoint_task
from bert_keras.heads.known_heads import find_finetuned_head
from tests.checkpoints import tiny_folders
from tests.fuzzing import fuzz, mutate_bytes, mutate_json
from tests.marks import slow

QUICK, LONG = 25, 10_000
SEED = 24


class Target(NamedTuple):
    """A file of a folder, with functions that write and read the folder."""

    file: str
    write: object
    read: object


def read_checkpoint_folder(folder):
    """Read everything that a command reads before it loads TensorFlow, and the weights."""
    checkpoint = read_without_tensorflow(folder)
    checkpoint.check_once()
    for stored in checkpoint.weights.values():
        stored.read()
    if find_finetuned_head(checkpoint.model) is not None:
        read_checkpoint_task(checkpoint)
    return checkpoint.tokenizer_settings


def write_in_shards(folder):
    tiny_folders.write_classifier(folder)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    names = tiny_folders.make_tensors("BertClassifier")
    index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}
    tiny_folders.write_json(folder / "model.safetensors.index.json", index)


def write_google(folder):
    folder.mkdir()
    tiny_folders.write_json(folder / "bert_config.json", tiny_folders.SIZES)
    (folder / "vocab.txt").write_text("\n".join(tiny_folders.WORDS))
    (folder / "bert_model.ckpt.index").write_bytes(b"")


def write_preset_with_settings(folder):
    tiny_folders.write_preset(folder)
    settings = {"format": 1, "model": "BertClassifier", "head": {"problem": "single_label", "labels": ["a", "b"]}}
    settings |= {"config": {"initializer_range": 0.02}, "tokenizer": {"max_sequence_length": 16, "text_rules": "bert"}}
    tiny_folders.write_json(folder / "bert_keras_settings.json", {**settings, "has_pooler": True, "task": None})


def write_preset_with_tokenizer(folder):
    tiny_folders.write_preset(folder)
    (folder / "assets/tokenizer").mkdir(parents=True)
    (folder / "assets/tokenizer/vocabulary.txt").write_text("\n".join(tiny_folders.WORDS) + "\n")
    config = {"vocabulary": None, "sequence_length": None, "lowercase": True, "strip_accents": None}
    tiny_folders.write_json(folder / "tokenizer.json", {"class_name": "BertTokenizer", "config": config})


def write_records(folder):
    folder.mkdir()
    lines = [{"step": 50, "loss": 3.5, "learning_rate": 1e-3}, {"step": 100, "loss": 2.5, "held_out_loss": 2.75}]
    (folder / "training_log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    tiny_folders.write_json(folder / "metrics.json", {"accuracy": 0.75, "epoch": 1, "epochs": [{"accuracy": 0.75}]})


def write_hashed(folder):
    from bert_keras.files import write_checksums

    tiny_folders.write_classifier(folder)
    write_checksums(folder, ["config.json", "vocab.txt", "model.safetensors"])


classifier, embedder = tiny_folders.write_classifier, tiny_folders.write_embedder
TARGETS = {
    "config": Target("config.json", classifier, read_checkpoint_folder),
    "config of a generator": Target("generator/config.json", tiny_folders.write_electra, read_checkpoint_folder),
    "safetensors": Target("model.safetensors", classifier, read_checkpoint_folder),
    "index": Target("model.safetensors.index.json", write_in_shards, read_checkpoint_folder),
    "hashes": Target("SHA256SUMS", write_hashed, read_checkpoint_folder),
    "tokenizer config": Target("tokenizer_config.json", classifier, read_checkpoint_folder),
    "tokenizer": Target("tokenizer.json", tiny_folders.write_tokenizer, read_tokenizer_settings),
    "modules": Target("modules.json", embedder, read_checkpoint_folder),
    "sentence config": Target("sentence_bert_config.json", embedder, read_checkpoint_folder),
    "prompts": Target("config_sentence_transformers.json", embedder, read_checkpoint_folder),
    "pooling": Target("1_Pooling/config.json", embedder, read_checkpoint_folder),
    "Google": Target("bert_config.json", write_google, read_without_weights),
    "KerasHub": Target("config.json", tiny_folders.write_preset, check_preset),
    "task of KerasHub": Target("task.json", tiny_folders.write_preset, check_preset),
    "tokenizer of KerasHub": Target("tokenizer.json", write_preset_with_tokenizer, read_tokenizer_settings),
    "settings beside KerasHub's": Target(
        "bert_keras_settings.json", write_preset_with_settings, keras_weights.read_settings
    ),
    "training log": Target("training_log.jsonl", write_records, read_training_history),
    "metrics": Target("metrics.json", write_records, read_training_history),
}


def mutated(random, path: pathlib.Path, content: bytes) -> bytes:
    """Mutate a file: mostly the structure of JSON and of a safetensors header, the bytes of other files."""
    if path.suffix == ".json":
        return mutate_json(random, json.loads(content))
    if path.suffix == ".safetensors" and random.random() < 0.7:
        size = int.from_bytes(content[:8], "little")
        header = mutate_json(random, json.loads(content[8 : 8 + size]))
        return len(header).to_bytes(8, "little") + header + content[8 + size :]
    if path.suffix == ".jsonl" and random.random() < 0.7:
        return mutate_json(random, json.loads(content.splitlines()[0])) + b"\n" + content
    return mutate_bytes(random, content)


@pytest.mark.parametrize(
    ("name", "count"), [*((name, QUICK) for name in TARGETS), *slow(*((name, LONG) for name in TARGETS))]
)
def test_a_mutated_file_is_read_or_refused(name, count, tmp_path):
    target = TARGETS[name]
    folder = tmp_path / "folder"
    target.write(folder)
    target.read(folder)
    path = folder / target.file
    content = path.read_bytes()

    def read(given: bytes) -> None:
        path.write_bytes(given)
        target.read(folder)

    outcomes = fuzz(read, lambda random: mutated(random, path, content), count=count, seed=SEED)
    print(f"{name}: {dict(outcomes)}")
    assert outcomes["refused"] > count / 10
    assert outcomes["read"] > 0
