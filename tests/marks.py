"""Mark the cases of a test that the quick suite skips."""

from collections.abc import Collection, Iterable

import pytest


def slow_except(cases: Iterable, quick: Collection) -> list:
    """Return the cases of a `parametrize`, with all except those in `quick` marked as slow.

    Raises:
        ValueError: `quick` has an unknown case. So a renamed case cannot drop out of the quick suite.
    """
    cases = list(cases)
    if unknown := [case for case in quick if case not in cases]:
        raise ValueError(f"{unknown} are not among the cases {cases}: choose from these")
    return [case if case in quick else slow(case)[0] for case in cases]


def slow(*cases: object) -> list:
    """Return cases of a `parametrize` marked as slow; a tuple is one case with several values."""
    return [pytest.param(*case if isinstance(case, tuple) else (case,), marks=pytest.mark.slow) for case in cases]
