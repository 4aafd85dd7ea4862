"""The order in which the rows of records are read: new in each epoch, the same for the same seed, from any place on."""

from collections.abc import Sequence

import tensorflow as tf

from bert_keras.pipelines.batches.seeds import example_seeds, random_bits

_NUM_INTERLEAVED = 8  # shards that are read side by side, a row of each in turn
_WINDOW = 65_536  # rows shuffled among themselves: 15-30 MB of rows of 128, and three windows in memory at a time
_SHARD_ORDER, _ROW_ORDER = 5, 6  # draws of an example; masking has 0 to 4


class ShardedRecords:
    """The rows of a split, numbered through all shards of the records.

    Args:
        paths: the split's shards.
        first_numbers: the number of each shard's first row.
        counts: the rows of each shard.
        seed: decides the order of every epoch.
    """

    def __init__(self, paths: Sequence[str], first_numbers: Sequence[int], counts: Sequence[int], seed: int):
        self._paths = tf.constant(list(paths), tf.string)
        self._first_numbers = tf.constant(list(first_numbers), tf.int64)
        self._counts = tf.constant(list(counts), tf.int64)
        self._seed = seed

    def in_order(self, skip) -> tf.data.Dataset:
        """Returns (number, serialized row) of all rows but the first `skip`, shard after shard."""
        return self._read(tf.range(tf.size(self._counts)), 1, skip)

    def shuffled(self, epoch, skip) -> tf.data.Dataset:
        """Returns batches of any size of (number, serialized row), in the order of `epoch`, without the first `skip`.

        Shards come in a random order and are read several at a time; then rows are shuffled window by window.
        `Dataset.shuffle` would let a global random seed change the order, and could not start in its middle.
        """
        shards = tf.range(tf.size(self._counts, tf.int64))
        order = tf.argsort(self._keys(epoch, shards, _SHARD_ORDER))
        windows = self._read(order, _NUM_INTERLEAVED, skip // _WINDOW * _WINDOW).batch(_WINDOW)

        def reorder(window, rows):
            numbers, serialized = rows
            order = tf.argsort(self._keys(epoch, numbers, _ROW_ORDER))
            order = order[tf.where(window == 0, skip % _WINDOW, 0) :]
            return tf.gather(numbers, order), tf.gather(serialized, order)

        return windows.enumerate().map(reorder).prefetch(1)

    def _keys(self, epoch, numbers: tf.Tensor, draw: int) -> tf.Tensor:
        return random_bits(example_seeds(self._seed, epoch, numbers), draw, 1)[:, 0]

    def _read(self, order: tf.Tensor, num_interleaved: int, skip) -> tf.data.Dataset:
        """Returns the rows of the shards in `order`, so many at a time, without the first `skip`.

        Groups of shards that lie before are not opened, so to start in the middle takes reading one group at most.
        """
        paths, first_numbers, counts = (tf.gather(x, order) for x in (self._paths, self._first_numbers, self._counts))
        group_ends = tf.cumsum(counts)[num_interleaved - 1 :: num_interleaved]
        num_before = tf.reduce_sum(tf.cast(group_ends <= skip, tf.int64))  # groups
        rows_before = tf.reduce_max(tf.where(group_ends <= skip, group_ends, 0), axis=0)
        shards = tf.data.Dataset.from_tensor_slices((paths, first_numbers)).skip(num_before * num_interleaved)

        def read_group(paths, first_numbers):
            group = tf.data.Dataset.from_tensor_slices((paths, first_numbers))
            return group.interleave(_numbered, cycle_length=num_interleaved, block_length=1)

        return shards.batch(num_interleaved).flat_map(read_group).skip(skip - tf.maximum(rows_before, 0))


def _numbered(path: tf.Tensor, first_number: tf.Tensor) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(path).enumerate(first_number)
