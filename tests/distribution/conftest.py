"""Fixture that trains every head in a separate process, because TensorFlow fixes its devices when it starts."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).with_name("train_heads.py")
REPOSITORY = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="session")
def train_heads():
    """Function that trains all heads with options of `train_heads.py`; returns the printed results, keyed by head."""
    done = {}

    def train(*options: str) -> dict:
        if options not in done:
            path = [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
            command = [sys.executable, str(SCRIPT), *options]
            ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)
            assert ended.returncode == 0, ended.stderr[-4000:]
            done[options] = json.loads(ended.stdout.splitlines()[-1])
        return done[options]

    return train
