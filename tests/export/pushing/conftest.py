"""A tiny checkpoint folder with what bert-keras and other programs write beside a model."""

import pytest

from bert_keras.files import write_json
from tests.checkpoints.tiny_folders import write_classifier

METRICS = {"accuracy": 0.75, "macro_f1": 0.5, "epoch": 2, "epochs": [{"accuracy": 0.5}, {"accuracy": 0.75}]}
METRICS |= {"held_out": {"share": 0.1, "seed": 0, "examples": 1200}, "skipped": 0}
MODEL_FILES = {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"}


@pytest.fixture
def folder(tmp_path):
    """The folder, without a model card."""
    folder = write_classifier(tmp_path / "classifier")
    write_json(folder / "metrics.json", METRICS)
    return folder
