"""Send HTTP/1.1 requests to a server, open-loop or closed-loop, and measure latencies without coordinated omission.

    result = run_load(LoadSettings("http://127.0.0.1:8000/predict", [b'{"inputs": "a"}'], rate=100, num_requests=1000))

Open loop (`rate`): all arrival times are fixed in advance, and a latency counts from the arrival time. While the server
stalls, requests keep arriving; those for which no connection is free wait in the generator, and their latency includes
that. A generator that waits for answers before it sends would omit them. Closed loop (`num_clients`): each client
sends its next request when it has its answer; use it for the maximum throughput, not for latencies.

A connection has one request at a time, and nothing is retried. All requests are encoded before the start, and no task
or future is created per request: about 0.03 ms of CPU time with uvloop and 0.05 ms without at full load, and 0.15 ms at
500 requests/s, where each of them wakes the process.
"""

import asyncio
import collections
import ctypes
import dataclasses
import itertools
import math
import os
import random
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.http_connection import Answer, Connection
from benchmarks.load_result import LoadResult
from benchmarks.process_usage import ProcessUsage

try:
    from uvloop import run as run_coroutine
except ImportError:
    from asyncio import run as run_coroutine

ARRIVALS = ("constant", "poisson")
PAUSE_AFTER_ERROR_SECONDS = 0.01  # of a closed-loop client, so that a refused connection does not become a busy loop
TIMER_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC if os.name == "posix" else 0  # TFD_NONBLOCK | TFD_CLOEXEC


