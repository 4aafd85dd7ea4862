"""The default corpus is English prose in documents of sentences."""

import collections
import json
import re
import subprocess
import sys

import pytest

from bert_keras.pipelines.corpus import default_corpus
from tests.marks import slow


@pytest.mark.slow
def test_the_default_corpus_is_a_megabyte_of_english_in_hundreds_of_documents(python_text):
    sentences = [sentence for document in python_text for sentence in document]
    assert all(python_text), "a document without sentences"
    assert len(python_text) > 400  # 437 to 485 in Python 3.10 to 3.13
    assert len(sentences) > 15_000  # 16,600 to 17,200
    assert sum(map(len, sentences)) > 1_200_000  # 1.38 to 1.44 million
    common = collections.Counter(word for sentence in sentences for word in sentence.lower().split())
    assert {word for word, _ in common.most_common(5)} == {"the", "a", "to", "of", "is"}


@pytest.mark.parametrize("documents", ["some_text", *slow("python_text")])
def test_the_default_corpus_has_no_code_markup_or_line_breaks(documents, request):
    left = re.compile(r">>>|::=|\n|:[a-z]+:`|  ")
    sentences = [sentence for document in request.getfixturevalue(documents) for sentence in document]
    assert len(sentences) > 3000
    assert [sentence for sentence in sentences if left.search(sentence)] == []


@pytest.mark.slow
def test_repeated_paragraphs_are_used_once(python_text):
    sentences = [sentence for document in python_text for sentence in document]
    assert len(sentences) - len(set(sentences)) < 700  # 425 short ones in different paragraphs; 1,959 without this rule


@pytest.mark.parametrize(("pages", "min_passages"), [("some_pages", 20), *slow(("python_pages", 900))])
def test_labelled_passages_are_balanced_and_never_share_a_sentence(pages, min_passages, request, monkeypatch):
    pages = request.getfixturevalue(pages)
    monkeypatch.setattr(default_corpus, "_read_pages", lambda: iter(pages))
    rows = default_corpus.make_labelled_passages()
    sizes = collections.Counter(label for _, label in rows)
    assert set(sizes) == {"language", "network", "interface", "concurrency"}
    assert len(set(sizes.values())) == 1
    assert sizes["language"] > min_passages  # of all pages 1,068 to 1,120 in Python 3.10 to 3.13
    assert len({text for text, _ in rows}) == len(rows)
    assert min(len(text.split()) for text, _ in rows) >= 8
    assert not any(letter in text for text, _ in rows for letter in "\u2018\u2019\u201c\u201d")


@pytest.mark.slow
def test_text_is_the_same_in_every_process_and_needs_no_tensorflow(python_text):
    """A new process with different string hashes gives the same documents, and imports none of the modules it reads."""
    code = (
        "import json, sys; from bert_keras.pipelines.corpus import default_corpus as corpus; "
        "from bert_keras.pipelines.text import vocabulary; "
        "documents = list(corpus.read_python_documents()); "
        "bad = {'tensorflow', 'numpy', 'tkinter', 'turtle', 'antigravity'} & set(sys.modules); "
        "json.dump([documents, sorted(bad)], sys.stdout)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env={"PYTHONHASHSEED": "7"})
    documents, imported = json.loads(run.stdout)
    assert documents == python_text
    assert imported == []
