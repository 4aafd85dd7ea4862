"""`WorkerClient`: starts a worker process and exchanges messages with it."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable

from bert_keras.errors import InputError
from bert_keras.extras import make_python_command
from bert_keras.serving.worker.jobs import LoadError, MessageReader, Ready, Result, pack
from bert_keras.serving.worker.model_source import ModelSource

_KILL_SECONDS = 10.0  # that a process has to end after its socket is closed


class WorkerClient(asyncio.Protocol):
    """The connection to one worker process.

    Args:
        source: the model that it loads.
        on_result: called with each result.
        on_end: called once when the process has ended or closed its socket after it was ready.
    """

    def __init__(self, source: ModelSource, on_result: Callable[[Result], None], on_end: Callable[[], None]):
        self._source, self._on_result, self._on_end = source, on_result, on_end
        self._reader = MessageReader()
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen | None = None
        self._loaded: asyncio.Future | None = None
        self._is_closing = False
        self._outgoing: list[object] = []

    @property
    def pid(self) -> int | None:
        """The number of the process."""
        return None if self._process is None else self._process.pid

    async def start(self) -> dict:
        """Start the process and wait until its model is warm; return the model's description.

        Raises:
            InputError: the model cannot be loaded, or the process ended.
        """
        loop = asyncio.get_running_loop()
        self._loaded = loop.create_future()
        ours, theirs = socket.socketpair()
        command = make_python_command("bert_keras.serving.worker.worker_process")
        arguments = [str(theirs.fileno()), json.dumps(self._source._asdict())]
        self._process = subprocess.Popen(
            [*command, *arguments], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno()
        )
        theirs.close()
        await loop.create_connection(lambda: self, sock=ours)
        try:
            return await self._loaded
        except BaseException:
            await self.close()
            raise

    def send(self, message: object) -> None:
        """Send a message, together with the others of this turn of the event loop."""
        self._outgoing.append(message)
        if len(self._outgoing) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    async def close(self) -> None:
        """Close the socket, which ends the process, and wait for it; end it by force if it does not."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.close()
        process, loop = self._process, asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, process.wait, _KILL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            await loop.run_in_executor(None, process.wait)

    def _flush(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(pack(self._outgoing))
        self._outgoing = []

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Store the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Handle messages of the worker."""
        for message in self._reader.feed(data):
            if isinstance(message, Result):
                self._on_result(message)
            elif isinstance(message, Ready):
                self._loaded.set_result(message.description)
            elif isinstance(message, LoadError) and not self._loaded.done():
                self._loaded.set_exception(InputError(message.message))

    def connection_lost(self, error: Exception | None) -> None:
        """Report that the process has ended."""
        if not self._loaded.done():
            self._loaded.set_exception(InputError("the process that loads the model ended: see its messages above"))
        elif not self._is_closing:
            self._on_end()
