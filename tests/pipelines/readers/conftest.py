"""Fixtures for tests of readers."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Function that writes a file and returns its path."""

    def write_file(name: str, content: bytes):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write_file
