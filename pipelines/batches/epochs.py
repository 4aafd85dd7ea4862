"""The order of batches over several epochs, starting at any batch."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from bert_keras.checks import check_integer
from bert_keras.errors import InputError


@dataclasses.dataclass(frozen=True)
class Epochs:
    """Several passes over the same examples, starting at any batch.

    Args:
        batches_per_epoch: number of batches in an epoch.
        num_epochs: number of epochs; None: endless.
        first_batch: index of the first batch to read, counted from 0 over all epochs; earlier batches are skipped.

    Raises:
        InputError: `num_epochs` is below 1, or `first_batch` is after the last batch.
    """

    batches_per_epoch: int
    num_epochs: int | None = 1
    first_batch: int = 0

    def __post_init__(self) -> None:
        if self.num_epochs is not None:
            check_integer("epochs", self.num_epochs)
        if self.first_batch < 0 or (self.num_epochs is not None and self.first_batch >= self._total):
            allowed = "0 or more" if self.num_epochs is None else f"0 to {self._total - 1}, the last of all epochs"
            raise InputError(f"first_batch is {self.first_batch}; expected {allowed}")

    @property
    def num_batches(self) -> int:
        """Number of batches from `first_batch` on; `tf.data.INFINITE_CARDINALITY` for endless epochs."""
        return tf.data.INFINITE_CARDINALITY if self.num_epochs is None else self._total - self.first_batch

    def read(self, read_epoch: Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]) -> tf.data.Dataset:
        """Return the elements of `read_epoch(epoch, number of batches to skip)` of all epochs; both are int64."""
        first_epoch, num_skipped = divmod(self.first_batch, self.batches_per_epoch)
        if self.num_epochs is None:
            epochs = tf.data.Dataset.counter(first_epoch)
        else:
            epochs = tf.data.Dataset.range(first_epoch, self.num_epochs)
        skip = tf.constant(num_skipped, tf.int64)
        return epochs.flat_map(lambda epoch: read_epoch(epoch, tf.where(epoch == first_epoch, skip, 0)))

    @property
    def _total(self) -> int:
        return self.batches_per_epoch * self.num_epochs
