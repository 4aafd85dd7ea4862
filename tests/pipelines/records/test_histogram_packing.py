"""Every example is in one sequence, no sequence is too long, and little room is wasted."""

import itertools

import numpy as np
import pytest

from bert_keras.pipelines.records.examples.histogram_packing import pack_by_histogram


def find_best_number(lengths, sequence_length):
    """Find the smallest number of sequences by trying all assignments."""
    for num_sequences in range(1, len(lengths) + 1):
        for places in itertools.product(range(num_sequences), repeat=len(lengths)):
            loads = np.bincount(places, weights=lengths, minlength=num_sequences)
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


def test_no_examples_give_no_sequences_and_full_ones_stay_alone():
    assert pack_by_histogram(np.array([], np.int64), sequence_length=7, max_examples=3) == []
    assert sorted(pack_by_histogram(np.full(5, 7), sequence_length=7, max_examples=3)) == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize("seed", range(20))
def test_small_cases_need_at_most_one_sequence_more_than_the_optimum(seed):
    lengths = np.random.default_rng(seed).integers(1, 14, 7)
    sequences = pack_by_histogram(lengths, sequence_length=13, max_examples=7)
    assert len(sequences) <= find_best_number(lengths, 13) + 1


def test_uniform_lengths_fill_sequences_to_99_percent():
    lengths = np.random.default_rng(0).integers(5, 129, 5000)
    assert lengths.sum() / (len(pack_by_histogram(lengths, sequence_length=128, max_examples=8)) * 128) > 0.99  # 0.997


def test_an_example_goes_where_it_fits_best():
    sequences = pack_by_histogram(np.array([7, 3, 6, 4, 5, 5, 1]), sequence_length=10, max_examples=8)
    assert sorted(map(sorted, sequences)) == [[0, 1], [2, 3], [4, 5], [6]]
    sequences = pack_by_histogram(np.array([7, 6, 3, 1]), sequence_length=10, max_examples=8)
    assert sorted(sequences) == [[0, 2], [1, 3]]  # 3 fills the sequence of 7, although that of 6 has more room


def test_no_two_sequences_could_be_merged():
    lengths = np.random.default_rng(1).integers(1, 65, 2000)
    sequences = pack_by_histogram(lengths, sequence_length=64, max_examples=100)
    sums = sorted(lengths[sequence].sum() for sequence in sequences)
    assert sums[0] + sums[1] > 64
