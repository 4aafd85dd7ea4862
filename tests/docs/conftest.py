"""The built site, and the modules that generate its pages."""

import functools
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

from tests.made_once import made_once

REPOSITORY = pathlib.Path(__file__).parents[2]
sys.path.append(str(REPOSITORY / "docs" / "_site"))  # as MkDocs does when it loads hooks.py


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> pathlib.Path:
    """The folder of the site, built as `make docs` does."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("the packages of the extra docs are not installed; they need Python 3.11")
    return made_once(tmp_path_factory, "site", functools.partial(build, REPOSITORY / "mkdocs.yml"))


def build(config: pathlib.Path, path: pathlib.Path) -> None:
    """Build the site into a folder; warnings are errors."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(config),
        "--site-dir",
        str(path),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "WARNING" not in done.stderr, done.stderr[-4000:]
