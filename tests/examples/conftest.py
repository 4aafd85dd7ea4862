"""Tiny models of the tests of the server."""

from tests.serving.conftest import make_artifacts, make_kind  # noqa: F401  fixtures
