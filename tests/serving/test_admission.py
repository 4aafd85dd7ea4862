"""`Admission`: how many requests are accepted, and the estimate of their waiting time."""

import pytest

from bert_keras.serving.admission import Admission
from bert_keras.serving.errors import Reason, ServingError


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_no_more_than_the_limit_are_accepted_at_the_same_time():
    admission = Admission(2)
    first = admission.enter(10, 30)
    admission.enter(10, 30)
    with pytest.raises(ServingError, match="the server has 2 requests to answer") as error:
        admission.enter(10, 30)
    assert (error.value.reason, error.value.retry_after) == (Reason.OVERLOADED, 1)
    admission.leave(first, has_waited=True)
    admission.enter(10, 30)


def run_queue(admission: Admission, clock: _Clock, num_requests: int, seconds: float) -> None:
    """Let requests of 100 bytes arrive together and be answered one after the other, `seconds` apart."""
    for entry in [admission.enter(100, 1e9) for _ in range(num_requests)]:
        clock.now += seconds
        admission.leave(entry, has_waited=True)


def test_a_request_that_would_wait_longer_than_it_may_is_refused():
    clock = _Clock()
    admission = Admission(1000, clock)
    run_queue(admission, clock, 100, 0.05)
    for _ in range(60):
        admission.enter(100, 30)
    assert admission.estimate_wait() == pytest.approx(60 * 0.05)
    admission.enter(100, 3.3)
    with pytest.raises(ServingError, match=r"takes about 3\.0 s|takes about 3\.1 s") as error:
        admission.enter(100, 2.7)
    assert error.value.retry_after == 4


def test_the_estimate_follows_the_measurements():
    clock = _Clock()
    admission = Admission(1000, clock)
    run_queue(admission, clock, 300, 0.1)
    run_queue(admission, clock, 300, 1.0)
    admission.enter(100, 1e9)
    assert admission.estimate_wait() == pytest.approx(1.0, rel=0.01)


def test_requests_that_wait_unequally_are_refused_earlier():
    clock = _Clock()
    admission = Admission(1000, clock)
    for number in range(200):
        entry = admission.enter(100, 1e9)
        clock.now += 1.0 + 0.5 * (-1) ** number
        admission.leave(entry, has_waited=True)
    admission.enter(100, 1e9)
    assert admission.estimate_wait() == pytest.approx(1.0, abs=0.02)
    assert admission.must_refuse(1.9)
    assert not admission.must_refuse(2.1)


def test_requests_that_no_model_answers_say_nothing_about_its_speed():
    clock = _Clock()
    admission = Admission(1000, clock)
    run_queue(admission, clock, 10, 0.1)
    for entry in [admission.enter(100, 1e9) for _ in range(10)]:
        admission.leave(entry, has_waited=False)
    assert admission.num_requests == 0
    admission.enter(100, 1e9)
    assert admission.estimate_wait() == pytest.approx(0.1)
