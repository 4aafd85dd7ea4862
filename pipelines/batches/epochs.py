"""Which batch of which epoch comes next, for readers that can begin anywhere."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from bert_keras.checks import check_integer
from bert_keras.errors import InputError


@dataclasses.dataclass(frozen=True)
class Epochs:
    """Passes over the same examples, begun at any batch.

    Args:
        batches_per_epoch: batches of each epoch.
        num_epochs: how many epochs there are; `None`: without end.
        first_batch: begin with this batch, counted from 0 over all epochs, as if those before had been read.

    Raises:
        InputError: a number of epochs below 1, or a first batch after the last one.
    """

    batches_per_epoch: int
    num_epochs: int | None = 1
    first_batch: int = 0

    def __post_init__(self):
        if self.num_epochs is not None:
            check_integer("epochs", self.num_epochs)
        if self.first_batch < 0 or (self.num_epochs is not None and self.first_batch >= self._num_all):
            allowed = "0 or more" if self.num_epochs is None else f"0 to {self._num_all - 1}, the last of all epochs"
            raise InputError(f"first_batch is {self.first_batch}; expected {allowed}")

    @property
    def num_batches(self) -> int:
        """Batches from the first on; `tf.data.INFINITE_CARDINALITY` where there is no end."""
        return tf.data.INFINITE_CARDINALITY if self.num_epochs is None else self._num_all - self.first_batch

    def read(self, batches_of: Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]) -> tf.data.Dataset:
        """Returns the elements of `batches_of(epoch, batches to pass over)`, two int64 scalars, epoch after epoch."""
        first_epoch, first_of_epoch = divmod(self.first_batch, self.batches_per_epoch)
        if self.num_epochs is None:
            numbers = tf.data.Dataset.counter(first_epoch)
        else:
            numbers = tf.data.Dataset.range(first_epoch, self.num_epochs)
        passed_over = tf.constant(first_of_epoch, tf.int64)
        return numbers.flat_map(lambda epoch: batches_of(epoch, tf.where(epoch == first_epoch, passed_over, 0)))

    @property
    def _num_all(self) -> int:
        return self.batches_per_epoch * self.num_epochs
