"""`SequenceQueue`: forms batches of similar length from the sequences of many jobs, fairly.

Jobs with one text must not wait for a job with ten thousand. Each sequence gets a number that grows with the tokens of
its job, and batches begin with the lowest number (start-time fair queueing, Goyal et al. 1996): a new job starts at the
number that is served now, whatever others have queued.
"""

import heapq
import itertools
import math
from collections.abc import Iterator
from typing import Protocol


class QueuedJob(Protocol):
    """What the queue needs to know of a job."""

    lengths: list[int]  # tokens of each sequence
    is_wanted: bool  # False: its sequences are dropped
    is_whole: bool  # whether its sequences are a batch of their own


class SequenceQueue:
    """The sequences that wait for an instance of the engine. Not thread-safe.

    Args:
        tokens_per_batch: the largest number of tokens of a batch, including padding.
        shortest_share: a batch has no sequence shorter than this share of its longest one; 0: any.
    """

    def __init__(self, tokens_per_batch: int, shortest_share: float):
        self._tokens_per_batch = tokens_per_batch
        self._ratio = -math.log(shortest_share) if shortest_share else math.inf  # of lengths in a bucket, as logarithm
        self._buckets: dict[int, list[tuple[float, int, QueuedJob, int, int]]] = {}  # heaps
        self._order = itertools.count()
        self._now = 0.0  # the number of the sequence that was taken last

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def add(self, job: QueuedJob) -> None:
        """Add all sequences of a job."""
        number = self._now
        if job.is_whole:
            self._push(number, job, 0, max(job.lengths) * len(job.lengths), bucket=-1)
            return
        for index, length in enumerate(job.lengths):
            self._push(number, job, index, length, bucket=int(math.log(length) / self._ratio))
            number += length

    def take_batch(self) -> list[tuple[QueuedJob, int]]:
        """Remove and return the sequences of the next batch as (job, index); empty if nobody wants any."""
        while self._buckets:
            bucket = min(self._buckets, key=lambda key: self._buckets[key][0][:2])
            if batch := list(self._take_from(bucket)):
                return batch
        return []

    def _push(self, number: float, job: QueuedJob, index: int, length: int, bucket: int) -> None:
        entry = (number, next(self._order), job, index, length)
        heapq.heappush(self._buckets.setdefault(bucket, []), entry)

    def _take_from(self, bucket: int) -> Iterator[tuple[QueuedJob, int]]:
        """Remove and yield the sequences of a batch from one bucket; nothing if all of its jobs were cancelled."""
        entries, longest, number_taken = self._buckets[bucket], 0, 0
        while entries:
            number, _, job, index, length = entries[0]
            if job.is_wanted:
                longest = max(longest, length)
                if number_taken and ((number_taken + 1) * longest > self._tokens_per_batch or job.is_whole):
                    return
                number_taken += 1
                self._now = max(self._now, number)
                heapq.heappop(entries)
                yield job, index
            else:
                heapq.heappop(entries)
        del self._buckets[bucket]
