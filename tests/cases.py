"""Cases of a test that the quick suite leaves out."""

import pytest


def slow(*cases: object) -> list:
    """Return cases for `pytest.mark.parametrize` for `make test-all` alone; a tuple is a case of several values."""
    return [pytest.param(*case if isinstance(case, tuple) else (case,), marks=pytest.mark.slow) for case in cases]
