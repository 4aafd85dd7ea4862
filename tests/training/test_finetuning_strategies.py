"""Fine-tuning on several devices, in parts, and after a stop, is fine-tuning on one device at once."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import bert_keras as bk

SCRIPT = pathlib.Path(__file__).with_name("finetune_tiny.py")
REPOSITORY = pathlib.Path(__file__).parents[2]
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def checkpoint(story_tokenizer, tmp_path_factory):
    """A tiny encoder with dropout."""
    folder = tmp_path_factory.mktemp("encoder") / "encoder"
    config = bk.BertConfig(
        vocabulary_size=story_tokenizer.vocabulary_size,
        num_layers=1,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=24,
        max_sequence_length=24,
    )
    bk.save(bk.BertEncoder(config), story_tokenizer, folder)
    return folder


@pytest.fixture(scope="module")
def finetune(checkpoint, tmp_path_factory):
    """A function that fine-tunes in a process of its own with options of `finetune_tiny.py`."""

    def run(*options: str) -> dict:
        out = tmp_path_factory.mktemp("finetuned") / "out.json"
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        command = [sys.executable, str(SCRIPT), str(checkpoint), str(out), *map(str, options)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(out.read_text())

    return run


@pytest.fixture(scope="module")
def one_device(finetune):
    """The fine-tuning on one device."""
    return finetune()


@pytest.mark.parametrize("options", [("--devices", "4"), ("--parts", "2")], ids=" ".join)
def test_losses_are_those_of_one_device(options, one_device, finetune):
    divided = finetune(*options)
    assert len(one_device["losses"]) == 24
    assert divided["losses"] == pytest.approx(one_device["losses"], abs=TOLERANCE)
    assert divided["scores"] == pytest.approx(one_device["scores"], abs=TOLERANCE)
    assert np.ptp(one_device["losses"]) > 0.01


def test_a_fine_tuning_goes_on_where_it_was_stopped(one_device, finetune, tmp_path):
    options = ["--backups", tmp_path / "backups"]
    assert finetune(*options, "--stop-after", "11")["stopped"]
    again = finetune(*options, "--resume")
    assert again["losses"] == one_device["losses"][11:]
    assert again["scores"] == one_device["scores"]
