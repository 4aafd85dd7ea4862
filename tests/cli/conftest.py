"""A way to run the command line as a user does, and a tiny checkpoint to run it on."""

import subprocess
import sys

import pytest

import bert_keras as bk

WORDS = "the cat sat on a mat and every dog ran off with its red hat . , ##s ##ed".split()


def run_cli(*arguments, cwd):
    """Runs `bert-keras` in a process of its own and returns what it did."""
    command = [sys.executable, "-m", "bert_keras.cli.main", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


@pytest.fixture
def cli(tmp_path):
    """Runs `bert-keras` in a process of its own, in an empty folder if no other is given."""
    return lambda *arguments, cwd=tmp_path: run_cli(*arguments, cwd=cwd)


@pytest.fixture(scope="session")
def quick_demo(tmp_path_factory):
    """A folder in which the quick demo ran, and what it printed."""
    folder = tmp_path_factory.mktemp("quick")
    return folder, run_cli("demo", "demo", "--quick", "--json", cwd=folder)


@pytest.fixture(scope="session")
def tokenizer():
    """A tokenizer of a few English words."""
    return bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])


@pytest.fixture(scope="session")
def checkpoint(tokenizer, tmp_path_factory):
    """A checkpoint folder of a tiny encoder with that vocabulary."""
    folder = tmp_path_factory.mktemp("checkpoint") / "encoder"
    config = bk.BertConfig(
        vocabulary_size=tokenizer.vocabulary_size,
        num_layers=2,
        num_heads=3,
        hidden_dim=24,
        intermediate_dim=40,
        max_sequence_length=19,
        hidden_act="gelu_tanh",
    )
    bk.save(bk.BertEncoder(config), tokenizer, folder)
    return folder
