"""Results as JSON Lines: one line for each run, each run in a process of its own, so that none affects the next."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence


def run_and_append(script: str, options: Sequence[object], path: pathlib.Path) -> dict:
    """Run a script, append the last line that it prints to a file, and return the result.

    Args:
        script: the benchmark, which prints the result as one line of JSON.
        options: its command line.
        path: the JSON Lines file.

    Raises:
        subprocess.CalledProcessError: the script failed; the file stays as it is.
    """
    command = [sys.executable, script, *map(str, options)]
    line = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1]
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    print(line, file=sys.stderr, flush=True)
    return json.loads(line)


def read_results(path: pathlib.Path) -> list[dict]:
    """Read the results of earlier runs; none if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
