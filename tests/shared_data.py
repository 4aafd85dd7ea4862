"""Real data sets and vocabularies, where they are at hand: `shared/data`, beside this project."""

import pathlib

import pytest

SHARED_DATA = pathlib.Path(__file__).parents[2] / "shared" / "data"


def shared(name: str) -> pathlib.Path:
    """Returns a file or folder of `shared/data`; skips the test where it is not at hand."""
    path = SHARED_DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not on this machine")
    return path