@dataclasses.dataclass(frozen=True)
class LoadSettings:
    """The requests to send, and when.

    Attributes:
        url: address with path, `http` only.
        bodies: JSON bodies; request i sends `bodies[i % len(bodies)]`.
        rate: requests/s of an open loop; exclusive with `num_clients`.
        num_clients: clients of a closed loop.
        num_requests: number of measured requests; the loop ends after them or after `duration_seconds`.
        duration_seconds: seconds in which measured requests arrive; answers to them are awaited.
        warmup_seconds: seconds before the measurement in which the same load is sent, but not counted.
        arrivals: "constant" intervals, or "poisson" for exponentially distributed ones.
        num_connections: connections of an open loop; closed loops have one per client.
        timeout_seconds: age at which a request counts as an error and its connection is closed.
        headers: more headers of every request.
        num_texts: texts per body, for the throughput in texts/s.
        pids: processes whose CPU time and memory are measured, with their descendants.
        check_answer: function from the index of a body and an answer of status 200 to whether it is right.
        seed: seed of the arrival times.
    """

    url: str
    bodies: Sequence[bytes]
    rate: float | None = None
    num_clients: int | None = None
    num_requests: int | None = None
    duration_seconds: float | None = None
    warmup_seconds: float = 0.0
    arrivals: str = "constant"
    num_connections: int = 64
    timeout_seconds: float = 30.0
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    num_texts: int = 1
    pids: Sequence[int] = ()
    check_answer: Callable[[int, bytes], bool] | None = None
    seed: int = 0

    def __post_init__(self):
        if (self.rate is None) == (self.num_clients is None):
            raise ValueError(f"rate is {self.rate} and num_clients {self.num_clients}: give one of them")
        if self.num_requests is None and self.duration_seconds is None:
            raise ValueError("the load has no end: give num_requests, duration_seconds or both")
        for name in ("rate", "num_clients", "num_requests", "duration_seconds", "num_connections", "timeout_seconds"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ValueError(f"{name} is {value}, but must be positive")
        if self.arrivals not in ARRIVALS:
            raise ValueError(f"arrivals is {self.arrivals!r}, but must be one of {', '.join(ARRIVALS)}")
        if not self.bodies or not self.url.startswith("http://"):
            raise ValueError(f"{len(self.bodies)} bodies for {self.url!r}; expected at least one and an http:// URL")


def run_load(settings: LoadSettings) -> LoadResult:
    """Send the load, wait for all answers, and return the latency and the outcome of every measured request.

    Raises:
        OSError: no connection to the server could be opened at the start.
    """
    return run_coroutine(_run(settings))


async def _run(settings: LoadSettings) -> LoadResult:
    generator = _Generator(settings)
    try:
        await generator.open_connections()
        generator.start()
        await asyncio.sleep(settings.warmup_seconds)
        with ProcessUsage(settings.pids) as usage:
            cpu_seconds = time.process_time()
            result = await generator.finished
            result.generator_cpu_seconds = time.process_time() - cpu_seconds
    finally:
        generator.close()
        await asyncio.sleep(0)  # the transports close in the next turn of the event loop
    result.servers = usage.summarize()
    return result


def make_arrivals(settings: LoadSettings) -> Iterator[float]:
    """Yield the arrival times of an open loop, in seconds; those of the warm-up are negative."""
    generator = random.Random(settings.seed)

    def draw(start: float, end: float, limit: int | None) -> Iterator[float]:
        now = start
        for number in itertools.count() if limit is None else range(limit):
            is_poisson = settings.arrivals == "poisson"
            now = now + generator.expovariate(settings.rate) if is_poisson else start + number / settings.rate
            if now >= end:
                return
            yield now

    yield from draw(-settings.warmup_seconds, 0.0, None)
    yield from draw(0.0, settings.duration_seconds or math.inf, settings.num_requests)


class _Request(NamedTuple):
    number: int
    due: float  # arrival time in seconds from the start of the measurement, negative during the warm-up


class _Generator:
    """The state of a running load: connections, requests in progress, and the result."""

    def __init__(self, settings: LoadSettings):
        self.settings = settings
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._stop_on_error)  # an exception in a callback would be logged alone
        self.finished: asyncio.Future[LoadResult] = self._loop.create_future()
        self._result = LoadResult(settings.num_texts)
        self._arrivals = make_arrivals(settings) if settings.rate else iter(())
        self._alarm = _Alarm(self._loop, self._send_due)
        self._zero = 0.0  # `time.monotonic()` at the start of the measurement
        self._numbers = itertools.count()
        self._num_counted = self._num_open_requests = 0
        self._is_complete = False  # whether no more requests arrive

        parts = urllib.parse.urlsplit(settings.url)
        self._address = parts.hostname, parts.port or 80
        path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        headers = {"Host": parts.netloc, "Content-Type": "application/json", **settings.headers}
        head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._requests = [
            f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body for body in settings.bodies
        ]
        self._num_unopened = settings.num_clients or settings.num_connections
        self._free: collections.deque[Connection] = collections.deque()
        self._busy: set[Connection] = set()
        self._waiting: collections.deque[_Request] = collections.deque()
        self._tasks: set[asyncio.Task] = set()

    # starting and ending

    async def open_connections(self) -> None:
        """Open all connections, so that the first requests do not pay for them."""
        results = await asyncio.gather(*(self._open() for _ in range(self._num_unopened)), return_exceptions=True)
        opened = [connection for connection in results if isinstance(connection, Connection)]
        if not opened:
            raise results[0]
        self._num_unopened -= len(opened)
        self._free.extend(opened)

    async def _open(self) -> Connection:
        opening = self._loop.create_connection(lambda: Connection(self._receive, self._lose), *self._address)
        _, connection = await asyncio.wait_for(opening, self.settings.timeout_seconds)
        return connection

    def start(self) -> None:
        """Start the warm-up, which is followed by the measurement."""
        self._zero = time.monotonic() + self.settings.warmup_seconds
        self._drop_late_requests()
        if self.settings.rate:
            self._next_due = next(self._arrivals, None)
            self._send_due()
        for _ in range(self.settings.num_clients or 0):
            self._send_next_of_client()

    def close(self) -> None:
        """Close all connections and timers."""
        self._alarm.close()
        for connection in (*self._free, *self._busy):
            connection.transport.abort()
        for task in self._tasks:
            task.cancel()

    def _finish_if_complete(self) -> None:
        if self._is_complete and not self._num_open_requests and not self.finished.done():
            ends_early = self._num_counted == self.settings.num_requests
            self._result.seconds = max(self._now(), 0.0 if ends_early else self.settings.duration_seconds)
            self.finished.set_result(self._result)

    def _stop_on_error(self, loop: asyncio.AbstractEventLoop, context: dict) -> None:
        if not self.finished.done():
            self.finished.set_exception(context.get("exception") or RuntimeError(context["message"]))

    def _now(self) -> float:
        return time.monotonic() - self._zero

    # arrivals

    def _send_due(self) -> None:
        """Send the requests of an open loop whose time has come, and set the alarm for the next one."""
        now = self._now()
        while self._next_due is not None and self._next_due <= now:
            self._send(self._next_due)
            self._next_due = next(self._arrivals, None)
        if self._next_due is None:
            self._is_complete = True
            self._finish_if_complete()
        else:
            self._alarm.set(self._zero + self._next_due)

    def _send_next_of_client(self) -> None:
        """Send a request of a closed loop, unless the load is complete."""
        now, settings = self._now(), self.settings
        if now >= (settings.duration_seconds or math.inf) or self._num_counted == settings.num_requests:
            self._is_complete = True
            self._finish_if_complete()
        else:
            self._send(now)

    def _send(self, due: float) -> None:
        request = _Request(next(self._numbers), due)
        self._num_counted += due >= 0
        self._num_open_requests += 1
        if not self._dispatch(request):
            self._waiting.append(request)
            self._result.num_waited += due >= 0

    def _dispatch(self, request: _Request) -> bool:
        """Give a request to a free or a new connection; return whether there is one."""
        while self._free:
            connection = self._free.popleft()  # the longest free one, so that each worker of a server gets its share
            if not connection.transport.is_closing():
                self._write(connection, request)
                return True
        if self._num_unopened:
            self._num_unopened -= 1
            task = self._loop.create_task(self._open_and_write(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return True
        return False

    def _dispatch_waiting(self) -> None:
        while self._waiting and self._dispatch(self._waiting[0]):
            self._waiting.popleft()

    async def _open_and_write(self, request: _Request) -> None:
        try:
            connection = await self._open()
        except (OSError, asyncio.TimeoutError) as error:
            self._num_unopened += 1
            self._count(request, "timeout" if isinstance(error, asyncio.TimeoutError) else "refused")
            self._dispatch_waiting()
        else:
            self._write(connection, request)

    def _write(self, connection: Connection, request: _Request) -> None:
        if request.due >= 0:
            self._result.delays.append(self._now() - request.due)
        self._busy.add(connection)
        connection.send(request, self._requests[request.number % len(self._requests)])

    # outcomes

    def _receive(self, connection: Connection, request: _Request, answer: Answer) -> None:
        """Count an answer, and use the connection for the next request."""
        self._busy.discard(connection)
        if answer.is_last:
            connection.transport.abort()
        else:
            self._free.append(connection)
            self._dispatch_waiting()
        outcome, check = answer.status, self.settings.check_answer
        if outcome == 200 and check and not check(request.number % len(self._requests), answer.body):
            outcome = "wrong answer"
        self._count(request, outcome)

    def _lose(self, connection: Connection, request: _Request | None, error: str) -> None:
        """Count the request of a closed connection as an error, if there is one, and allow a new connection."""
        self._busy.discard(connection)
        if connection in self._free:
            self._free.remove(connection)
        self._num_unopened += 1
        self._dispatch_waiting()
        if request is not None:
            self._count(request, error)

    def _count(self, request: _Request, outcome: int | str) -> None:
        self._num_open_requests -= 1
        if request.due >= 0:
            self._result.add(request.due, self._now() - request.due, outcome)
        if self.settings.num_clients and isinstance(outcome, int):
            self._send_next_of_client()
        elif self.settings.num_clients:
            self._loop.call_later(PAUSE_AFTER_ERROR_SECONDS, self._send_next_of_client)
        self._finish_if_complete()

    def _drop_late_requests(self) -> None:
        """Count requests older than the timeout as errors, several times per timeout."""
        if self.finished.done():
            return
        oldest = self._now() - self.settings.timeout_seconds
        for connection in [connection for connection in self._busy if connection.request.due < oldest]:
            connection.fail("timeout")
        while self._waiting and self._waiting[0].due < oldest:
            self._count(self._waiting.popleft(), "timeout")
        self._loop.call_later(min(0.1, self.settings.timeout_seconds / 10), self._drop_late_requests)


class _Alarm:
    """Timer of an event loop that is exact to microseconds: `call_at` rounds up to the next millisecond.

    Uses Linux's timerfd, and `call_at` elsewhere.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]):
        self._loop, self._callback = loop, callback
        self._libc = ctypes.CDLL(None)
        self._file = self._libc.timerfd_create(1, TIMER_FLAGS) if hasattr(self._libc, "timerfd_create") else -1
        self._handle: asyncio.TimerHandle | None = None
        if self._file >= 0:
            loop.add_reader(self._file, self._ring)

    def set(self, seconds: float) -> None:
        """Call the callback when `time.monotonic()` reaches a number of seconds."""
        if self._file < 0:
            self._handle = self._loop.call_later(seconds - time.monotonic(), self._callback)
            return
        nanoseconds = int(1e9 * seconds)
        interval_and_time = (ctypes.c_long * 4)(0, 0, *divmod(nanoseconds, 10**9))
        self._libc.timerfd_settime(self._file, 1, interval_and_time, None)  # 1: TFD_TIMER_ABSTIME

    def close(self) -> None:
        """Release the timer."""
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
        if self._handle:
            self._handle.cancel()

    def _ring(self) -> None:
        os.read(self._file, 8)
        self._callback()
