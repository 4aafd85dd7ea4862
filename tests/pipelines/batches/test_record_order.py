"""The order of rows: each once, well mixed, another one for every seed and epoch, and the same from any place on."""

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.pipelines.batches import record_order
from bert_keras.pipelines.batches.record_order import ShardedRecords
from tests.marks import slow

COUNTS = (40, 40, 0, 40, 1)
FIRST_NUMBERS = (100, 200, 300, 400, 500)  # as if shards of another split stood between
NUMBERS = [first + place for first, count in zip(FIRST_NUMBERS, COUNTS, strict=True) for place in range(count)]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Shards whose rows are their own numbers."""
    folder = tmp_path_factory.mktemp("shards")
    for first, count in zip(FIRST_NUMBERS, COUNTS, strict=True):
        with tf.io.TFRecordWriter(str(folder / str(first))) as writer:
            for place in range(count):
                writer.write(str(first + place).encode())
    return [str(folder / str(first)) for first in FIRST_NUMBERS]


@pytest.fixture
def order(paths, monkeypatch):
    """A function that gives the windows of an epoch, as lists of numbers."""

    def windows(seed=0, epoch=0, skip=0, *, window=65_536, interleaved=8):
        monkeypatch.setattr(record_order, "_SHUFFLE_WINDOW", window)
        monkeypatch.setattr(record_order, "_NUM_INTERLEAVED", interleaved)
        rows = ShardedRecords(paths, FIRST_NUMBERS, COUNTS, seed)
        batches = list(rows.shuffled(tf.constant(epoch, tf.int64), tf.constant(skip, tf.int64)).as_numpy_iterator())
        for numbers, serialized in batches:
            assert [str(number).encode() for number in numbers] == serialized.tolist()
        return [numbers.tolist() for numbers, _ in batches]

    return windows


def joined(windows):
    return list(itertools.chain.from_iterable(windows))


def test_every_row_comes_once_with_its_number(order):
    for window in (7, 65_536):
        assert sorted(joined(order(window=window))) == NUMBERS


def test_seeds_and_epochs_have_their_own_orders(order):
    [first], [again], [other_seed], [other_epoch] = order(3, 1), order(3, 1), order(4, 1), order(3, 2)
    assert first == again
    assert first != other_seed != other_epoch != first


def test_rows_are_shuffled_in_their_window(order):
    """The rank correlation of order and number is that of chance: a standard error of 1 / sqrt(120) = 0.09."""
    [numbers] = order()
    ranks = np.argsort(np.argsort(numbers))
    assert abs(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1]) < 0.3
    of_one_shard = [number for number in numbers if number < 200]
    assert abs(np.corrcoef(of_one_shard, np.arange(40))[0, 1]) < 0.5  # 0.16


def test_shards_are_read_side_by_side(order):
    """A window of ten rows has five of each of two shards, unless the empty or the shortest one is among them."""
    halves = 0
    for epoch in range(12):
        shards = collections.Counter(number // 100 for number in order(0, epoch, window=10, interleaved=2)[0])
        halves += sorted(shards.values()) == [5, 5]
    assert halves >= 2  # of ten pairs of five shards three are of two long ones


@pytest.mark.slow
def test_shards_change_places(order):
    first = {order(0, epoch, window=10, interleaved=1)[0][-1] // 100 for epoch in range(20)}
    assert first == {1, 2, 4}


@pytest.mark.parametrize(("window", "interleaved"), [(7, 2), *slow((40, 1), (65_536, 8))])
def test_a_start_in_the_middle_goes_on_with_the_same_rows(window, interleaved, order):
    settings = {"window": window, "interleaved": interleaved}
    whole = joined(order(5, 1, **settings))
    for skip in (1, 7, 40, 41, 80, 81, 120):
        assert joined(order(5, 1, skip, **settings)) == whole[skip:]


def test_in_order_rows_come_by_their_numbers_from_any_place(paths):
    rows = ShardedRecords(paths, FIRST_NUMBERS, COUNTS, 0)
    for skip in (0, 39, 40, 80, 120):
        given = [number for number, _ in rows.in_order(tf.constant(skip, tf.int64)).as_numpy_iterator()]
        assert given == NUMBERS[skip:]


def test_shards_that_lie_before_are_not_opened(paths):
    rows = ShardedRecords(["missing", *paths[1:]], FIRST_NUMBERS, COUNTS, 0)
    given = [number for number, _ in rows.in_order(tf.constant(40, tf.int64)).as_numpy_iterator()]
    assert given == NUMBERS[40:]
