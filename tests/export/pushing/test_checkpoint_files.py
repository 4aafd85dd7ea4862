"""Only the files of the model and those that bert-keras wrote are pushed; the others are listed."""

import pytest

from bert_keras.errors import InputError
from bert_keras.export.pushing.pushed_files import find_checkpoint_files
from bert_keras.files import write_checksums, write_json
from tests.checkpoints.tiny_folders import write_embedder

from .conftest import MODEL_FILES

OTHERS = {  # what must never be pushed: its path, and how it is listed
    ".env": ".env",
    ".bert_keras.training/weights.h5": None,  # hidden folders are not even looked at
    "notes.txt": "notes.txt",
    "customers.csv": "customers.csv",
    "optimizer.pt": "optimizer.pt",
    "training_args.bin": "training_args.bin",
    "records/train-00000.tfrecord": "records/",
    "records/manifest.json": "records/",
    "checkpoint-500/config.json": "checkpoint-500/",
    "classifier.unpublished.0a/config.json": "classifier.unpublished.0a/",
    "generator/secret.txt": "generator/",
    "adapter/adapter_config.json": "adapter/",  # it has the path of the start checkpoint
}


def test_only_files_of_the_model_and_files_that_we_wrote_are_pushed(folder):
    for name in OTHERS:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("private")
    (folder / "trials.json").write_text("{}")
    (folder / "weights.bin").write_text("")
    written = ["trials.json", "adapter/adapter_config.json"]
    write_json(folder / ".bert_keras.json", {"written_by": "finetune", "files": [*written, "weights.bin", ".env"]})
    _, found = find_checkpoint_files(folder)
    assert set(found.files) == MODEL_FILES | {"metrics.json", "trials.json"}
    assert all(path == folder / name for name, path in found.files.items())
    assert found.left_out == sorted({*filter(None, OTHERS.values()), "weights.bin"})


def test_the_modules_of_an_embedder_are_pushed(tmp_path):
    _, found = find_checkpoint_files(write_embedder(tmp_path / "embedder"))
    modules = {"modules.json", "1_Pooling/config.json", "sentence_bert_config.json"}
    assert set(found.files) == MODEL_FILES | modules | {"config_sentence_transformers.json"}
    assert found.left_out == []


def test_a_damaged_folder_is_not_pushed(folder):
    write_checksums(folder, ["model.safetensors"])
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(InputError, match=r"model\.safetensors does not match its recorded SHA-256"):
        find_checkpoint_files(folder)


def test_a_folder_in_another_format_is_not_pushed(folder, tmp_path):
    with pytest.raises(InputError, match="does not exist; expected a checkpoint folder"):
        find_checkpoint_files(tmp_path / "nothing")
    with pytest.raises(InputError, match="hf://me/model is on the Hub already"):
        find_checkpoint_files("hf://me/model")
    (tmp_path / "model.keras").write_bytes(b"")
    with pytest.raises(InputError, match=r"model\.keras is not in the format of the Hub; .* bert-keras convert"):
        find_checkpoint_files(tmp_path / "model.keras")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(InputError, match="a pickle"):
        find_checkpoint_files(folder)
