"""Which cases of a test the quick suite runs."""

from collections.abc import Collection, Iterable

import pytest


def slow_except(cases: Iterable, quick: Collection) -> list:
    """Return the cases of a `parametrize`: those in `quick` as they are, the others marked slow.

    Raises:
        ValueError: `quick` names something that is no case, so that a renamed case does not leave the quick suite.
    """
    cases = list(cases)
    if unknown := [case for case in quick if case not in cases]:
        raise ValueError(f"{unknown} are not among the cases {cases}: name cases that exist")
    return [case if case in quick else slow(case)[0] for case in cases]


def slow(*cases: object) -> list:
    """Return cases of a `parametrize` that the quick suite leaves out; a tuple is a case of several values."""
    return [pytest.param(*case if isinstance(case, tuple) else (case,), marks=pytest.mark.slow) for case in cases]
