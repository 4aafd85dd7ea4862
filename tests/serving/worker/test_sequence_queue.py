"""`SequenceQueue`: batches of similar length within a number of tokens, and turns for all jobs."""

import dataclasses
import random

import pytest

from bert_keras.serving.worker.job_runner import SequenceQueue


@dataclasses.dataclass(eq=False)
class Job:
    lengths: list[int]
    is_wanted: bool = True
    is_whole: bool = False


def take_all(queue):
    """Return all batches as lists of (job, index)."""
    batches = []
    while batch := queue.take_batch():
        batches.append(batch)
    return batches


@pytest.mark.parametrize("share", [0.0, 0.5, 0.75])
def test_batches_hold_each_sequence_once_within_the_limits(share):
    rng, queue = random.Random(3), SequenceQueue(100, share)
    jobs = [Job([rng.randint(2, 40) for _ in range(rng.randint(1, 9))]) for _ in range(50)]
    for job in jobs:
        queue.add(job)
    batches = take_all(queue)
    assert sorted((id(job), index) for batch in batches for job, index in batch) == sorted(
        (id(job), index) for job in jobs for index in range(len(job.lengths))
    )
    for batch in batches:
        lengths = [job.lengths[index] for job, index in batch]
        assert len(batch) == 1 or len(batch) * max(lengths) <= 100
        assert min(lengths) >= share * max(lengths) - 1e-9
    assert not queue
    assert len(batches) < sum(len(job.lengths) for job in jobs) / 2, "sequences must share batches"


def test_a_new_job_is_served_before_the_rest_of_a_large_one():
    queue = SequenceQueue(40, 0.75)
    large = Job([10] * 1000)
    queue.add(large)
    queue.take_batch()
    small = Job([10])
    queue.add(small)
    assert (small, 0) in queue.take_batch()


def test_jobs_with_equal_claims_take_turns():
    queue, jobs = SequenceQueue(10, 0.0), [Job([10] * 5), Job([10] * 5)]
    for job in jobs:
        queue.add(job)
    order = [job for batch in take_all(queue) for job, _ in batch]
    assert all(order[place] is not order[place + 1] for place in range(0, 10, 2))


def test_sequences_of_dropped_jobs_are_not_returned():
    queue, dropped, kept = SequenceQueue(100, 0.75), Job([5] * 30), Job([50])
    queue.add(dropped)
    queue.add(kept)
    dropped.is_wanted = False
    assert take_all(queue) == [[(kept, 0)]]
    queue.add(dropped)
    assert queue.take_batch() == []
    assert not queue


def test_a_whole_job_is_a_batch_of_its_own():
    queue = SequenceQueue(10, 0.75)
    jobs = [Job([20, 20], is_whole=True), Job([20, 20], is_whole=True), Job([3])]
    for job in jobs:
        queue.add(job)
    batches = [[job for job, _ in batch] for batch in take_all(queue)]
    assert all([job] in batches for job in jobs)
    assert len(batches) == 3
