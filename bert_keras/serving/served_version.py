"""`ServedVersion`: a version of a model that answers, whatever happens to its worker process."""

import asyncio
import dataclasses
import itertools
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from bert_keras.errors import InputError
from bert_keras.extras import make_python_command
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.model_folders import ModelSource
from bert_keras.serving.worker import jobs

_MAX_ATTEMPTS = 2  # a job that ends two processes is not tried again
_LONGEST_PAUSE = 30.0  # seconds between two starts
_SWEEP_SECONDS = 0.25
_REASONS = {jobs.INVALID: Reason.INVALID, jobs.TOO_LONG: Reason.TOO_LARGE, jobs.EXPIRED: Reason.EXPIRED}
_MISSED_SECONDS = 0.5  # that a worker has to report an expired job itself
_KILL_SECONDS = 10.0  # that a process has to end after its socket is closed


class _WorkerClient(asyncio.Protocol):
    """The connection to one worker process.

    Args:
        source: the model that it loads.
        on_result: called with each result.
        on_end: called once when the process has ended or closed its socket after it was ready.
    """

    def __init__(self, source: ModelSource, on_result: Callable[[jobs.Result], None], on_end: Callable[[], None]):
        self._source, self._on_result, self._on_end = source, on_result, on_end
        self._reader = jobs.MessageReader()
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen | None = None
        self._loaded: asyncio.Future | None = None
        self._is_closing = False
        self._outgoing: list[object] = []

    async def start(self) -> dict:
        """Start the process and wait until its model is warm; return the model's description.

        Raises:
            InputError: the model cannot be loaded, or the process ended.
        """
        loop = asyncio.get_running_loop()
        self._loaded = loop.create_future()
        ours, theirs = socket.socketpair()
        command = make_python_command("bert_keras.serving.worker.worker_process")
        arguments = [str(theirs.fileno()), json.dumps(self._source._asdict())]
        self._process = subprocess.Popen(
            [*command, *arguments], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno()
        )
        theirs.close()
        await loop.create_connection(lambda: self, sock=ours)
        try:
            return await self._loaded
        except BaseException:
            await self.close()
            raise

    def send(self, message: object) -> None:
        """Send a message, together with the others of this turn of the event loop."""
        self._outgoing.append(message)
        if len(self._outgoing) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    async def close(self) -> None:
        """Close the socket, which ends the process, and wait for it; end it by force if it does not."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.close()
        process, loop = self._process, asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, process.wait, _KILL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            await loop.run_in_executor(None, process.wait)

    def _flush(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(jobs.pack(self._outgoing))
        self._outgoing = []

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Store the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Handle messages of the worker."""
        for message in self._reader.feed(data):
            if isinstance(message, jobs.Result):
                self._on_result(message)
            elif isinstance(message, jobs.Ready):
                self._loaded.set_result(message.description)
            elif isinstance(message, jobs.LoadError) and not self._loaded.done():
                self._loaded.set_exception(InputError(message.message))

    def connection_lost(self, error: Exception | None) -> None:
        """Report that the process has ended."""
        if not self._loaded.done():
            self._loaded.set_exception(InputError("the process that loads the model ended: see its messages above"))
        elif not self._is_closing:
            self._on_end()


@dataclasses.dataclass(eq=False, slots=True)
class _Pending:
    job: jobs.Job
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

    Attributes:
        labels: the name and the number, as metrics have them.
        description: see `describe_model`.
        num_restarts: how often the process was started again.
        is_ready: whether the process runs and is warm.
    """

    def __init__(self, name: str, number: int, source: ModelSource, log: Callable[[str], None]):
        self.name, self.number, self.labels = name, number, (name, str(number))
        self.description: Mapping[str, Any] = {}
        self.num_restarts = 0
        self._source, self._log = source, log
        self._worker: _WorkerClient | None = None
        self.is_ready = False
        self._pending: dict[int, _Pending] = {}
        self._ids = itertools.count(1)
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._tasks: set[asyncio.Task] = set()

    @property
    def num_pending(self) -> int:
        """Number of jobs without a result."""
        return len(self._pending)

    async def load(self) -> None:
        """Start the worker process and wait until the model is warm.

        Raises:
            InputError: the model cannot be loaded.
        """
        self._worker = _WorkerClient(self._source, self._finish, self._restart)
        self.description = await self._worker.start()
        self.is_ready = True
        self._keep(self._sweep())

    def start(self, kind: str, inputs: object, options: Mapping[str, object], deadline: float) -> asyncio.Future:
        """Send a job to the worker.

        Returns:
            A future of its `Result`, whose status is `OK`, or of a `ServingError`. If it is cancelled, so is the job.
        """
        job = jobs.Job(next(self._ids), kind, inputs, options, deadline)
        future = asyncio.get_running_loop().create_future()
        self._pending[job.id] = _Pending(job, future)
        self._is_idle.clear()
        future.add_done_callback(lambda done: self._forget(job.id, done))
        if self.is_ready:
            self._worker.send(job)
        return future

    async def drain(self) -> None:
        """Wait until all jobs have their result, then end the process; jobs that come meanwhile fail."""
        await self._is_idle.wait()
        self.is_ready = False
        for task in self._tasks:
            task.cancel()
        await self._worker.close()
        for pending in list(self._pending.values()):
            self._fail(pending, Reason.UNAVAILABLE, "the server is shutting down: try again", 1)

    def _forget(self, job_id: int, future: asyncio.Future) -> None:
        self._pending.pop(job_id, None)
        if future.cancelled() and self.is_ready:
            self._worker.send(jobs.Cancellation(job_id))
        if not self._pending:
            self._is_idle.set()

    def _finish(self, result: jobs.Result) -> None:
        """Set the result of a job."""
        pending = self._pending.get(result.id)
        if pending is None or pending.future.done():  # its client has left
            return
        if result.status == jobs.OK:
            pending.future.set_result(result)
            return
        reason = _REASONS.get(result.status, Reason.FAILED)
        self._fail(pending, reason, str(result.value), 1 if reason is Reason.EXPIRED else None)

    def _fail(self, pending: _Pending, reason: Reason, message: str, retry_after: int | None = None) -> None:
        if not pending.future.done():
            pending.future.set_exception(ServingError(reason, message, retry_after))

    def _restart(self) -> None:
        """Start another process after the worker has ended unexpectedly."""
        self.is_ready = False
        self.num_restarts += 1
        self._log(
            f"the worker of {self.name} version {self.number} ended; {len(self._pending)} requests wait for a new one"
        )
        for pending in list(self._pending.values()):
            pending.attempts += 1
            if pending.attempts > _MAX_ATTEMPTS:
                message = "the model's process ended twice on this request: do not repeat it"
                self._fail(pending, Reason.FAILED, message)
        self._keep(self._replace_worker(self._worker))

    async def _replace_worker(self, ended: _WorkerClient) -> None:
        await ended.close()
        pause = 0.0
        while True:
            worker = _WorkerClient(self._source, self._finish, self._restart)
            try:
                self.description = await worker.start()
                break
            except (InputError, OSError) as error:
                pause = min(_LONGEST_PAUSE, max(1.0, 2 * pause))
                self._log(
                    f"{self.name} version {self.number} cannot be started again ({error}); next try in {pause:g} s"
                )
                await asyncio.sleep(pause)
        self._worker, self.is_ready = worker, True
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
                    self._fail(pending, Reason.EXPIRED, "the deadline passed before there was an answer", 1)

    def _keep(self, coroutine: Any) -> None:
        """Run a coroutine in the background; asyncio itself keeps only weak references to tasks."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
