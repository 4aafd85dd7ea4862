"""Run trainings in child processes: start them, also as two workers, kill them at random, and wait for them."""

import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).parents[2]


def start(script: str, *arguments: object, tf_config: dict | None = None) -> subprocess.Popen:
    """Start a script of this folder, as a worker if `tf_config` is given."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    if tf_config is not None:
        environment["TF_CONFIG"] = json.dumps(tf_config)
    command = [sys.executable, str(REPOSITORY / "tests/training" / script), *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes)


def start_two_workers(script: str, *arguments: object) -> list[subprocess.Popen]:
    """Start a script twice, as the two workers of one training on loopback."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    cluster = {"worker": [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]}
    for one in sockets:
        one.close()
    configs = [{"cluster": cluster, "task": {"type": "worker", "index": index}} for index in range(2)]
    return [start(script, *arguments, "--strategy", "multi-worker", tf_config=config) for config in configs]


def finish(process: subprocess.Popen, out: pathlib.Path) -> dict:
    """Wait for the end of a training, and return the report that it wrote to `out`."""
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors[-3000:]
    return json.loads(out.read_text())


def kill_at_random(process: subprocess.Popen, backups: pathlib.Path, trial: int, num_steps: int) -> None:
    """Kill a training that prints the number of each step, with SIGKILL.

    Args:
        process: started with a pipe as standard output.
        backups: the folder that it writes its backups to.
        trial: draws the moment; every second one is the moment at which something in `backups` changes.
        num_steps: the last step to wait for.
    """
    rng = random.Random(trial)
    wait_for_step(process, rng.randrange(1, num_steps))
    if trial % 2:
        before = sizes(backups)
        while process.poll() is None and sizes(backups) == before:
            time.sleep(0.0005)
    else:
        time.sleep(rng.random() * 0.1)  # a step takes 10 to 30 ms, a backup as long
    process.kill()
    process.communicate()


def wait_for_step(process: subprocess.Popen, step: int) -> None:
    """Wait until the training has printed a number of steps, or has ended."""
    for line in process.stdout:
        if int(line) >= step:
            return


def sizes(folder: pathlib.Path) -> dict[str, int]:
    """Return the size of every file in a folder that may be changing."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                found[f"{path}/{name}"] = os.path.getsize(f"{path}/{name}")
            except FileNotFoundError:
                found[f"{path}/{name}"] = -1
    return found
