"""`Admission`: how many requests are accepted, and the estimate of their waiting time."""

import pytest

from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.server_state import Admission


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return _Clock()


@pytest.fixture
def admission(clock):
    return Admission(1000, clock)


def run_queue(admission: Admission, clock: _Clock, num_requests: int, seconds: float, compute: float) -> None:
    """Let requests of 100 bytes arrive together and be answered one after the other, `seconds` apart."""
    for entry in [admission.enter(100, 1e9) for _ in range(num_requests)]:
        clock.now += seconds
        admission.leave(entry, compute=compute)


def test_no_more_than_the_limit_are_accepted_at_the_same_time():
    admission = Admission(2)
    first = admission.enter(10, 30)
    admission.enter(10, 30)
    with pytest.raises(ServingError, match="the server has 2 requests to answer") as error:
        admission.enter(10, 30)
    assert (error.value.reason, error.value.retry_after) == (Reason.OVERLOADED, 1)
    admission.leave(first, compute=0.1)
    admission.enter(10, 30)


def test_a_request_that_would_wait_longer_than_it_may_is_refused(admission, clock):
    for _ in range(20):  # two instances need 0.1 s for each request, so that one leaves every 0.05 s
        admission.num_instances = 2
        run_queue(admission, clock, 50, 0.05, 0.1)
    for _ in range(60):
        admission.enter(100, 30)
    assert admission.estimate_wait() == pytest.approx(60 * 0.05, rel=0.01)
    admission.enter(100, 3.3)
    with pytest.raises(ServingError, match=r"takes about 3\.[01] s") as error:
        admission.enter(100, 2.7)
    assert error.value.retry_after == 4


def test_instances_share_the_queue_before_their_speed_is_known(admission, clock):
    admission.num_instances = 2
    run_queue(admission, clock, 1, 0.1, 0.1)
    for _ in range(10):
        admission.enter(100, 30)
    assert admission.estimate_wait() == pytest.approx(10 * 0.1 / 2)


def test_the_estimate_follows_the_measurements(admission, clock):
    for seconds in [0.1] * 50 + [1.0] * 50:
        run_queue(admission, clock, 10, seconds, seconds)
    admission.enter(100, 1e9)
    assert admission.estimate_wait() == pytest.approx(1.0, rel=0.05)


def test_requests_take_longer_than_their_computation(admission, clock):
    """The server, the clients and the workers share the cores."""
    for _ in range(20):
        run_queue(admission, clock, 50, 0.15, 0.1)
    admission.enter(100, 1e9)
    assert admission.estimate_wait() == pytest.approx(0.15, rel=0.05)


def test_requests_that_wait_unequally_are_refused_earlier(admission, clock):
    run_queue(admission, clock, 1, 1.0, 1.0)
    for number in range(500):
        entry = admission.enter(100, 1e9)
        clock.now += 1.0 + 0.5 * (-1) ** number
        admission.leave(entry, compute=1.0)
    admission.enter(100, 1e9)
    assert admission.estimate_wait() == pytest.approx(1.0, abs=0.02)
    assert admission.must_refuse(2.9)
    assert not admission.must_refuse(3.1)


def test_late_requests_count_as_slow(admission, clock):
    run_queue(admission, clock, 1, 1.0, 1.0)
    for _ in range(200):
        entry = admission.enter(100, 1e9)
        clock.now += 2.0
        admission.leave(entry, is_late=True)
    admission.enter(100, 1e9)
    assert admission.estimate_wait() == pytest.approx(2.0, rel=0.05)


def test_a_short_outage_does_not_make_large_requests_look_slow(admission, clock):
    run_queue(admission, clock, 100, 0.001, 0.001)
    entry = admission.enter(100, 1e9)
    clock.now += 10.0  # another worker process had to start
    admission.leave(entry, compute=0.001)
    admission.enter(100_000, 1e9)
    assert admission.estimate_wait() == pytest.approx(1.0, rel=0.2)
