"""The batches to read: over several epochs from any batch on, and the part of each batch that one worker reads."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from bert_keras.checks import check_integer
from bert_keras.errors import InputError


@dataclasses.dataclass(frozen=True)
class BatchShare:
    """A worker's share of every batch, and how its replicas divide it.

    Replica r of worker w gets the `B / (W * R)` sequences that start at `(w * R + r) * B / (W * R)`. Together the
    replicas read exactly the batch of a single device, in its order, for any number of workers.

    Args:
        num_workers: W, the number of workers that train together.
        worker: w, the index of this worker.
        num_replicas: R, the number of replicas per worker; each gets one element of the dataset.

    Raises:
        InputError: a number is out of range.
    """

    num_workers: int = 1
    worker: int = 0
    num_replicas: int = 1

    def __post_init__(self) -> None:
        if self.num_workers < 1 or self.num_replicas < 1 or not 0 <= self.worker < self.num_workers:
            raise InputError(
                f"the share is worker {self.worker} of {self.num_workers} with {self.num_replicas} replicas; expected "
                "at least one replica, and a worker index from 0 to the number of workers minus 1"
            )

    def sequences_per_replica(self, batch_size: int) -> int:
        """Return the number of sequences of a batch that each replica gets.

        Raises:
            InputError: the batch cannot be divided evenly.
        """
        total = self.num_workers * self.num_replicas
        if batch_size % total:
            raise InputError(
                f"batch_size {batch_size} cannot be divided among {total} replicas: make it a multiple of {total}"
            )
        return batch_size // total

    def worker_slice(self, batch_size: int) -> slice:
        """Return the slice of a batch that this worker gets."""
        per_worker = self.sequences_per_replica(batch_size) * self.num_replicas
        return slice(self.worker * per_worker, (self.worker + 1) * per_worker)


WHOLE_BATCH = BatchShare()


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
