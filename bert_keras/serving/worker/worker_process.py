"""The worker process, a program with the arguments DESCRIPTOR and SOURCE.

It loads one model, reports that it is ready, and answers jobs until the server closes the socket. The server is the
only one that stops it, so it ignores Ctrl-C and SIGTERM, which a terminal or a container may send to both.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert_keras.errors import InputError
from bert_keras.serving.scheduling import compute_normally, rest_garbage_collector
from bert_keras.serving.worker.jobs import Cancellation, Job, LoadError, MessageReader, Ready, pack

if TYPE_CHECKING:  # all else is imported by a thread of low priority
    from bert_keras.engines.artifact_files import Artifact
    from bert_keras.engines.predictor import Predictor
    from bert_keras.serving.model_folders import ModelSource
    from bert_keras.serving.worker.job_runner import JobRunner

_RECEIVED_BYTES = 1 << 18
_LOWEST_PRIORITY = 19  # "nice"


class _Connection:
    """The socket to the server; several threads may send."""

    def __init__(self, descriptor: int):
        self._socket = socket.socket(fileno=descriptor)
        self._sending = threading.Lock()
        self._reader = MessageReader()

    def send(self, messages: Sequence[object]) -> None:
        """Send messages. If the server is gone, this process ends."""
        data = pack(messages)
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
    """The model of this process, which is loaded by other threads than the one that reads the socket.

    Loading must not slow down the workers that answer meanwhile, so it has the lowest priority, but for engines that
    start threads of their own: those would inherit it.

    Args:
        connection: the socket.
        source: the fields of a `ModelSource`.
    """

    def __init__(self, connection: _Connection, source: dict):
        self._connection, self._fields = connection, source
        self._source: ModelSource | None = None
        self._artifact: Artifact | None = None
        self._predictor: Predictor | None = None
        self._runner: JobRunner | None = None
        self._is_imported, self._is_quick = threading.Event(), False

    def serve(self) -> None:
        """Load the model, and answer jobs until the server closes the socket."""
        threading.Thread(target=self._import_and_load, name="loading", daemon=True).start()
        threading.Thread(target=self._load_after_import, name="loading with threads", daemon=True).start()
        while messages := self._connection.receive():
            if self._runner is None:  # the server sends jobs only after `Ready`; the instances get normal priority
                from bert_keras.serving.worker.job_runner import JobRunner

                self._runner = JobRunner(self._predictor, self._connection.send)
            for message in messages:
                if isinstance(message, Job):
                    self._runner.submit(message)
                elif isinstance(message, Cancellation):
                    self._runner.cancel(message.id)

    def _import_and_load(self) -> None:
        """Import what is needed, and load the model if this thread may, both at low priority."""
        with contextlib.suppress(OSError, AttributeError):  # not on every system
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
        try:
            from bert_keras.serving import model_folders
            from bert_keras.serving.worker import job_runner, model_opening

            del job_runner
            self._source = model_folders.ModelSource(**self._fields)
            self._artifact = model_folders.find_model(self._source)
            self._is_quick = model_opening.runs_in_calling_thread(self._source, self._artifact)
        except Exception as error:
            self._report(error)
            return
        self._is_imported.set()
        if self._is_quick:
            self._load()

    def _load_after_import(self) -> None:
        """Load the model at normal priority, unless the other thread does."""
        self._is_imported.wait()
        if not self._is_quick:
            self._load()

    def _load(self) -> None:
        """Load the model and report that it is ready, or why not."""
        from bert_keras.serving.worker.model_opening import describe_model, open_model, warm_up

        try:
            predictor = open_model(self._source, self._artifact)
            warm_up(predictor)
            description = describe_model(predictor, self._artifact)
        except Exception as error:
            self._report(error)
            return
        rest_garbage_collector()
        self._predictor = predictor
        self._connection.send([Ready(description)])

    def _report(self, error: Exception) -> None:
        """Tell the server what a damaged file or a library raised."""
        message = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        self._connection.send([LoadError(message)])


def main(arguments: list[str]) -> None:
    """Run the worker process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    compute_normally()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the instances use all cores
    _Worker(_Connection(int(arguments[0])), json.loads(arguments[1])).serve()
    os._exit(0)  # running batches have no reader


if __name__ == "__main__":
    main(sys.argv[1:])
