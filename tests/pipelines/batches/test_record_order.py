"""Records are read once per epoch and are shuffled; the order depends on seed and epoch, not on the first record."""

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.pipelines.batches import pretraining_batches
from bert_keras.pipelines.batches.pretraining_batches import ShardedRecords
from tests.marks import slow

COUNTS = (40, 40, 0, 40, 1)
FIRST_NUMBERS = (100, 200, 300, 400, 500)  # gaps as if shards of another split were in between
NUMBERS = [first + index for first, count in zip(FIRST_NUMBERS, COUNTS, strict=True) for index in range(count)]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Shards whose records are their numbers."""
    folder = tmp_path_factory.mktemp("shards")
    for first, count in zip(FIRST_NUMBERS, COUNTS, strict=True):
        with tf.io.TFRecordWriter(str(folder / str(first))) as writer:
            for index in range(count):
                writer.write(str(first + index).encode())
    return [str(folder / str(first)) for first in FIRST_NUMBERS]


@pytest.fixture
def orders(paths, monkeypatch):
    """Function that returns the windows of each epoch, lists of numbers, from an (epoch, number of records to skip).

    One dataset reads all epochs, because a dataset takes half a second to trace.
    """

    def read(starts, seed=0, *, window=65_536, interleaved=8):
        monkeypatch.setattr(pretraining_batches, "_SHUFFLE_WINDOW", window)
        monkeypatch.setattr(pretraining_batches, "_NUM_INTERLEAVED", interleaved)
        records = ShardedRecords(paths, FIRST_NUMBERS, COUNTS, seed)

        def read_one(place, start):
            return records.shuffled(start[0], start[1]).map(lambda *values: (place, *values))

        epochs = [[] for _ in starts]
        for place, numbers, serialized in (
            tf.data.Dataset.from_tensor_slices(tf.constant(starts, tf.int64)).enumerate().flat_map(read_one)
        ).as_numpy_iterator():
            assert [str(number).encode() for number in numbers] == serialized.tolist()
            epochs[place].append(numbers.tolist())
        return epochs

    return read


@pytest.fixture
def order(orders):
    """Function that returns the windows of one epoch."""
    return lambda **settings: orders([(0, 0)], **settings)[0]


def concatenate(windows):
    return list(itertools.chain.from_iterable(windows))


@pytest.mark.slow  # the tests of the order check it too
def test_every_record_is_read_once_with_its_number(order):
    for window in (7, 65_536):
        assert sorted(concatenate(order(window=window))) == NUMBERS


@pytest.mark.slow  # test_pretraining_batches.py has quick tests of seeds and epochs
def test_seed_and_epoch_change_the_order(orders):
    [first], [other_epoch] = orders([(1, 0), (2, 0)], seed=3)
    [[repeated]], [[other_seed]] = orders([(1, 0)], seed=3), orders([(1, 0)], seed=4)
    assert first == repeated
    assert first != other_seed != other_epoch != first


def test_records_are_shuffled_within_a_window(order):
    """The rank correlation of order and number is near zero; its standard error is 1 / sqrt(120) = 0.09."""
    [numbers] = order()
    assert sorted(numbers) == NUMBERS
    ranks = np.argsort(np.argsort(numbers))
    assert abs(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1]) < 0.3
    first_shard = [number for number in numbers if number < 200]
    assert abs(np.corrcoef(first_shard, np.arange(40))[0, 1]) < 0.5  # standard error: 0.16


def test_shards_are_interleaved(orders):
    """A window of ten records has five each of two shards, unless a shard is empty or has one record."""
    halves = 0
    for first, *_ in orders([(epoch, 0) for epoch in range(12)], window=10, interleaved=2):
        shards = collections.Counter(number // 100 for number in first)
        halves += sorted(shards.values()) == [5, 5]
    assert halves >= 2  # three of the ten pairs of shards have two long shards


@pytest.mark.slow
def test_shards_are_shuffled(orders):
    epochs = orders([(epoch, 0) for epoch in range(20)], window=10, interleaved=1)
    assert {first[-1] // 100 for first, *_ in epochs} == {1, 2, 4}


@pytest.mark.parametrize(("window", "interleaved"), [(7, 2), *slow((40, 1), (65_536, 8))])
def test_start_in_the_middle_gives_the_same_records(window, interleaved, orders):
    skips = (0, 1, 7, 40, 41, 80, 81, 120)
    epochs = orders([(1, skip) for skip in skips], seed=5, window=window, interleaved=interleaved)
    all_numbers = concatenate(epochs[0])
    assert sorted(all_numbers) == NUMBERS
    for skip, windows in zip(skips, epochs, strict=True):
        assert concatenate(windows) == all_numbers[skip:]


def test_in_order_reads_by_number_from_any_start(paths):
    records = ShardedRecords(paths, FIRST_NUMBERS, COUNTS, 0)
    for skip in (0, 39, 40, 80, 120):
        numbers = [number for number, _ in records.in_order(tf.constant(skip, tf.int64)).as_numpy_iterator()]
        assert numbers == NUMBERS[skip:]


def test_skipped_shards_are_not_opened(paths):
    records = ShardedRecords(["missing", *paths[1:]], FIRST_NUMBERS, COUNTS, 0)
    numbers = [number for number, _ in records.in_order(tf.constant(40, tf.int64)).as_numpy_iterator()]
    assert numbers == NUMBERS[40:]
