"""The part of each batch that one worker reads when several train together."""

import dataclasses

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
