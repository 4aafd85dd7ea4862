"""Next-sentence pairs: half random, never from the same document, nothing lost, the same for a seed."""

import collections
import math

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.records.pairs import document_examples, next_sentence_examples

NUM_DOCUMENTS = 211


def made_documents(seed=0):
    """Documents of 1 to 29 sentences of 1 to 12 pieces; a piece tells its document, and counts up along it."""
    rng = np.random.default_rng(seed)
    documents = []
    for index in range(NUM_DOCUMENTS):
        pieces = iter(range(index * 10_000, (index + 1) * 10_000))
        documents.append([[next(pieces) for _ in range(rng.integers(1, 13))] for _ in range(rng.integers(1, 30))])
    return documents


def made_examples(documents, **changes):
    return list(next_sentence_examples(documents, **{"max_sequence_length": 37, "seed": 3, **changes}))


def document_of(ids):
    (index,) = {piece // 10_000 for piece in ids}
    return index


def is_run(ids):
    return ids == list(range(ids[0], ids[0] + len(ids)))


@pytest.mark.parametrize("max_sequence_length", [5, 8, 37, 1000])
def test_both_parts_are_unbroken_runs_that_fit(max_sequence_length):
    for first, second, _ in made_examples(made_documents(), max_sequence_length=max_sequence_length):
        assert first
        assert second
        assert is_run(first)
        assert is_run(second)
        assert len(first) + len(second) + 3 <= max_sequence_length


def test_a_true_next_follows_and_a_random_one_is_of_another_document():
    kinds = collections.Counter()
    for first, second, is_random in made_examples(made_documents(), max_sequence_length=1000):
        kinds[is_random] += 1
        assert (document_of(first) == document_of(second)) == (not is_random)
        if not is_random:
            assert second[0] == first[-1] + 1
    assert min(kinds.values()) > 100


def test_half_are_random_and_any_other_document_can_be_drawn():
    """In documents of two sentences and more left, is-random is a fair coin."""
    documents = [document * 2 for document in made_documents()]
    coins = [flag for first, second, flag in made_examples(documents, max_sequence_length=19) if len(first) < 16]
    rate = sum(coins) / len(coins)
    # a document's last lone sentence always gets a random second part: up to one in ~15 examples here
    assert 0.5 - 3 * math.sqrt(0.25 / len(coins)) < rate < 0.57
    documents = made_documents()
    drawn = {document_of(b) for seed in range(13) for _, b, flag in made_examples(documents, seed=seed) if flag}
    assert drawn == set(range(NUM_DOCUMENTS))


def test_every_sentence_is_used_and_what_a_random_part_replaced_is_used_again():
    documents = made_documents()
    used = set()
    for first, second, is_random in made_examples(documents, max_sequence_length=10_000):
        used.update(first if is_random else first + second)
    assert used == {piece for document in documents for sentence in document for piece in sentence}


def test_one_in_ten_sequences_is_made_shorter():
    documents = [[[index * 10_000 + place] for place in range(3001)] for index in range(7)]
    lengths = [len(a) + len(b) + 3 for a, b, _ in made_examples(documents, max_sequence_length=64)]
    short_rate = np.mean(np.array(lengths) < 64)
    assert abs(short_rate - 0.1) < 3 * math.sqrt(0.09 / len(lengths)) + 0.02  # and each document's rest
    exact = [len(a) + len(b) + 3 for a, b, _ in made_examples(documents, max_sequence_length=64, short_sequence_rate=0)]
    assert np.mean(np.array(exact) == 64) > 0.97


def test_too_long_parts_are_cut_at_both_ends_longest_first():
    documents = [[list(range(index * 10_000, index * 10_000 + 500))] * 1 for index in range(2)]
    starts = set()
    for seed in range(40):
        for first, second, _ in made_examples(documents, max_sequence_length=24, seed=seed, short_sequence_rate=0):
            assert (len(first), len(second)) == (11, 10)
            starts.add(first[0] % 10_000)
    front_mean = np.mean(list(starts))
    assert abs(front_mean - 489 / 2) < 30  # a fair coin for each piece cut off
    assert len(starts) > 10


def test_a_documents_examples_depend_on_seed_and_index_only():
    documents = made_documents()
    settings = {"max_sequence_length": 37, "seed": 3, "short_sequence_rate": 0.1}
    backwards = [list(document_examples(documents, index, **settings)) for index in reversed(range(NUM_DOCUMENTS))]
    assert [example for examples in reversed(backwards) for example in examples] == made_examples(documents)
    assert made_examples(documents, seed=4) != made_examples(documents)


def test_empty_sentences_and_documents_change_nothing():
    documents = made_documents()[:9]
    holed = [[], [[], documents[0][0], [], *documents[0][1:]], [[]], *documents[1:], []]
    assert made_examples(holed) == made_examples(documents)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"documents_as_ids": [[[7]], [[]]]}, r"the text has 1 document\(s\); expected two or more.*blank line"),
        ({"max_sequence_length": 4}, "max_sequence_length is 4; expected 5"),
        ({"short_sequence_rate": 1.5}, r"short_sequence_rate is 1\.5; expected a share"),
        ({"seed": -1}, "seed is -1; expected a whole number"),
    ],
)
def test_settings_that_give_no_pairs_are_refused_at_once(changes, message):
    with pytest.raises(InputError, match=message):
        next_sentence_examples(**{"documents_as_ids": [[[7]], [[8]]], "max_sequence_length": 9, "seed": 0, **changes})
