"""`Admission`: accept no more requests than can be answered before their deadlines."""

import math

from bert_keras.serving.errors import Reason, ServingError

_DECAY = 0.98  # the weight of what was measured before, at each finished request


class Admission:
    """Count the requests in the server and estimate how long a new one waits.

    The estimate is the number of bytes of the requests in the server, times the seconds of computation per byte that
    were measured, over the number of instances that compute at the same time. It needs no tokenization, so that a
    refusal costs next to nothing.

    Args:
        max_requests: the largest number of requests in the server.
    """

    def __init__(self, max_requests: int):
        self._max_requests = max_requests
        self.num_instances = 1
        self.num_requests = 0
        self._num_bytes = 0
        self._measured_seconds = self._measured_bytes = 0.0

    def enter(self, num_bytes: int, seconds: float) -> None:
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

    def must_refuse(self, seconds: float) -> bool:
        """Whether a request that may take some seconds cannot be accepted."""
        return self.num_requests >= self._max_requests or self.estimate_wait() > seconds

    def make_refusal(self) -> ServingError:
        """Return the error of a request that cannot be accepted."""
        wait = self.estimate_wait()
        return ServingError(
            Reason.OVERLOADED,
            f"the server has {self.num_requests} requests to answer, which takes about {wait:.1f} s; try again later",
            retry_after=max(1, math.ceil(wait)),
        )

    def leave(self, num_bytes: int, seconds: float) -> None:
        """Count a request no more.

        Args:
            num_bytes: its size.
            seconds: the time of an instance that it took; 0 if it was not computed.
        """
        self.num_requests -= 1
        self._num_bytes -= num_bytes
        if seconds:
            self._measured_seconds = _DECAY * self._measured_seconds + seconds
            self._measured_bytes = _DECAY * self._measured_bytes + num_bytes

    def estimate_wait(self) -> float:
        """Return the seconds until a new request would be computed."""
        if not self._measured_bytes:
            return 0.0
        return self._num_bytes * self._measured_seconds / self._measured_bytes / self.num_instances
