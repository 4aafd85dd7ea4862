"""Fixtures: a tiny tokenizer, the default corpus, and published vocabularies."""

import pytest

from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.shared_data import shared

TINY_TOKENS = (*SPECIAL_TOKENS, "un", "##aff", "##able", "play", "##ing", "the", "a", "b", "c", "d", ",", ".", "##s")


@pytest.fixture(scope="session")
def tiny_tokenizer():
    """18 tokens; [PAD] [UNK] [CLS] [SEP] [MASK] are 0 to 4."""
    return BertTokenizer(TINY_TOKENS)


@pytest.fixture(scope="session")
def python_text():
    """All documents of the default corpus (4 s to read)."""
    from bert_keras.pipelines.corpus.default_corpus import read_python_documents

    return list(read_python_documents())


@pytest.fixture(scope="session")
def published_vocabularies():
    """The folder of Google's `vocab.txt` files."""
    return shared("vocab")
