"""Real data sets and vocabularies: the folder `shared/data` next to this project, if it exists."""

import pathlib

import pytest

SHARED_DATA = pathlib.Path(__file__).parents[2] / "shared" / "data"


def shared(name: str) -> pathlib.Path:
    """Return the path of a file or folder of `shared/data`; skip the test if it is missing."""
    path = SHARED_DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not on this machine")
    return path
