"""`ServedVersion`: a version of a model that answers, whatever happens to its worker process."""

import asyncio
import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

from bert_keras.errors import InputError
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.models.worker_client import WorkerClient
from bert_keras.serving.worker.jobs import EXPIRED, INVALID, OK, TOO_LONG, Cancellation, Job, Result
from bert_keras.serving.worker.model_source import ModelSource

_MAX_ATTEMPTS = 2  # a job that ends two processes is not tried again
_LONGEST_PAUSE = 30.0  # seconds between two starts
_SWEEP_SECONDS = 0.25
_REASONS = {INVALID: Reason.INVALID, TOO_LONG: Reason.TOO_LARGE, EXPIRED: Reason.EXPIRED}
_MISSED_SECONDS = 0.5  # that a worker has to report an expired job itself


@dataclasses.dataclass(eq=False, slots=True)
class _Pending:
    job: Job
    future: asyncio.Future
    attempts: int = 1


class ServedVersion:
    """A version of a model and its worker process.

    If the process ends, another one is started, and the jobs that it had are sent to the new one.

    Args:
        name: the model's name.
        number: the version.
        source: what the worker opens.
        log: called with a sentence about each event.
    """

    def __init__(self, name: str, number: int, source: ModelSource, log: Callable[[str], None]):
        self.name, self.number = name, number
        self.description: Mapping[str, Any] = {}
        self.num_restarts = 0
        self._source, self._log = source, log
        self._worker: WorkerClient | None = None
        self._is_ready = False
        self._pending: dict[int, _Pending] = {}
        self._ids = itertools.count(1)
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._tasks: set[asyncio.Task] = set()

    @property
    def is_ready(self) -> bool:
        """Whether its process runs and is warm."""
        return self._is_ready

    @property
    def pid(self) -> int | None:
        """The number of the worker process."""
        return None if self._worker is None else self._worker.pid

    @property
    def num_pending(self) -> int:
        """Number of jobs without a result."""
        return len(self._pending)

    async def load(self) -> None:
        """Start the worker process and wait until the model is warm.

        Raises:
            InputError: the model cannot be loaded.
        """
        self._worker = WorkerClient(self._source, self._finish, self._restart)
        self.description = await self._worker.start()
        self._is_ready = True
        self._keep(self._sweep())

    def start(self, kind: str, inputs: object, options: Mapping[str, object], deadline: float) -> asyncio.Future:
        """Send a job to the worker.

        Returns:
            A future of its `Result`, whose status is `OK`, or of a `ServingError`. If it is cancelled, so is the job.
        """
        job = Job(next(self._ids), kind, inputs, options, deadline)
        future = asyncio.get_running_loop().create_future()
        self._pending[job.id] = _Pending(job, future)
        self._is_idle.clear()
        future.add_done_callback(lambda done: self._forget(job.id, done))
        if self._is_ready:
            self._worker.send(job)
        return future

    async def drain(self) -> None:
        """Wait until all jobs have their result, then end the process."""
        await self._is_idle.wait()
        await self.close()

    async def close(self) -> None:
        """End the process; jobs without a result fail."""
        self._is_ready = False
        for task in self._tasks:
            task.cancel()
        if self._worker is not None:
            await self._worker.close()
        for pending in list(self._pending.values()):
            self._fail(pending, ServingError(Reason.UNAVAILABLE, "the server is shutting down: try again", 1))

    def kill_worker(self) -> None:
        """End the worker process at once, as a crash would."""
        self._worker.kill()

    def _forget(self, job_id: int, future: asyncio.Future) -> None:
        self._pending.pop(job_id, None)
        if future.cancelled() and self._is_ready:
            self._worker.send(Cancellation(job_id))
        if not self._pending:
            self._is_idle.set()

    def _finish(self, result: Result) -> None:
        """Set the result of a job."""
        pending = self._pending.get(result.id)
        if pending is None or pending.future.done():  # its client has left
            return
        if result.status == OK:
            pending.future.set_result(result)
            return
        reason = _REASONS.get(result.status, Reason.FAILED)
        self._fail(pending, ServingError(reason, str(result.value), 1 if reason is Reason.EXPIRED else None))

    def _fail(self, pending: _Pending, error: ServingError) -> None:
        if not pending.future.done():
            pending.future.set_exception(error)

    def _restart(self) -> None:
        """Start another process after the worker has ended unexpectedly."""
        self._is_ready = False
        self.num_restarts += 1
        self._log(
            f"the worker of {self.name} version {self.number} ended; {len(self._pending)} requests wait for a new one"
        )
        for pending in list(self._pending.values()):
            pending.attempts += 1
            if pending.attempts > _MAX_ATTEMPTS:
                self._fail(
                    pending,
                    ServingError(Reason.FAILED, "the model's process ended twice on this request: do not repeat it"),
                )
        self._keep(self._replace_worker(self._worker))

    async def _replace_worker(self, ended: WorkerClient) -> None:
        await ended.close()
        pause = 0.0
        while True:
            worker = WorkerClient(self._source, self._finish, self._restart)
            try:
                self.description = await worker.start()
                break
            except (InputError, OSError) as error:
                pause = min(_LONGEST_PAUSE, max(1.0, 2 * pause))
                self._log(
                    f"{self.name} version {self.number} cannot be started again ({error}); next try in {pause:g} s"
                )
                await asyncio.sleep(pause)
        self._worker, self._is_ready = worker, True
        self._log(f"{self.name} version {self.number} answers again")
        for pending in self._pending.values():
            worker.send(pending.job)

    async def _sweep(self) -> None:
        """Fail jobs whose deadline has passed and that no worker has reported, for example while it starts again."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            limit = time.monotonic() - _MISSED_SECONDS
            for pending in list(self._pending.values()):
                if pending.job.deadline < limit:
                    self._fail(
                        pending, ServingError(Reason.EXPIRED, "the deadline passed before there was an answer", 1)
                    )

    def _keep(self, coroutine: Any) -> None:
        """Run a coroutine in the background; asyncio itself keeps only weak references to tasks."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
