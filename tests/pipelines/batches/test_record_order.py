"""Records are read once per epoch and are shuffled; the order depends on seed and epoch, not on the first record."""

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.pipelines.batches import record_order
from bert_keras.pipelines.batches.record_order import ShardedRecords
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
def order(paths, monkeypatch):
    """Function that returns the windows of an epoch as lists of numbers."""

    def windows(seed=0, epoch=0, skip=0, *, window=65_536, interleaved=8):
        monkeypatch.setattr(record_order, "_SHUFFLE_WINDOW", window)
        monkeypatch.setattr(record_order, "_NUM_INTERLEAVED", interleaved)
        records = ShardedRecords(paths, FIRST_NUMBERS, COUNTS, seed)
        batches = list(records.shuffled(tf.constant(epoch, tf.int64), tf.constant(skip, tf.int64)).as_numpy_iterator())
        for numbers, serialized in batches:
            assert [str(number).encode() for number in numbers] == serialized.tolist()
        return [numbers.tolist() for numbers, _ in batches]

    return windows


def concatenate(windows):
    return list(itertools.chain.from_iterable(windows))


def test_every_record_is_read_once_with_its_number(order):
    for window in (7, 65_536):
        assert sorted(concatenate(order(window=window))) == NUMBERS


def test_seed_and_epoch_change_the_order(order):
    [first], [repeated], [other_seed], [other_epoch] = order(3, 1), order(3, 1), order(4, 1), order(3, 2)
    assert first == repeated
    assert first != other_seed != other_epoch != first


def test_records_are_shuffled_within_a_window(order):
    """The rank correlation of order and number is near zero; its standard error is 1 / sqrt(120) = 0.09."""
    [numbers] = order()
    ranks = np.argsort(np.argsort(numbers))
    assert abs(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1]) < 0.3
    first_shard = [number for number in numbers if number < 200]
    assert abs(np.corrcoef(first_shard, np.arange(40))[0, 1]) < 0.5  # standard error: 0.16


def test_shards_are_interleaved(order):
    """A window of ten records has five each of two shards, unless a shard is empty or has one record."""
    halves = 0
    for epoch in range(12):
        shards = collections.Counter(number // 100 for number in order(0, epoch, window=10, interleaved=2)[0])
        halves += sorted(shards.values()) == [5, 5]
    assert halves >= 2  # three of the ten pairs of shards have two long shards


@pytest.mark.slow
def test_shards_are_shuffled(order):
    first = {order(0, epoch, window=10, interleaved=1)[0][-1] // 100 for epoch in range(20)}
    assert first == {1, 2, 4}


@pytest.mark.parametrize(("window", "interleaved"), [(7, 2), *slow((40, 1), (65_536, 8))])
def test_start_in_the_middle_gives_the_same_records(window, interleaved, order):
    settings = {"window": window, "interleaved": interleaved}
    all_numbers = concatenate(order(5, 1, **settings))
    for skip in (1, 7, 40, 41, 80, 81, 120):
        assert concatenate(order(5, 1, skip, **settings)) == all_numbers[skip:]


def test_in_order_reads_by_number_from_any_start(paths):
    records = ShardedRecords(paths, FIRST_NUMBERS, COUNTS, 0)
    for skip in (0, 39, 40, 80, 120):
        numbers = [number for number, _ in records.in_order(tf.constant(skip, tf.int64)).as_numpy_iterator()]
        assert numbers == NUMBERS[skip:]


def test_skipped_shards_are_not_opened(paths):
    records = ShardedRecords(["missing", *paths[1:]], FIRST_NUMBERS, COUNTS, 0)
    numbers = [number for number, _ in records.in_order(tf.constant(40, tf.int64)).as_numpy_iterator()]
    assert numbers == NUMBERS[40:]
