"""Rows of full sentences: every token in one row, sentences whole where they fit, documents apart where asked."""

import numpy as np
import pytest

from bert_keras.pipelines.records.examples.full_sentences import generate_full_sentences
from bert_keras.pipelines.records.examples.tokenized_documents import TokenizedText

SEP = -1


def rows_of(documents, max_sequence_length=37, **options):
    text = TokenizedText.from_sentences(documents)
    return [
        row.tolist()
        for row in generate_full_sentences(text, max_sequence_length=max_sequence_length, sep_id=SEP, **options)
    ]


def plain_rows(documents, room):
    """The same rule in plain words: documents joined, a [SEP] between two in one row."""
    rows, row = [], []
    for document in documents:
        for place, sentence in enumerate(document):
            border = [SEP] if row and not place else []
            if row and len(row) + len(border) + len(sentence) > room:
                rows.append(row)
                row, border = [], []
            row = row + border + sentence
            while len(row) > room:
                rows.append(row[:room])
                row = row[room:]
    return [*rows, row] if row else rows


@pytest.mark.parametrize("max_sequence_length", [5, 8, 13, 37, 200, 100_000])
def test_every_token_stands_in_one_row_in_the_order_of_the_text(made_documents, max_sequence_length):
    documents = made_documents()
    tokens = [token for document in documents for sentence in document for token in sentence]
    for options in ({}, {"keep_documents_apart": True}):
        rows = rows_of(documents, max_sequence_length, **options)
        assert [token for row in rows for token in row if token != SEP] == tokens
        assert max(map(len, rows)) <= max_sequence_length - 2
        assert all(row[0] != SEP != row[-1] for row in rows)


@pytest.mark.parametrize("max_sequence_length", [5, 8, 13, 37, 200, 100_000])
def test_rows_are_filled_greedily_with_a_separator_between_documents(made_documents, max_sequence_length):
    documents = made_documents()
    assert rows_of(documents, max_sequence_length) == plain_rows(documents, max_sequence_length - 2)
    apart = [row for document in documents for row in plain_rows([document], max_sequence_length - 2)]
    assert rows_of(documents, max_sequence_length, keep_documents_apart=True) == apart


def test_a_sentence_longer_than_a_row_begins_one_and_its_rest_is_joined_by_the_next():
    documents = [[[1, 2], list(range(10, 21)), [30]], [[40, 41, 42], [50]]]
    assert rows_of(documents, 7) == [[1, 2], [10, 11, 12, 13, 14], [15, 16, 17, 18, 19], [20, 30], [40, 41, 42, 50]]
    assert rows_of(documents, 8)[-2:] == [[16, 17, 18, 19, 20, 30], [40, 41, 42, 50]]
    assert rows_of(documents, 9) == [[1, 2], [*range(10, 17)], [17, 18, 19, 20, 30], [40, 41, 42, 50]]
    assert rows_of(documents, 12) == [[1, 2], [*range(10, 20)], [20, 30, SEP, 40, 41, 42, 50]]


def test_documents_of_a_split_need_not_be_neighbours():
    text = TokenizedText.from_sentences([[[1, 2]], [[3]], [[4], [5]]])
    text = TokenizedText(text.ids, text.starts, [text.documents[0], text.documents[2]], [])
    [row] = generate_full_sentences(text, max_sequence_length=9, sep_id=SEP)
    assert row.tolist() == [1, 2, SEP, 4, 5]
    assert row.dtype == np.int32


def test_no_documents_give_no_rows():
    assert rows_of([]) == []
