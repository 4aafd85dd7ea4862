"""Fixtures: a tiny tokenizer, the default corpus, and published vocabularies."""

import json

import pytest

from bert_keras.pipelines.corpus import default_corpus
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.made_once import made_once
from tests.shared_data import shared

TINY_TOKENS = (*SPECIAL_TOKENS, "un", "##aff", "##able", "play", "##ing", "the", "a", "b", "c", "d", ",", ".", "##s")


@pytest.fixture(scope="session")
def tiny_tokenizer():
    """18 tokens; [PAD] [UNK] [CLS] [SEP] [MASK] are 0 to 4."""
    return BertTokenizer(TINY_TOKENS)


@pytest.fixture(scope="session")
def python_pages(tmp_path_factory):
    """All pages of the default corpus, which take 4 s to read."""

    def write(path):
        path.write_text(json.dumps([*default_corpus._read_pages()]))

    return json.loads(made_once(tmp_path_factory, "python_pages.json", write).read_text())


@pytest.fixture(scope="session")
def python_text(python_pages):
    """All documents of the default corpus."""
    return join_paragraphs(python_pages)


@pytest.fixture(scope="session")
def some_pages():
    """The manual's pages of the default corpus, and a few modules with other labels."""
    names = ("ipaddress.py", "queue.py", "subprocess.py", "threading.py", "turtle.py", "webbrowser.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_corpus, "_list_source_files", lambda library: [library / name for name in names])
        return list(default_corpus._read_pages())


@pytest.fixture(scope="session")
def some_text(some_pages):
    """The documents of `some_pages`."""
    return join_paragraphs(some_pages)


def join_paragraphs(pages):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_corpus, "_read_pages", lambda: iter(pages))
        return list(default_corpus.read_python_documents())


@pytest.fixture(scope="session")
def published_vocabularies():
    """The folder of Google's `vocab.txt` files."""
    return shared("vocab")
