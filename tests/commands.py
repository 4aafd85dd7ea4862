"""Run `bert-keras` in a subprocess."""

import subprocess
import sys
from typing import NamedTuple


class Done(NamedTuple):
    """The result of a process."""

    returncode: int
    stdout: str
    stderr: str


def run_cli(*arguments, cwd) -> Done:
    """Run `bert-keras` in a subprocess and return its result."""
    command = [sys.executable, "-m", "bert_keras.cli.main", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    return Done(done.returncode, done.stdout, done.stderr)
