"""Sequences of full sentences have every token once, do not split sentences that fit, and can separate documents."""

import numpy as np
import pytest

from bert_keras.pipelines.records.block_records import generate_full_sentences
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.records.tokenized_documents import TokenizedText

from .made_text import make_tokenized_text

SEP = -1


def generate(documents, max_sequence_length=37, **options):
    settings = RecordSettings(max_sequence_length, sentence_objective="none", **options)
    return [sequence.tolist() for sequence in generate_full_sentences(make_tokenized_text(documents), settings, SEP)]


def generate_with_lists(documents, room):
    """Reference implementation with lists: join documents with [SEP] between two documents of a sequence."""
    sequences, sequence = [], []
    for document in documents:
        for index, sentence in enumerate(document):
            separator = [SEP] if sequence and not index else []
            if sequence and len(sequence) + len(separator) + len(sentence) > room:
                sequences.append(sequence)
                sequence, separator = [], []
            sequence = sequence + separator + sentence
            while len(sequence) > room:
                sequences.append(sequence[:room])
                sequence = sequence[room:]
    return [*sequences, sequence] if sequence else sequences


@pytest.mark.parametrize("max_sequence_length", [5, 8, 13, 37, 200, 100_000])
def test_every_token_is_in_one_sequence_in_the_order_of_the_text(make_documents, max_sequence_length):
    documents = make_documents()
    tokens = [token for document in documents for sentence in document for token in sentence]
    for options in ({}, {"keep_documents_apart": True}):
        sequences = generate(documents, max_sequence_length, **options)
        assert [token for sequence in sequences for token in sequence if token != SEP] == tokens
        assert max(map(len, sequences)) <= max_sequence_length - 2
        assert all(sequence[0] != SEP != sequence[-1] for sequence in sequences)


@pytest.mark.parametrize("max_sequence_length", [5, 8, 13, 37, 200, 100_000])
def test_sequences_are_filled_greedily_with_a_separator_between_documents(make_documents, max_sequence_length):
    documents = make_documents()
    assert generate(documents, max_sequence_length) == generate_with_lists(documents, max_sequence_length - 2)
    expected = [
        sequence for document in documents for sequence in generate_with_lists([document], max_sequence_length - 2)
    ]
    assert generate(documents, max_sequence_length, keep_documents_apart=True) == expected


def test_long_sentence_starts_a_sequence_and_its_rest_is_followed_by_the_next():
    documents = [[[1, 2], list(range(10, 21)), [30]], [[40, 41, 42], [50]]]
    assert generate(documents, 7) == [[1, 2], [10, 11, 12, 13, 14], [15, 16, 17, 18, 19], [20, 30], [40, 41, 42, 50]]
    assert generate(documents, 8)[-2:] == [[16, 17, 18, 19, 20, 30], [40, 41, 42, 50]]
    assert generate(documents, 9) == [[1, 2], [*range(10, 17)], [17, 18, 19, 20, 30], [40, 41, 42, 50]]
    assert generate(documents, 12) == [[1, 2], [*range(10, 20)], [20, 30, SEP, 40, 41, 42, 50]]


def test_documents_of_a_split_need_not_be_adjacent():
    text = make_tokenized_text([[[1, 2]], [[3]], [[4], [5]]])
    text = TokenizedText(text.ids, text.starts, [text.documents[0], text.documents[2]], [])
    [sequence] = generate_full_sentences(text, RecordSettings(9, sentence_objective="none"), SEP)
    assert sequence.tolist() == [1, 2, SEP, 4, 5]
    assert sequence.dtype == np.int32


def test_no_documents_give_no_sequences():
    assert generate([]) == []
