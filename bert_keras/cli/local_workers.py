"""Several workers of one training on this machine: each a process with a `TF_CONFIG` of its own."""

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
_GRACE_SECONDS = 20.0  # for workers to end by themselves once one of them has failed


def run_workers(command: Sequence[str], num_workers: int) -> int:
    """Runs the same command in several processes that train together, and returns their exit status.

    The first one, the chief, prints as if it were alone; what another one says is shown when it fails. If one fails,
    the others are ended. SIGTERM is handed on to all.

    Args:
        command: what each runs.
        num_workers: how many.
    """
    addresses = [f"127.0.0.1:{port}" for port in _free_ports(num_workers)]
    with contextlib.ExitStack() as files:
        said = [files.enter_context(tempfile.TemporaryFile()) for _ in range(num_workers)]
        workers = []
        try:
            for index in range(num_workers):
                config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
                output = {} if index == 0 else {"stdout": said[index], "stderr": said[index]}
                environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
                workers.append(subprocess.Popen(command, env=environment, **output))
            before = signal.signal(signal.SIGTERM, lambda *_: _send(workers, signal.SIGTERM))
            status = _wait(workers)
            signal.signal(signal.SIGTERM, before)
        finally:
            _send(workers, signal.SIGKILL)
            for worker in workers:
                worker.wait()
        for index, worker in enumerate(workers[1:], 1):
            if worker.returncode not in (0, workers[0].returncode, -signal.SIGTERM, -signal.SIGKILL):
                said[index].seek(0)
                text = said[index].read().decode(errors="replace")
                print_line(f"worker {index} ended with status {worker.returncode}:")
                for line in text.splitlines():
                    print_line(line)
    return status


def _wait(workers: list[subprocess.Popen]) -> int:
    """Waits for all; once one has failed, the others get a while. Returns the first failure, 0 if there is none."""
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


def _send(workers: list[subprocess.Popen], number: int) -> None:
    for worker in workers:
        if worker.poll() is None:
            worker.send_signal(number)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
