"""Every example is in one sequence, no sequence is too long, and little space is wasted."""

import itertools

import numpy as np
import pytest

from bert_keras.pipelines.records.block_records import pack_by_histogram
from tests.marks import slow_except


def find_optimum(lengths, sequence_length):
    """Return the smallest possible number of sequences by trying all assignments."""
    for num_sequences in range(1, len(lengths) + 1):
        for assignment in itertools.product(range(num_sequences), repeat=len(lengths)):
            loads = np.bincount(assignment, weights=lengths, minlength=num_sequences)
            if loads.max() <= sequence_length:
                return num_sequences
    raise AssertionError


@pytest.mark.parametrize(("sequence_length", "max_examples"), [(128, 8), (128, 1), (128, 2), (37, 3), (512, 100)])
@pytest.mark.parametrize("seed", range(3))
def test_every_example_is_in_one_sequence_that_fits(sequence_length, max_examples, seed):
    lengths = np.random.default_rng(seed).integers(1, sequence_length + 1, 997)
    sequences = pack_by_histogram(lengths, sequence_length=sequence_length, max_examples=max_examples)
    assert sorted(index for sequence in sequences for index in sequence) == list(range(997))
    assert max(lengths[sequence].sum() for sequence in sequences) <= sequence_length
    assert max(map(len, sequences)) <= max_examples


def test_no_examples_give_no_sequences_and_full_examples_stay_alone():
    assert pack_by_histogram(np.array([], np.int64), sequence_length=7, max_examples=3) == []
    assert sorted(pack_by_histogram(np.full(5, 7), sequence_length=7, max_examples=3)) == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize("seed", slow_except(range(20), quick=[0, 1, 2]))
def test_number_of_sequences_exceeds_the_optimum_by_at_most_one(seed):
    lengths = np.random.default_rng(seed).integers(1, 14, 7)
    sequences = pack_by_histogram(lengths, sequence_length=13, max_examples=7)
    assert len(sequences) <= find_optimum(lengths, 13) + 1


def test_uniform_lengths_fill_sequences_to_99_percent():
    lengths = np.random.default_rng(0).integers(5, 129, 5000)
    num_sequences = len(pack_by_histogram(lengths, sequence_length=128, max_examples=8))
    assert lengths.sum() / (num_sequences * 128) > 0.99  # measured: 0.997


def test_example_is_packed_where_it_fits_best():
    sequences = pack_by_histogram(np.array([7, 3, 6, 4, 5, 5, 1]), sequence_length=10, max_examples=8)
    assert sorted(map(sorted, sequences)) == [[0, 1], [2, 3], [4, 5], [6]]
    sequences = pack_by_histogram(np.array([7, 6, 3, 1]), sequence_length=10, max_examples=8)
    assert sorted(sequences) == [[0, 2], [1, 3]]  # 3 fills the sequence with 7; the one with 6 has more space


def test_no_two_sequences_could_be_merged():
    lengths = np.random.default_rng(1).integers(1, 65, 2000)
    sequences = pack_by_histogram(lengths, sequence_length=64, max_examples=100)
    sums = sorted(lengths[sequence].sum() for sequence in sequences)
    assert sums[0] + sums[1] > 64
