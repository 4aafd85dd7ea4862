"""The batches to read: over several epochs from any batch on, and the part of each batch that one worker reads.

The order of an epoch, and everything else that is random, depends only on the seeds of each example. A hash in plain
integer ops draws the numbers of a whole batch at once: masking 128 x 256 tokens takes 4 ms on two cores.
`tf.random.stateless_uniform` accepts one seed per call, so it would need one call per example.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from bert_keras.checks import check_integer
from bert_keras.errors import InputError

_GOLDEN_GAMMA = 0x9E3779B97F4A7C15  # SplitMix64 (Steele et al. 2014): its step and its two multipliers
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MAX_SEED = 2**31 - 1


def check_seed(seed: int) -> None:
    """Raise `InputError` unless `seed` is an integer from 0 to 2**31 - 1."""
    check_integer("seed", seed, 0, _MAX_SEED)


def make_example_seeds(seed: int, epoch: tf.Tensor | int, example_indices: tf.Tensor) -> tf.Tensor:
    """Return the seeds `(B, 2)` int64 of B examples, distinct for every seed, epoch and example.

    Args:
        seed: from 0 to 2**31 - 1.
        epoch: integer scalar from 0 to 2**32 - 1.
        example_indices: `(B,)` integers, the indices of the examples in their data set.
    """
    check_seed(seed)
    indices = tf.cast(example_indices, tf.int64)
    run = tf.constant(seed, tf.int64) * 2**32 + tf.cast(epoch, tf.int64)
    return tf.stack([tf.fill(tf.shape(indices), run), indices], axis=1)


def uniform(seeds: tf.Tensor, draw: int, length: tf.Tensor | int) -> tf.Tensor:
    """Return `(B, length)` float32 in [0, 1). Each has 24 random bits, as many as float32 holds."""
    return uniform_at(seeds, draw, tf.range(length)[tf.newaxis])


def uniform_at(seeds: tf.Tensor, draw: int, positions: tf.Tensor) -> tf.Tensor:
    """Return the values of `uniform` at `positions`, `(B, n)` integers from 0: `(B, n)` float32."""
    bits = tf.bitwise.right_shift(random_bits_at(seeds, draw, positions), tf.constant(63 - 24, tf.int64))
    return tf.cast(bits, tf.float32) * 2.0**-24


def draw_order(seed: int, epoch: tf.Tensor, example_indices: tf.Tensor, draw: int) -> tf.Tensor:
    """Return B examples in the random order of an epoch, as positions in `example_indices`: `(B,)` int32."""
    bits = random_bits_at(make_example_seeds(seed, epoch, example_indices), draw, tf.constant([[0]]))
    return tf.argsort(bits[:, 0])


def random_bits_at(seeds: tf.Tensor, draw: int, positions: tf.Tensor) -> tf.Tensor:
    """Return `(B, n)` int64 of 63 random bits each: a hash of the example's seeds, the draw and the position.

    Args:
        seeds: `(B, 2)` integers.
        draw: number of the draw; an example's draws are independent of each other.
        positions: `(B, n)` or `(1, n)` integers from 0.
    """
    seeds = tf.cast(seeds, tf.uint64)  # (B, 2)
    state = _mix(_mix(seeds[:, 0]) ^ seeds[:, 1])
    state = _mix(state ^ tf.constant(draw, tf.uint64))
    counters = tf.cast(positions + 1, tf.uint64) * tf.constant(_GOLDEN_GAMMA, tf.uint64)
    return tf.cast(_shift(_mix(state[:, tf.newaxis] + counters), 1), tf.int64)


def _mix(state: tf.Tensor) -> tf.Tensor:
    """Finalizer of SplitMix64: every bit of the result depends on every bit of `state`."""
    for bits, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        state = (state ^ _shift(state, bits)) * tf.constant(multiplier, tf.uint64)
    return state ^ _shift(state, 31)


def _shift(state: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.right_shift(state, tf.constant(bits, tf.uint64))


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
