"""The cases that the quick suite leaves out are marked, and a quick case that does not exist is an error."""

import pytest

from tests.marks import slow_except


def test_all_cases_but_the_quick_ones_are_slow():
    quick, other = slow_except([("a", 1), ("b", 2)], quick=[("a", 1)])
    assert quick == ("a", 1)
    assert (other.values, [mark.name for mark in other.marks]) == (("b", 2), ["slow"])


def test_a_quick_case_that_is_no_case_is_refused():
    with pytest.raises(ValueError, match=r"\['c'\] are not among the cases \['a', 'b'\]"):
        slow_except(["a", "b"], quick=["c"])
