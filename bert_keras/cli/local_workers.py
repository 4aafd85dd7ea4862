"""Run several workers of one training on this machine, each a process with its own `TF_CONFIG`."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence

from bert_keras.cli.console.terminal import print_line

_POLL_SECONDS = 0.2
_GRACE_SECONDS = 20.0  # for the other workers to exit after one has failed


def run_workers(command: Sequence[str], num_workers: int) -> int:
    """Run the same command in several processes that train together, and return their exit status.

    The first worker, the chief, prints to the terminal; the output of another one is printed only if it fails. When one
    worker fails, the others are stopped. SIGTERM is forwarded to all of them.

    Args:
        command: command line that each worker runs.
        num_workers: number of workers.

    Returns:
        0, or the exit status of the first worker that failed.
    """
    addresses = [f"127.0.0.1:{port}" for port in _free_ports(num_workers)]
    with contextlib.ExitStack() as files:
        outputs = [files.enter_context(tempfile.TemporaryFile()) for _ in range(num_workers)]
        workers = []
        try:
            for index in range(num_workers):
                config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
                output = {} if index == 0 else {"stdout": outputs[index], "stderr": outputs[index]}
                environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
                workers.append(subprocess.Popen(command, env=environment, **output))
            previous_handler = signal.signal(signal.SIGTERM, lambda *_: _send(workers, signal.SIGTERM))
            status = _wait(workers)
            signal.signal(signal.SIGTERM, previous_handler)
        finally:
            _send(workers, signal.SIGKILL)
            for worker in workers:
                worker.wait()
        for index, worker in enumerate(workers[1:], 1):
            if worker.returncode not in (0, workers[0].returncode, -signal.SIGTERM, -signal.SIGKILL):
                outputs[index].seek(0)
                text = outputs[index].read().decode(errors="replace")
                print_line(f"worker {index} exited with status {worker.returncode}:")
                for line in text.splitlines():
                    print_line(line)
    return status


def _wait(workers: list[subprocess.Popen]) -> int:
    """Wait for all workers, with a time limit once one has failed; return the first failure status, or 0."""
    status, deadline = 0, None
    while any(worker.poll() is None for worker in workers):
        failed = [worker.returncode for worker in workers if worker.returncode]
        if failed and deadline is None:
            status, deadline = failed[0], time.monotonic() + _GRACE_SECONDS
        if deadline is not None and time.monotonic() > deadline:
            _send(workers, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    failed = [worker.returncode for worker in workers if worker.returncode]
    status = status or next(iter(failed), 0)
    return status if status >= 0 else 128 - status


def _send(workers: list[subprocess.Popen], signal_number: int) -> None:
    for worker in workers:
        if worker.poll() is None:
            worker.send_signal(signal_number)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for bound in sockets:
        bound.bind(("127.0.0.1", 0))
    ports = [bound.getsockname()[1] for bound in sockets]
    for bound in sockets:
        bound.close()
    return ports
