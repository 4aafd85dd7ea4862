"""`JobRunner`: runs jobs on the instances of an engine, in batches of tokens across jobs."""

import collections
import contextlib
import dataclasses
import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from bert_keras.engines.predictor import Predictor
from bert_keras.engines.sequence_runner import SequenceRunner
from bert_keras.errors import InputError
from bert_keras.features import FEATURES, to_huggingface_names
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.serving.worker.answering import Answering, EncodedJob, TooLongError, describe_tokens
from bert_keras.serving.worker.jobs import EXPIRED, FAILED, IDS, INVALID, OK, TOKENS, TOO_LONG, Job, Result, Timings

_MAX_JOBS_AT_ONCE = 64  # tokenized together; more would delay the first of them
_OUR_NAMES = {feature.huggingface_name: name for name, feature in FEATURES.items() if feature.huggingface_name}


@dataclasses.dataclass(eq=False)
class _RunningJob:
    """A job between its tokenization and its result.

    Attributes:
        job: the job.
        encoded: its sequences; None for token ids.
        lengths: tokens of each sequence, including special tokens.
        arrived: when it arrived, of `time.monotonic`.
        tokenization: seconds that its tokenization took.
        started: when its first batch began; None: none has.
        compute, batch_tokens: see `Timings`.
        is_wanted: whether its client waits for the result.
        parts: the outputs of each sequence that was computed, keyed by its index.
    """

    job: Job
    encoded: EncodedJob | None
    lengths: list[int]
    arrived: float
    tokenization: float
    started: float | None = None
    compute: float = 0.0
    batch_tokens: int = 0
    is_wanted: bool = True
    parts: dict[int, dict[str, np.ndarray]] = dataclasses.field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether the job is a batch of its own."""
        return self.encoded is None

    def get_sequence(self, index: int) -> EncodedSequences:
        """Return one of its sequences."""
        sequences = self.encoded.sequences
        return sequences if len(sequences) == 1 else sequences.slice(index, index + 1)


_Batch = Sequence[tuple[_RunningJob, int]]  # sequences, each as a job and an index
_Outputs = Mapping[str, np.ndarray]


class SequenceQueue:
    """The sequences that wait for an instance of the engine: forms batches of similar length, fairly. Not thread-safe.

    Jobs with one text must not wait for a job with ten thousand. Each sequence gets a number that grows with the tokens
    of its job, and batches begin with the lowest number (start-time fair queueing, Goyal et al. 1996): a new job starts
    at the number that is served now, whatever others have queued. It drops the sequences of jobs that nobody wants.

    Args:
        tokens_per_batch: the largest number of tokens of a batch, including padding.
        shortest_share: a batch has no sequence shorter than this share of its longest one; 0: any.
    """

    def __init__(self, tokens_per_batch: int, shortest_share: float):
        self._tokens_per_batch = tokens_per_batch
        self._ratio = -math.log(shortest_share) if shortest_share else math.inf  # of lengths in a bucket, as logarithm
        self._buckets: dict[int, list[tuple[float, int, _RunningJob, int, int]]] = {}  # heaps
        self._order = itertools.count()
        self._now = 0.0  # the number of the sequence that was taken last

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def add(self, job: _RunningJob) -> None:
        """Add all sequences of a job."""
        number = self._now
        if job.is_whole:
            self._push(number, job, 0, max(job.lengths) * len(job.lengths), bucket=-1)
            return
        for index, length in enumerate(job.lengths):
            self._push(number, job, index, length, bucket=int(math.log(length) / self._ratio))
            number += length

    def take_batch(self) -> list[tuple[_RunningJob, int]]:
        """Remove and return the sequences of the next batch as (job, index); empty if nobody wants any."""
        while self._buckets:
            bucket = min(self._buckets, key=lambda key: self._buckets[key][0][:2])
            if batch := list(self._take_from(bucket)):
                return batch
        return []

    def _push(self, number: float, job: _RunningJob, index: int, length: int, bucket: int) -> None:
        entry = (number, next(self._order), job, index, length)
        heapq.heappush(self._buckets.setdefault(bucket, []), entry)

    def _take_from(self, bucket: int) -> Iterator[tuple[_RunningJob, int]]:
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


class JobRunner:
    """Run jobs on as many threads as the engine has instances.

    A thread without work takes the jobs that have arrived, tokenizes them, and then runs batches of their sequences.
    Nothing waits for a batch to fill: jobs that arrive while all instances are busy form the next ones.

    Args:
        predictor: the model.
        send: called with results, by any thread.
    """

    def __init__(self, predictor: Predictor, send: Callable[[list[Result]], None]):
        self._predictor, self._engine, self._send = predictor, predictor.engine, send
        self._answering = Answering(predictor)
        self._run = SequenceRunner(self._engine, is_token_level=predictor.task.is_token_level)
        self._queue = SequenceQueue(self._engine.tokens_per_batch, self._engine.shortest_share)
        self._arrived: collections.deque[tuple[Job, float]] = collections.deque()
        self._running: dict[int, _RunningJob] = {}  # keyed by the job's id
        self._cancelled: set[int] = set()  # jobs that are not tokenized yet
        self._has_work = threading.Condition()
        for number in range(self._engine.num_instances):
            threading.Thread(target=self._work, name=f"instance {number}", daemon=True).start()

    def submit(self, job: Job) -> None:
        """Add a job."""
        with self._has_work:
            self._arrived.append((job, time.monotonic()))
            self._has_work.notify()

    def cancel(self, job_id: int) -> None:
        """Drop a job, unless it is finished. It has no result."""
        with self._has_work:
            running = self._running.pop(job_id, None)
            if running is not None:
                running.is_wanted = False
            elif any(job.id == job_id for job, _ in self._arrived):
                self._cancelled.add(job_id)

    def _work(self) -> None:
        while True:
            with self._has_work:
                while not self._arrived and not self._queue:
                    self._has_work.wait()
                arrived = [self._arrived.popleft() for _ in range(min(len(self._arrived), _MAX_JOBS_AT_ONCE))]
                batch = [] if arrived else self._take_batch()
            if arrived:
                self._tokenize(arrived)
            elif batch:
                self._run_batch(batch)

    def _take_batch(self) -> _Batch:
        """Take the next batch from the queue; report jobs whose deadline has passed instead of running them."""
        now, expired = time.monotonic(), []
        batch = self._queue.take_batch()
        for running, _ in batch:
            if running.is_wanted and running.job.deadline < now:
                running.is_wanted = False
                expired.append(self._finish(running, EXPIRED, "the deadline passed before the model was free", now))
            elif running.started is None:
                running.started = now
        if expired:
            self._send(expired)
        return [(running, index) for running, index in batch if running.is_wanted]

    def _tokenize(self, arrived: Sequence[tuple[Job, float]]) -> None:
        """Tokenize jobs and queue their sequences; send the results of those that need no model."""
        begin = time.monotonic()
        results, jobs, waiting = [], [], []
        for job, arrival in arrived:
            if job.id in self._cancelled:
                self._cancelled.discard(job.id)
            elif job.kind == IDS:
                lengths = [job.inputs["input_ids"].shape[1]] * len(job.inputs["input_ids"])
                waiting.append(_RunningJob(job, None, lengths, arrival, 0.0))
            elif job.kind == TOKENS:
                results.append(self._describe_tokens(job))
            else:
                jobs.append((job, arrival))
        try:
            encoded = self._answering.encode([job for job, _ in jobs])
        except Exception as error:  # a worker must survive any request
            encoded = [error] * len(jobs)
        seconds = time.monotonic() - begin
        for (job, arrival), result in zip(jobs, encoded, strict=True):
            if isinstance(result, Exception):
                results.append(_make_error(job.id, result, Timings(tokenization=seconds)))
            else:
                running = _RunningJob(job, result, result.sequences.lengths.tolist(), arrival, seconds)
                waiting.append(running)
        empty = [running for running in waiting if not running.lengths]
        with self._has_work:
            for running in waiting:
                self._running[running.job.id] = running
                if running.lengths:
                    self._queue.add(running)
            if sum(len(running.lengths) for running in waiting) > 1:  # enough for other instances too
                self._has_work.notify_all()
        results += [self._decode(running, {}) for running in empty]
        if results:
            self._send(results)

    def _run_batch(self, batch: _Batch) -> None:
        """Run a batch and send the results of the jobs that are complete."""
        begin = time.monotonic()
        jobs = list(dict.fromkeys(running for running, _ in batch))
        try:
            if batch[0][0].is_whole:
                self._send([self._run_ids(batch[0][0], begin)])
                return
            sequences = EncodedSequences.concatenate([running.get_sequence(index) for running, index in batch])
            outputs = self._run(sequences)
        except Exception as error:  # a worker must survive any request
            if len(jobs) > 1:  # a job that fails must not fail the others
                for job in jobs:
                    self._run_batch([(running, index) for running, index in batch if running is job])
            elif jobs[0].is_wanted:
                self._send([self._fail(jobs[0], error)])
            return
        self._share(batch, sequences, outputs, time.monotonic() - begin)
        self._send_complete(jobs, batch, sequences, outputs)

    def _share(self, batch: _Batch, sequences: EncodedSequences, outputs: _Outputs, seconds: float) -> None:
        """Give the outputs of a batch and, by tokens, its time to its jobs."""
        batch_tokens = len(batch) * int(sequences.lengths.max())
        share = seconds / len(sequences.token_ids)
        splits = sequences.row_splits if self._predictor.task.is_token_level else np.arange(len(batch) + 1)
        for place, (running, index) in enumerate(batch):
            running.compute += share * running.lengths[index]
            running.batch_tokens = batch_tokens
            rows = slice(splits[place], splits[place + 1])
            running.parts[index] = {name: values[rows] for name, values in outputs.items()}

    def _send_complete(
        self, jobs: Sequence[_RunningJob], batch: _Batch, sequences: EncodedSequences, outputs: _Outputs
    ) -> None:
        """Send the results of the jobs of a batch that are complete."""
        complete = [running for running in jobs if running.is_wanted and len(running.parts) == len(running.lengths)]
        plain = [running for running in complete if self._answering.is_plain(running.job, running.encoded)]
        results: list[Result] = []
        if len(plain) == len(batch) > 1:
            # a job that fails must not fail all: then each is decoded alone, and reports its own error
            with contextlib.suppress(Exception):
                pairs = [(running.job, running.encoded) for running in plain]
                values = self._answering.decode_together(pairs, sequences, outputs)
                now = time.monotonic()
                results = [self._finish(running, OK, value, now) for running, value in zip(plain, values, strict=True)]
        self._send(results or [self._decode(running, _join_parts(running)) for running in complete])

    def _run_ids(self, running: _RunningJob, begin: float) -> Result:
        """Run the model on the token ids of a job, in batches that keep its order."""
        inputs = {_OUR_NAMES[name]: values for name, values in running.job.inputs.items()}
        num_rows, length = inputs["token_ids"].shape
        step = max(1, self._engine.tokens_per_batch // max(1, length))
        parts = [
            self._engine.run({name: values[start : start + step] for name, values in inputs.items()})
            for start in range(0, num_rows, step)
        ]
        outputs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for values in outputs.values():
            self._engine.check_finite(values)
        now = time.monotonic()
        running.compute, running.batch_tokens = now - begin, min(step, num_rows) * length
        return self._finish(running, OK, to_huggingface_names(outputs), now)

    def _describe_tokens(self, job: Job) -> Result:
        try:
            return Result(job.id, OK, describe_tokens(self._predictor.tokenizer, job.inputs, **job.options), Timings())
        except Exception as error:  # a worker must survive any request
            return _make_error(job.id, error, Timings())

    def _decode(self, running: _RunningJob, outputs: _Outputs) -> Result:
        try:
            value = self._answering.decode(running.job, running.encoded, outputs) if running.lengths else []
        except Exception as error:  # a worker must survive any request
            return self._fail(running, error)
        return self._finish(running, OK, value, time.monotonic())

    def _fail(self, running: _RunningJob, error: Exception) -> Result:
        with self._has_work:
            running.is_wanted = False  # its other sequences are dropped
        return self._finish(running, FAILED, _describe_failure(error), time.monotonic())

    def _finish(self, running: _RunningJob, status: str, value: object, now: float) -> Result:
        self._running.pop(running.job.id, None)
        started = now if running.started is None else running.started
        num_tokens = sum(running.lengths)
        timings = Timings(
            queue=max(0.0, started - running.arrived - running.tokenization),
            tokenization=running.tokenization,
            inference=now - started,
            compute=running.compute,
            num_tokens=num_tokens,
            batch_tokens=max(running.batch_tokens, num_tokens),
        )
        return Result(running.job.id, status, value, timings)


def _join_parts(running: _RunningJob) -> dict[str, np.ndarray]:
    """Return the outputs of all sequences of a job, in their order."""
    parts = [running.parts[index] for index in range(len(running.lengths))]
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _make_error(job_id: int, error: Exception, timings: Timings) -> Result:
    """Return the result of a job that cannot be run; an error of ours is a sentence for the client."""
    status = TOO_LONG if isinstance(error, TooLongError) else INVALID if isinstance(error, InputError) else FAILED
    return Result(job_id, status, _describe_failure(error), timings)


def _describe_failure(error: Exception) -> str:
    """Return a sentence for what an engine or our own code raised."""
    return str(error) if isinstance(error, InputError) else f"the model failed ({type(error).__name__}: {error})"
