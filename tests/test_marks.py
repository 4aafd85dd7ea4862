"""Cases that the quick suite skips are marked, and an unknown quick case is an error."""

import pytest

from tests.marks import slow_except


def test_all_cases_except_the_quick_ones_are_slow():
    quick, other = slow_except([("a", 1), ("b", 2)], quick=[("a", 1)])
    assert quick == ("a", 1)
    assert (other.values, [mark.name for mark in other.marks]) == (("b", 2), ["slow"])


def test_an_unknown_quick_case_is_refused():
    with pytest.raises(ValueError, match=r"\['c'\] are not among the cases \['a', 'b'\]"):
        slow_except(["a", "b"], quick=["c"])
