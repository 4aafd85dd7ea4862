"""Every example stands in one row, no row is too long, and little room is wasted."""

import itertools

import numpy as np
import pytest

from bert_keras.pipelines.records.examples.histogram_packing import pack_by_histogram


def best_number_of_rows(lengths, row_length):
    """The fewest rows there can be, by trying everything."""
    for num_rows in range(1, len(lengths) + 1):
        for places in itertools.product(range(num_rows), repeat=len(lengths)):
            loads = np.bincount(places, weights=lengths, minlength=num_rows)
            if loads.max() <= row_length:
                return num_rows
    raise AssertionError


@pytest.mark.parametrize(("row_length", "max_examples"), [(128, 8), (128, 1), (128, 2), (37, 3), (512, 100)])
@pytest.mark.parametrize("seed", range(3))
def test_every_example_stands_in_one_row_that_holds_it(row_length, max_examples, seed):
    lengths = np.random.default_rng(seed).integers(1, row_length + 1, 997)
    rows = pack_by_histogram(lengths, sequence_length=row_length, max_examples=max_examples)
    assert sorted(index for row in rows for index in row) == list(range(997))
    assert max(lengths[row].sum() for row in rows) <= row_length
    assert max(map(len, rows)) <= max_examples


def test_nothing_gives_no_rows_and_full_rows_stay_alone():
    assert pack_by_histogram(np.array([], np.int64), sequence_length=7, max_examples=3) == []
    assert sorted(pack_by_histogram(np.full(5, 7), sequence_length=7, max_examples=3)) == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize("seed", range(20))
def test_small_cases_take_at_most_one_row_more_than_the_best_packing(seed):
    lengths = np.random.default_rng(seed).integers(1, 14, 7)
    rows = pack_by_histogram(lengths, sequence_length=13, max_examples=7)
    assert len(rows) <= best_number_of_rows(lengths, 13) + 1


def test_uniform_lengths_fill_rows_to_99_percent():
    lengths = np.random.default_rng(0).integers(5, 129, 5000)
    assert lengths.sum() / (len(pack_by_histogram(lengths, sequence_length=128, max_examples=8)) * 128) > 0.99  # 0.997


def test_a_row_takes_the_longest_example_that_fits_best():
    rows = pack_by_histogram(np.array([7, 3, 6, 4, 5, 5, 1]), sequence_length=10, max_examples=8)
    assert sorted(map(sorted, rows)) == [[0, 1], [2, 3], [4, 5], [6]]
    rows = pack_by_histogram(np.array([7, 6, 3, 1]), sequence_length=10, max_examples=8)
    assert sorted(rows) == [[0, 2], [1, 3]]  # 3 fills the row of 7, though that of 6 has more room


def test_no_two_rows_could_be_one():
    lengths = np.random.default_rng(1).integers(1, 65, 2000)
    rows = pack_by_histogram(lengths, sequence_length=64, max_examples=100)
    sums = sorted(lengths[row].sum() for row in rows)
    assert sums[0] + sums[1] > 64
