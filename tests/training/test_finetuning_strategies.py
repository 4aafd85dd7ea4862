"""Fine-tuning on several devices, in parts, and after a stop, is fine-tuning on one device at once."""

import numpy as np
import pytest

import bert_keras as bk
from tests.training.processes import finish, start

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
        return finish(start("finetune_tiny.py", checkpoint, out, *options), out)

    return run


@pytest.fixture(scope="module")
def one_device(finetune):
    """The fine-tuning on one device."""
    return finetune()


def assert_same_training(ours: dict, theirs: dict) -> None:
    assert len(theirs["losses"]) == 24
    assert ours["losses"] == pytest.approx(theirs["losses"], abs=TOLERANCE)
    assert ours["scores"] == pytest.approx(theirs["scores"], abs=TOLERANCE)
    assert np.ptp(theirs["losses"]) > 0.01


@pytest.mark.parametrize(
    "options",
    [("--strategy", "mirrored", "--devices", "4"), ("--parts", "2", "--gradient-checkpointing")],
    ids=" ".join,
)
def test_losses_are_those_of_one_device(options, one_device, finetune):
    assert_same_training(finetune(*options), one_device)


def test_two_workers_fine_tune_as_one(one_device, checkpoint, two_workers, tmp_path):
    chief, other = two_workers("finetune_tiny.py", checkpoint, tmp_path / "out.json")
    assert_same_training(finish(chief, tmp_path / "out.json"), one_device)
    other.communicate(timeout=60)
    assert other.returncode == 0


def test_a_fine_tuning_goes_on_where_it_was_stopped(one_device, finetune, tmp_path):
    options = ["--backups", tmp_path / "backups"]
    assert finetune(*options, "--stop-after", "11")["stopped"]
    again = finetune(*options, "--resume")
    assert again["losses"] == one_device["losses"][11:]
    assert again["scores"] == one_device["scores"]
