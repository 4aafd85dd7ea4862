"""Which rows of each batch one worker reads, where several train together."""

import dataclasses

from bert_keras.errors import InputError


@dataclasses.dataclass(frozen=True)
class BatchShare:
    """A worker's part of every batch, and how its replicas divide it.

    Replica r of worker w reads the rows from (w * R + r) * B / (W * R) on, so that together they read the batch of a
    single device in its order, whatever the number of workers: nothing twice, nothing left out.

    Args:
        num_workers: W, the workers that train together.
        worker: w, this one, from 0.
        num_replicas: R, the replicas of each worker; each takes an element of the dataset.

    Raises:
        InputError: a number is out of range.
    """

    num_workers: int = 1
    worker: int = 0
    num_replicas: int = 1

    def __post_init__(self):
        if self.num_workers < 1 or self.num_replicas < 1 or not 0 <= self.worker < self.num_workers:
            raise InputError(
                f"worker {self.worker} of {self.num_workers} with {self.num_replicas} replicas was asked for; expected "
                "one replica or more, and workers counted from 0"
            )

    def sequences_per_replica(self, batch_size: int) -> int:
        """Returns the rows of a batch that each replica computes.

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
        """Returns this worker's rows of a batch."""
        rows = self.sequences_per_replica(batch_size) * self.num_replicas
        return slice(self.worker * rows, (self.worker + 1) * rows)


WHOLE_BATCH = BatchShare()
