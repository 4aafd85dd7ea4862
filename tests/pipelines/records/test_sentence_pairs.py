"""Half of the pairs are random or swapped, random segments are from other documents, and no text is lost."""

import collections
import dataclasses
import math

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.records.block_records import (
    generate_next_sentence_pairs,
    generate_sentence_order_pairs,
)
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.records.tokenized_documents import Document, TokenizedText

from .made_text import make_tokenized_text
from .reference_pairs import reference_pairs

NUM_DOCUMENTS = 211
SETTINGS = {"max_sequence_length": 37, "seed": 3, "short_sequence_rate": 0.1}


@pytest.fixture(scope="module")
def documents(make_documents):
    return make_documents(NUM_DOCUMENTS)


def make_pairs(documents, pairs=generate_next_sentence_pairs, duplicate=0, **changes):
    """Return the pairs as `(first ids, second ids, label)`."""
    text = documents if isinstance(documents, TokenizedText) else make_tokenized_text(documents)
    ids, settings = text.ids.tolist(), RecordSettings(**{**SETTINGS, **changes})
    return [(ids[a:b], ids[c:d], label) for a, b, c, d, label in pairs(text, settings, duplicate)]


def find_document(ids):
    (index,) = {token // 10_000 for token in ids}
    return index


def is_range(ids):
    return ids == list(range(ids[0], ids[0] + len(ids)))


@pytest.mark.parametrize("max_sequence_length", [5, 8, 37, 1000])
@pytest.mark.parametrize("short_sequence_rate", [0, 0.1, 1])
@pytest.mark.parametrize("seed", [0, 3])
def test_pairs_equal_the_reference(documents, max_sequence_length, short_sequence_rate, seed):
    settings = {"max_sequence_length": max_sequence_length, "short_sequence_rate": short_sequence_rate, "seed": seed}
    assert make_pairs(documents, **settings) == list(reference_pairs(documents, **settings))


@pytest.mark.parametrize("pairs", [generate_next_sentence_pairs, generate_sentence_order_pairs])
@pytest.mark.parametrize("max_sequence_length", [5, 8, 37, 1000])
def test_both_segments_are_contiguous_and_fit(documents, pairs, max_sequence_length):
    for first, second, _ in make_pairs(documents, pairs, max_sequence_length=max_sequence_length):
        assert first
        assert second
        assert is_range(first)
        assert is_range(second)
        assert len(first) + len(second) + 3 <= max_sequence_length


def test_next_segment_follows_and_random_segment_is_from_another_document(documents):
    kinds = collections.Counter()
    for first, second, is_random in make_pairs(documents, max_sequence_length=1000):
        kinds[is_random] += 1
        assert (find_document(first) == find_document(second)) == (not is_random)
        if not is_random:
            assert second[0] == first[-1] + 1
    assert min(kinds.values()) > 100


def test_half_of_the_pairs_are_random_within_three_standard_errors():
    """If every sentence has one token, only the last chunk of a document can be a single sentence."""
    documents = [[[index * 10_000 + position] for position in range(2000)] for index in range(20)]
    labels = [label for *_, label in make_pairs(documents, max_sequence_length=13, short_sequence_rate=0)]
    num_single = len(documents)  # the next segment of a single last sentence is always random
    low, high = sum(labels) - num_single, sum(labels)
    error = 3 * math.sqrt(0.25 / len(labels))
    assert len(labels) > 5000
    assert high / len(labels) > 0.5 - error
    assert low / len(labels) < 0.5 + error


def test_all_other_documents_are_drawn_equally_often():
    documents = [[[index * 10_000 + position] for position in range(300)] for index in range(7)]
    drawn = collections.Counter(
        find_document(b) for seed in range(40) for _, b, f in make_pairs(documents, seed=seed) if f
    )
    expected = sum(drawn.values()) / 7
    assert len(drawn) == 7
    assert max(abs(count - expected) for count in drawn.values()) < 4 * math.sqrt(expected)


def test_every_sentence_is_used_even_if_a_random_segment_replaces_it(documents):
    used = set()
    for first, second, is_random in make_pairs(documents, max_sequence_length=10_000):
        used.update(first if is_random else first + second)
    assert used == {token for document in documents for sentence in document for token in sentence}


@pytest.mark.parametrize("pairs", [generate_next_sentence_pairs, generate_sentence_order_pairs])
def test_short_sequence_rate_holds_within_three_standard_errors(pairs):
    """Short lengths are uniform from 2 to 61; 61 is the full length, so 59 of 60 are visible."""
    documents = [[[index * 10_000 + position] for position in range(9001)] for index in range(7)]
    settings = {"max_sequence_length": 64}
    lengths = np.array([len(a) + len(b) + 3 for a, b, _ in make_pairs(documents, pairs, **settings)])
    short_rate, expected = np.mean(lengths < 64), 0.1 * 59 / 60
    num_rests = 2 * len(documents)  # the rest at the end of a document is short regardless of the rate
    error = 3 * math.sqrt(expected * (1 - expected) / len(lengths))
    assert len(lengths) > 900
    assert expected - error < short_rate < expected + error + num_rests / len(lengths)
    if pairs is generate_sentence_order_pairs:
        exact = [len(a) + len(b) for a, b, _ in make_pairs(documents, pairs, **settings, short_sequence_rate=0)]
        assert exact.count(61) >= len(exact) - len(documents)


def test_long_segments_are_truncated_at_both_ends_longest_first():
    documents = [[list(range(index * 10_000, index * 10_000 + 500))] for index in range(2)]
    starts = set()
    for seed in range(40):
        for first, second, _ in make_pairs(documents, max_sequence_length=24, seed=seed, short_sequence_rate=0):
            assert (len(first), len(second)) == (11, 10)
            starts.add(first[0] % 10_000)
    front_mean = np.mean(list(starts))
    assert abs(front_mean - 489 / 2) < 30  # each removed token is from either end with equal probability
    assert len(starts) > 10


@pytest.mark.parametrize("pairs", [generate_next_sentence_pairs, generate_sentence_order_pairs])
def test_draws_depend_only_on_seed_number_part_and_duplicate(documents, pairs):
    text = make_tokenized_text(documents)
    expected = make_pairs(text, pairs)
    assert make_pairs(text, pairs) == expected
    odd = dataclasses.replace(text.documents[4], number=999)  # changes the draws for this document only
    changed = make_pairs(dataclasses.replace(text, documents=[*text.documents[:4], odd, *text.documents[5:]]), pairs)
    differing = [pair for pair in expected if pair not in changed]
    assert differing
    first_segments = [first + second * (pairs is generate_sentence_order_pairs) for first, second, _ in differing]
    assert {find_document(ids) for ids in first_segments} == {4}
    renumbered = [Document(document.number + 1, 0, document.start, document.end) for document in text.documents]
    second_parts = [Document(document.number, 1, document.start, document.end) for document in text.documents]
    others = [make_pairs(text, pairs, seed=4), make_pairs(text, pairs, duplicate=1)]
    others += [
        make_pairs(dataclasses.replace(text, documents=changed), pairs) for changed in (renumbered, second_parts)
    ]
    assert len({str(pairs) for pairs in [expected, *others]}) == 5


def test_single_document_borrows_random_segments_only(documents):
    text = make_tokenized_text(documents[:3])
    single = TokenizedText(text.ids, text.starts, text.documents[:1], text.documents[1:])
    pairs = make_pairs(single)
    assert {find_document(first) for first, *_ in pairs} == {0}
    assert {find_document(second) for _, second, label in pairs if label} <= {1, 2}


def test_single_document_is_rejected_with_the_fix():
    with pytest.raises(
        InputError, match=r"the text has 1 document\(s\).*blank line between.*the objective sop or none"
    ):
        make_pairs([[[7], [8]]])
    assert make_pairs([]) == []


def test_sentence_order_pairs_are_adjacent_and_swapped_half_of_the_time(documents):
    labels = []
    for first, second, is_swapped in make_pairs(documents, generate_sentence_order_pairs, max_sequence_length=10_000):
        earlier, later = (second, first) if is_swapped else (first, second)
        assert later[0] == earlier[-1] + 1
        assert find_document(earlier) == find_document(later)
        labels.append(is_swapped)
    many = [[[index * 10_000 + position] for position in range(3000)] for index in range(20)]
    labels = [label for *_, label in make_pairs(many, generate_sentence_order_pairs, max_sequence_length=13)]
    assert len(labels) > 5000
    assert abs(np.mean(labels) - 0.5) < 3 * math.sqrt(0.25 / len(labels))


def test_sentence_order_pairs_use_every_token_once_except_single_tokens(documents):
    tokens = [
        p for a, b, _ in make_pairs(documents, generate_sentence_order_pairs, max_sequence_length=10_000) for p in a + b
    ]
    expected = [token for document in documents for sentence in document for token in sentence]
    single = [document[0][0] for document in documents if sum(map(len, document)) == 1]
    rests = set(expected) - set(tokens)
    assert len(tokens) == len(set(tokens))
    assert set(single) <= rests
    assert all(token + 1 not in expected for token in rests)  # the last token of a document


def test_sentence_order_pairs_need_no_second_document_and_split_a_single_sentence():
    assert make_pairs([[[7, 8]]], generate_sentence_order_pairs) in ([([7], [8], 0)], [([8], [7], 1)])
    assert make_pairs([[[7]]], generate_sentence_order_pairs) == []
    cuts = {
        len(a)
        for seed in range(50)
        for a, b, _ in make_pairs([[list(range(6))]], generate_sentence_order_pairs, seed=seed)
    }
    assert cuts == {1, 2, 3, 4, 5}
