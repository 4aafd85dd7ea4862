"""English sentences stay whole; markup, code and fragments are removed."""

import pytest

from bert_keras.pipelines.corpus.default_corpus import extract_paragraphs, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        ("One.  Two!\nThree? four", ["One.", "Two!", "Three? four"]),
        ("It works, e.g. Here. See J. Smith vs. Jones.", ["It works, e.g. Here.", "See J. Smith vs. Jones."]),
        ('He said "no." Then 3.5 of 7 left.', ['He said "no."', "Then 3.5 of 7 left."]),
        ("Call os.path.join. (Always.) It is a b.c d.", ["Call os.path.join.", "(Always.)", "It is a b.c d."]),
    ],
)
def test_sentences_end_where_a_person_would_end_them(text, sentences):
    assert split_sentences(text) == sentences


DOCSTRING = """\
Return the :class:`~os.PathLike` of ``name`` and *never* ``None``.

Usage is easy, as in this example::

    path = Thing(name) that should be dropped.

    This line is indented under it.

After it the text goes on as usual.

The text before a doctest is kept.
>>> print("The doctest is not, nor what it prints.")
The doctest is not, nor what it prints.

The grammar is a rule ::= with many "words" in it.

.. note:: This is a directive with many words.

* The first item of a list.
* The second item
  on two lines.

Short one.

x = y * (z + 1) / foo[bar] - 2.

A heading of many words
=======================
"""


def test_markup_code_and_fragments_are_removed_from_documentation():
    assert extract_paragraphs(DOCSTRING) == [
        ["Return the os.PathLike of name and never None."],
        ["Usage is easy, as in this example"],
        ["After it the text goes on as usual."],
        ["The text before a doctest is kept."],
        ["The first item of a list."],
        ["The second item on two lines."],
        ["A heading of many words"],
    ]
