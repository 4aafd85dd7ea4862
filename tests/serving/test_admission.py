"""`Admission`: how many requests are accepted, and the estimate of their waiting time."""

import pytest

from bert_keras.serving.admission import Admission
from bert_keras.serving.errors import Reason, ServingError


def test_no_more_than_the_limit_are_accepted_at_the_same_time():
    admission = Admission(2)
    admission.enter(10, 30)
    admission.enter(10, 30)
    with pytest.raises(ServingError, match="the server has 2 requests to answer") as error:
        admission.enter(10, 30)
    assert (error.value.reason, error.value.retry_after) == (Reason.OVERLOADED, 1)
    admission.leave(10, 0.1)
    admission.enter(10, 30)


def test_a_request_that_would_wait_longer_than_it_may_is_refused():
    admission = Admission(1000)
    admission.num_instances = 2
    for _ in range(50):  # 0.1 s of an instance for 100 bytes
        admission.enter(100, 30)
        admission.leave(100, 0.1)
    for _ in range(60):
        admission.enter(100, 30)
    assert admission.estimate_wait() == pytest.approx(60 * 0.1 / 2)
    admission.enter(100, 3.5)
    with pytest.raises(ServingError, match=r"takes about 3\.0 s|takes about 3\.1 s") as error:
        admission.enter(100, 2.5)
    assert error.value.retry_after == 4


def test_the_estimate_follows_the_measurements():
    admission = Admission(1000)
    for seconds in [0.1] * 300 + [1.0] * 300:
        admission.enter(100, 1e9)
        admission.leave(100, seconds)
    admission.enter(100, 1e9)
    assert admission.estimate_wait() == pytest.approx(1.0, rel=0.01)
