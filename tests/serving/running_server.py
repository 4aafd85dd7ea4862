"""`RunningServer`: `bert-keras serve` in a process of its own, as users run it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping

import httpx

from benchmarks.process_usage import read_processes

STOP_SECONDS = 60  # a test fails if the server takes longer to stop
_CONTEXT = httpx.create_ssl_context()  # httpx would make one for each request, which takes 50 ms


class RunningServer:
    """A server and its address. Use it as a context manager.

    Args:
        models: folders, keyed by name.
        *options: options of the command.
        environment: variables to set.

    Attributes:
        url: of HTTP, without a path.
        grpc_address: HOST:PORT.
        process: the process.
    """

    def __init__(self, models: Mapping[str, os.PathLike], *options: str, environment: Mapping[str, str] | None = None):
        named = [word for name, folder in models.items() for word in ("--model", f"{name}={folder}")]
        command = [sys.executable, "-m", "bert_keras.cli.main", "serve", *named, "--port", "0", "--grpc-port", "0"]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed by `__exit__`
        self.process = subprocess.Popen(
            [*command, "--json", *options],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        )
        line = self.process.stdout.readline()  # the ports, when the server is ready
        if not line:
            raise RuntimeError(f"the server did not start: {self.read_log()}")
        ports = json.loads(line)
        scheme = "https" if "--tls-cert" in options else "http"
        self.url, self.grpc_address = f"{scheme}://127.0.0.1:{ports['http']}", f"127.0.0.1:{ports['grpc']}"

    def __enter__(self) -> "RunningServer":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()
        self.process.stdout.close()
        self._log.close()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not stop: {self.read_log()}") from None

    def read_log(self) -> str:
        """Return what the server has printed."""
        self._log.seek(0)
        return self._log.read()

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        """Send a JSON body."""
        return self.request("POST", path, json=body, headers=headers)

    def get(self, path: str) -> httpx.Response:
        """Send a GET request."""
        return self.request("GET", path)

    def request(self, method: str, path: str, **options: object) -> httpx.Response:
        """Send a request with any options of `httpx.request`, on a connection of its own."""
        return httpx.request(method, self.url + path, timeout=60, verify=_CONTEXT, **options)

    def list_workers(self) -> list[int]:
        """Return the numbers of the worker processes."""
        _, children = read_processes()
        return children.get(self.process.pid, [])
