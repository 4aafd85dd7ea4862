"""Order in which records are read: new in each epoch, reproducible from the seed, starting anywhere."""

from collections.abc import Sequence

import tensorflow as tf

from bert_keras.pipelines.batches.seeds import make_example_seeds, random_bits

_NUM_INTERLEAVED = 8  # shards read in turn, one record of each
_SHUFFLE_WINDOW = 65_536  # records shuffled together: 15-30 MB of 128 tokens each; three windows are in memory
_SHARD_ORDER, _RECORD_ORDER = 5, 6  # draws of an example; masking has 0 to 4


class ShardedRecords:
    """The records of a split, numbered through all shards of the folder.

    Args:
        paths: the shards of the split.
        first_numbers: the number of each shard's first record.
        counts: the number of records in each shard.
        seed: determines the order of every epoch.
    """

    def __init__(self, paths: Sequence[str], first_numbers: Sequence[int], counts: Sequence[int], seed: int):
        self._paths = tf.constant(list(paths), tf.string)
        self._first_numbers = tf.constant(list(first_numbers), tf.int64)
        self._counts = tf.constant(list(counts), tf.int64)
        self._seed = seed

    def in_order(self, skip: tf.Tensor) -> tf.data.Dataset:
        """Return `(number, serialized record)` of all records after the first `skip`, shard by shard."""
        return self._read(tf.range(tf.size(self._counts)), 1, skip)

    def shuffled(self, epoch: tf.Tensor, skip: tf.Tensor) -> tf.data.Dataset:
        """Return batches of any size of `(number, serialized record)`: the order of `epoch` without the first `skip`.

        Shards are read in a random order, several at a time; their records are then shuffled window by window.
        `Dataset.shuffle` is not used: a global random seed would change its order, and it cannot start in the middle.
        """
        shards = tf.range(tf.size(self._counts, tf.int64))
        order = tf.argsort(self._draw_keys(epoch, shards, _SHARD_ORDER))
        first_of_window = skip // _SHUFFLE_WINDOW * _SHUFFLE_WINDOW
        windows = self._read(order, _NUM_INTERLEAVED, first_of_window).batch(_SHUFFLE_WINDOW)

        def reorder(window: tf.Tensor, records: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
            numbers, serialized = records
            order = tf.argsort(self._draw_keys(epoch, numbers, _RECORD_ORDER))
            order = order[tf.where(window == 0, skip % _SHUFFLE_WINDOW, 0) :]
            return tf.gather(numbers, order), tf.gather(serialized, order)

        return windows.enumerate().map(reorder).prefetch(1)

    def _draw_keys(self, epoch: tf.Tensor, numbers: tf.Tensor, draw: int) -> tf.Tensor:
        return random_bits(make_example_seeds(self._seed, epoch, numbers), draw, 1)[:, 0]

    def _read(self, order: tf.Tensor, num_interleaved: int, skip: tf.Tensor) -> tf.data.Dataset:
        """Return the records of the shards in `order`, `num_interleaved` shards at a time, without the first `skip`.

        Groups of shards that lie entirely in the skipped part are not opened, so at most one group is read in vain.
        """
        paths, first_numbers, counts = (tf.gather(x, order) for x in (self._paths, self._first_numbers, self._counts))
        group_ends = tf.cumsum(counts)[num_interleaved - 1 :: num_interleaved]
        num_skipped_groups = tf.reduce_sum(tf.cast(group_ends <= skip, tf.int64))
        num_skipped_records = tf.reduce_max(tf.where(group_ends <= skip, group_ends, 0), axis=0)
        shards = tf.data.Dataset.from_tensor_slices((paths, first_numbers)).skip(num_skipped_groups * num_interleaved)

        def read_group(paths: tf.Tensor, first_numbers: tf.Tensor) -> tf.data.Dataset:
            group = tf.data.Dataset.from_tensor_slices((paths, first_numbers))
            return group.interleave(_read_shard, cycle_length=num_interleaved, block_length=1)

        # the maximum over no group at all is the smallest int64
        return shards.batch(num_interleaved).flat_map(read_group).skip(skip - tf.maximum(num_skipped_records, 0))


def _read_shard(path: tf.Tensor, first_number: tf.Tensor) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(path).enumerate(first_number)
