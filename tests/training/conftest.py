"""Fixtures: records that a tiny model can learn, and a run that takes a second."""

import keras
import numpy as np
import pytest

import bert_keras as bk
from bert_keras.pipelines.records.making_records import write_records
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.config.sources import infer_settings
from tests.training.processes import start_two_workers

WORDS = "the cat sat on a mat and every dog ran off with its red hat".split()
TINY = {
    "model.num_layers": 1,
    "model.num_heads": 2,
    "model.hidden_dim": 16,
    "model.intermediate_dim": 32,
    "batches.batch_size": 8,
    "budget.steps": 6,
    "optimizer.learning_rate": 0.01,
    "speed.jit_compile": False,  # compiling takes longer than the steps
}


@pytest.fixture(scope="session")
def story_tokenizer():
    """A tokenizer of those words."""
    return BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])


@pytest.fixture(scope="session")
def make_records_folder(story_tokenizer, tmp_path_factory):
    """Function that writes records of stories of one word each, and returns (folder, manifest)."""
    rng = np.random.default_rng(0)
    stories = [[" ".join([word] * rng.integers(3, 9)) for _ in range(12)] for word in WORDS * 3]

    def make(**settings):
        folder = tmp_path_factory.mktemp("records") / "records"
        settings = {"max_sequence_length": 24, "held_out_rate": 0.2, **settings}
        return folder, write_records(folder, stories, story_tokenizer, **settings)

    return make


@pytest.fixture(scope="session")
def records(make_records_folder):
    """Records with sentence pairs, length 24."""
    return make_records_folder()


@pytest.fixture(scope="session")
def tiny_run():
    """Function that returns a tiny run with the settings of the records."""

    def make(*manifests, **overrides):
        named = {name.replace("__", "."): value for name, value in overrides.items()}
        return Pretraining.resolve(overrides=TINY | named, defaults=infer_settings(manifests))

    return make


@pytest.fixture
def two_workers():
    """Function that starts a script as two workers on loopback; leftover workers are killed after the test."""
    started = []

    def begin(*arguments) -> list:
        started.extend(workers := start_two_workers(*arguments))
        return workers

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def make_encoder(story_tokenizer, tmp_path_factory):
    """Function that returns a folder with a tiny encoder and a vocabulary."""

    def make(**changes):
        folder = tmp_path_factory.mktemp("encoder") / "encoder"
        keras.utils.set_random_seed(4)  # the same encoder, whichever tests ran before
        sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 24, "max_sequence_length": 24}
        config = bk.BertConfig(**{"vocabulary_size": story_tokenizer.vocabulary_size, **sizes, **changes})
        bk.save(bk.BertEncoder(config), story_tokenizer, folder)
        return folder

    return make


@pytest.fixture(scope="session")
def tiny_encoder(make_encoder):
    """A folder with a tiny encoder, with dropout and a vocabulary."""
    return make_encoder()
