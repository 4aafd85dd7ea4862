"""`Admission`: accept no more requests than can be answered before their deadlines."""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

from bert_keras.serving.errors import Reason, ServingError

_DECAY = 0.98  # the weight of what was measured before, at each answered request
_NUM_DEVIATIONS = 2  # by which a request must be expected to be early


class Entry(NamedTuple):
    """A request in the server.

    Attributes:
        num_bytes: its size.
        bytes_ahead: that of all requests in the server when it came, including itself.
        begin: when it came.
    """

    num_bytes: int
    bytes_ahead: int
    begin: float


class Admission:
    """Count the requests in the server and estimate how long a new one takes.

    The estimate is the number of bytes of the requests in the server, times the seconds per byte that earlier requests
    waited for those before them. It needs no tokenization, so that a refusal costs next to nothing. Some requests wait
    longer than others, because batches are of similar length; as in TCP, the mean deviation is measured too.

    Args:
        max_requests: the largest number of requests in the server.
        clock: returns the time in seconds.
    """

    def __init__(self, max_requests: int, clock: Callable[[], float] = time.monotonic):
        self._max_requests, self._clock = max_requests, clock
        self.num_requests = 0
        self._num_bytes = 0
        self._seconds = self._deviations = self._bytes_ahead = 0.0  # sums over earlier requests

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
        return Entry(num_bytes, self._num_bytes, self._clock())

    def must_refuse(self, seconds: float) -> bool:
        """Whether a request that may take some seconds would probably be late."""
        if self.num_requests >= self._max_requests:
            return True
        latest = self._seconds + _NUM_DEVIATIONS * self._deviations
        return self._num_bytes * latest > seconds * self._bytes_ahead

    def make_refusal(self) -> ServingError:
        """Return the error of a request that cannot be accepted."""
        wait = self.estimate_wait()
        return ServingError(
            Reason.OVERLOADED,
            f"the server has {self.num_requests} requests to answer, which takes about {wait:.1f} s; try again later",
            retry_after=max(1, math.ceil(wait)),
        )

    def leave(self, entry: Entry, *, has_waited: bool) -> None:
        """Count a request no more.

        Args:
            entry: what `enter` returned.
            has_waited: whether it was answered by a model or too late for it, and not wrong or cancelled.
        """
        self.num_requests -= 1
        self._num_bytes -= entry.num_bytes
        if has_waited:
            seconds = self._clock() - entry.begin
            expected = entry.bytes_ahead * self._seconds / self._bytes_ahead if self._bytes_ahead else seconds
            self._seconds = _DECAY * self._seconds + seconds
            self._deviations = _DECAY * self._deviations + abs(seconds - expected)
            self._bytes_ahead = _DECAY * self._bytes_ahead + entry.bytes_ahead

    def estimate_wait(self) -> float:
        """Return the seconds until a new request would be answered."""
        return self._num_bytes * self._seconds / self._bytes_ahead if self._bytes_ahead else 0.0
