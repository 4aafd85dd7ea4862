"""The worker process: `python -m bert_keras.serving.worker.worker_process DESCRIPTOR SOURCE`.

It loads one model, reports that it is ready, and answers jobs until the server closes the socket. The server is the
only one that stops it, so it ignores Ctrl-C and SIGTERM, which a terminal or a container may send to both.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable

from bert_keras.errors import InputError
from bert_keras.serving.worker.job_runner import JobRunner
from bert_keras.serving.worker.jobs import Cancellation, Job, LoadError, MessageReader, Ready, Result, pack
from bert_keras.serving.worker.model_opening import (
    OpenModel,
    describe_model,
    open_model,
    runs_in_calling_thread,
    warm_up,
)
from bert_keras.serving.worker.model_source import ModelSource

_RECEIVED_BYTES = 1 << 18
_LOWEST_PRIORITY = 19  # "nice"


class _Connection:
    """The socket to the server; several threads may send."""

    def __init__(self, descriptor: int):
        self._socket = socket.socket(fileno=descriptor)
        self._sending = threading.Lock()
        self._reader = MessageReader()

    def send(self, messages: Iterable[object]) -> None:
        """Send messages. If the server is gone, this process ends."""
        data = b"".join(map(pack, messages))
        with self._sending:
            try:
                self._socket.sendall(data)
            except OSError:
                os._exit(0)

    def receive(self) -> list[object]:
        """Wait for messages and return them; empty if the server has closed the socket."""
        while True:
            data = self._socket.recv(_RECEIVED_BYTES)
            messages = list(self._reader.feed(data))
            if messages or not data:
                return messages


class _Worker:
    """The model of this process, which is loaded by another thread than the one that reads the socket."""

    def __init__(self, connection: _Connection, source: dict):
        self._connection = connection
        self._source = ModelSource(**source)
        self._runner: JobRunner | None = None

    def load(self) -> None:
        """Load the model and report that it is ready, or why not.

        Loading must not slow down the workers that answer meanwhile, so it has the lowest priority, unless the engine
        starts threads of its own, which would inherit it.
        """
        try:
            if runs_in_calling_thread(self._source):
                with contextlib.suppress(OSError, AttributeError):  # not on every system
                    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
            model = open_model(self._source)
            warm_up(model.predictor)
            description = describe_model(model)
        except Exception as error:  # whatever a damaged file or a library raises, the server must know
            message = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            self._connection.send([LoadError(message)])
            return
        self._model = model
        self._connection.send([Ready(description)])

    def start(self, model: OpenModel) -> None:
        """Start the instances, in threads of normal priority."""
        self._runner = JobRunner(model.predictor, model.get_engine(), self._send)

    def serve(self) -> None:
        """Answer jobs until the server closes the socket."""
        while messages := self._connection.receive():
            for message in messages:
                if self._runner is None:  # the server sends jobs only after `Ready`
                    self.start(self._model)
                if isinstance(message, Job):
                    self._runner.submit(message)
                elif isinstance(message, Cancellation):
                    self._runner.cancel(message.id)

    def _send(self, results: list[Result]) -> None:
        self._connection.send(results)


def main(arguments: list[str]) -> None:
    """Run the worker process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the instances use all cores
    worker = _Worker(_Connection(int(arguments[0])), json.loads(arguments[1]))
    threading.Thread(target=worker.load, name="loading", daemon=True).start()
    worker.serve()
    os._exit(0)  # running batches have no reader


if __name__ == "__main__":
    main(sys.argv[1:])
