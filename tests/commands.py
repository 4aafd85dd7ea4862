"""`bert-keras` in a process of its own."""

import subprocess
import sys
from typing import NamedTuple


class Done(NamedTuple):
    """What a process did."""

    returncode: int
    stdout: str
    stderr: str


def run_cli(*arguments, cwd) -> Done:
    """Run `bert-keras` in a process of its own and return what it did."""
    command = [sys.executable, "-m", "bert_keras.cli.main", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    return Done(done.returncode, done.stdout, done.stderr)
