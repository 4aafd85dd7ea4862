"""`ServerState`: the models, settings, limits and metrics that all requests share; `Admission`: how many it accepts."""

import itertools
import math
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.metrics import ServerMetrics, Tracer
from bert_keras.serving.repository import ModelRepository
from bert_keras.serving.settings import ServerSettings

_GAIN = 0.02  # the weight of a finished request in the means
_NUM_DEVIATIONS = 4  # by which a request must be expected to be early; RFC 6298
_SHORTEST_SECONDS = 0.25  # a shorter expectation says nothing about how long a queue takes
_LARGEST_FACTOR = 4.0


class Entry(NamedTuple):
    """A request in the server.

    Attributes:
        num_bytes: its size.
        begin: when it came.
        expected: the seconds of computation for it and those before it.
    """

    num_bytes: int
    begin: float
    expected: float


class Admission:
    """Count the requests in the server and estimate how long a new one takes.

    What is expected is the number of bytes of the requests in the server, times the seconds of computation per byte
    that were measured, over the instances that compute at the same time. It needs no tokenization, so that a refusal
    costs next to nothing. Requests take longer by a factor, because they share the cores, and some of them longer than
    others, because batches are of similar length; its mean and, as in TCP, its mean deviation are measured too.

    Args:
        max_requests: the largest number of requests in the server.
        clock: returns the time in seconds.
    """

    def __init__(self, max_requests: int, clock: Callable[[], float] = time.monotonic):
        self._max_requests, self._clock = max_requests, clock
        self.num_instances = 1
        self.num_requests = 0
        self._num_bytes = 0
        self._mean_seconds = self._mean_bytes = 0.0  # of the computation of a request
        self._factor, self._deviation = 1.0, 0.25

    def enter(self, num_bytes: int, seconds: float) -> Entry:
        """Count a request.

        Args:
            num_bytes: its size.
            seconds: the time that it may take.

        Raises:
            ServingError: the server is full, or the request would wait too long.
        """
        if self.must_refuse(seconds):
            raise self.make_refusal()
        self.num_requests += 1
        self._num_bytes += num_bytes
        return Entry(num_bytes, self._clock(), self._expect())

    def must_refuse(self, seconds: float) -> bool:
        """Whether a request that may take some seconds would probably be late."""
        if self.num_requests >= self._max_requests:
            return True
        return self._expect() * min(_LARGEST_FACTOR, self._factor + _NUM_DEVIATIONS * self._deviation) > seconds

    def make_refusal(self) -> ServingError:
        """Return the error of a request that cannot be accepted."""
        wait = self.estimate_wait()
        return ServingError(
            Reason.OVERLOADED,
            f"the server has {self.num_requests} requests to answer, which takes about {wait:.1f} s; try again later",
            retry_after=max(1, math.ceil(wait)),
        )

    def leave(self, entry: Entry, *, compute: float = 0.0, is_late: bool = False) -> None:
        """Count a request no more.

        Args:
            entry: what `enter` returned.
            compute: the seconds of an instance that it took; 0 if it was not computed.
            is_late: whether it was not computed because its time had passed.
        """
        self.num_requests -= 1
        self._num_bytes -= entry.num_bytes
        if compute:
            gain = _GAIN if self._mean_bytes else 1.0
            self._mean_seconds += gain * (compute - self._mean_seconds)
            self._mean_bytes += gain * (entry.num_bytes - self._mean_bytes)
        if (compute or is_late) and entry.expected > _SHORTEST_SECONDS:
            difference = (self._clock() - entry.begin) / entry.expected - self._factor
            self._factor += _GAIN * difference
            self._deviation += _GAIN * (abs(difference) - self._deviation)

    def estimate_wait(self) -> float:
        """Return the seconds until a new request would be answered."""
        return self._expect() * min(_LARGEST_FACTOR, self._factor)

    def _expect(self) -> float:
        """Return the seconds of computation for all requests in the server."""
        return self._num_bytes * self._mean_seconds / self._mean_bytes / self.num_instances if self._mean_bytes else 0.0


class ServerState:
    """The models, settings, limits and metrics that all requests share.

    Args:
        repository: the models.
        settings: the settings.
        log: called with a line for each request, if the settings ask for it, and with unexpected errors.
    """

    def __init__(self, repository: ModelRepository, settings: ServerSettings, log: Callable[[str], None]):
        self.repository, self.settings, self.log = repository, settings, log
        self.metrics = ServerMetrics()
        self.admission = Admission(settings.max_requests)
        self.tracer = None if settings.otlp_endpoint is None else Tracer(settings.otlp_endpoint)
        self.is_draining = False
        self._prefix = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        add, versions, labels = self.metrics.add_gauge, repository.list_versions, ("model", "version")
        text = "requests to models that are answered now"
        add("requests_in_progress", text, lambda: [((), self.admission.num_requests)])
        text = "estimated time until a new request is answered"
        add("estimated_wait_seconds", text, lambda: [((), self.admission.estimate_wait())])
        text = "jobs of a model without a result"
        add("jobs_in_progress", text, lambda: [(one.labels, one.num_pending) for one in versions()], *labels)
        text = "restarts of the worker process of a version after it ended unexpectedly"
        add("worker_restarts", text, lambda: [(one.labels, one.num_restarts) for one in versions()], *labels)

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered."""
        return not self.is_draining and self.repository.is_ready

    def make_id(self) -> str:
        """Return a new request id."""
        return f"{self._prefix}-{next(self._numbers)}"
