"""Client side of HTTP/1.1: a connection that sends one request at a time, and a parser of answers.

General HTTP clients take more CPU time per request than the servers that the load tests measure.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Any, NamedTuple


class Connection(asyncio.Protocol):
    """A connection that sends one request at a time.

    Attributes:
        transport: the transport of the event loop.
        request: the request in progress, any object; None if the connection is free.

    Args:
        on_answer: called with the connection, the request and the complete answer.
        on_lost: called once with the connection, the request in progress or None, and the kind of error.
    """

    transport: asyncio.Transport

    def __init__(
        self,
        on_answer: Callable[["Connection", Any, "Answer"], None],
        on_lost: Callable[["Connection", Any, str], None],
    ):
        self._on_answer, self._on_lost, self._parser = on_answer, on_lost, AnswerParser()
        self.request: Any = None
        self._error = "closed"

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def send(self, request: Any, content: bytes) -> None:
        """Send the content of a request: its head and its body."""
        self.request = request
        self.transport.write(content)

    def fail(self, error: str) -> None:
        """Close the connection, and report an error for the request in progress."""
        self._error = error
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            answer = self._parser.feed(data)
        except InvalidAnswerError:
            self.fail("invalid answer")
        else:
            self._receive(answer)

    def eof_received(self) -> None:
        self._receive(self._parser.end())  # the transport closes afterwards

    def connection_lost(self, error: Exception | None) -> None:
        request, self.request = self.request, None
        self._on_lost(self, request, "reset" if error is not None else self._error)

    def _receive(self, answer: "Answer | None") -> None:
        if answer is not None and self.request is not None:
            request, self.request = self.request, None
            self._on_answer(self, request, answer)


class Answer(NamedTuple):
    """An HTTP answer; the server closes the connection after the last one."""

    status: int
    body: bytes
    is_last: bool


class InvalidAnswerError(ValueError):
    """Bytes of a server that are not an HTTP/1.1 answer."""


class AnswerParser:
    """Parser of one HTTP/1.1 answer after the other, with Content-Length, in chunks or up to the connection's end."""

    _STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})[ \r]")
    _LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE)
    _CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked", re.IGNORECASE)
    _CONNECTION = re.compile(rb"\r\nconnection:[ \t]*(close|keep-alive)", re.IGNORECASE)

    def __init__(self):
        self._data = bytearray()
        self._start_answer()

    def _start_answer(self) -> None:
        self._status = 0  # 0 until the head is complete
        self._length: int | None = None  # of the body; None in chunks and if it ends with the connection
        self._is_chunked = self._is_last = False
        self._chunks = bytearray()

    def feed(self, data: bytes) -> Answer | None:
        """Add what was received; return the answer when it is complete.

        Raises:
            InvalidAnswerError: the bytes are not an HTTP/1.1 answer, or more than one.
        """
        self._data += data
        if not self._status and not self._read_head():
            return None
        if self._is_chunked:
            body = self._read_chunks()
        elif self._length is None or len(self._data) < self._length:
            return None
        else:
            body = bytes(self._data[: self._length])
            del self._data[: self._length]
        if body is not None and self._data:
            raise InvalidAnswerError(f"{len(self._data)} bytes follow the answer")
        return None if body is None else self._finish(body)

    def end(self) -> Answer | None:
        """Return the answer that ends with the connection, if there is one."""
        if not self._status or self._is_chunked or self._length is not None:
            return None
        return self._finish(bytes(self._data))

    def _finish(self, body: bytes) -> Answer:
        answer = Answer(self._status, body, self._is_last)
        self._data.clear()
        self._start_answer()
        return answer

    def _read_head(self) -> bool:
        """Read the status and the headers; return whether they are complete. Answers 1xx are skipped."""
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(self._data[: end + 2])
        del self._data[: end + 4]
        status = self._STATUS.match(head)
        if status is None:
            raise InvalidAnswerError(f"the answer begins with {head[:40]!r}")
        if status[2].startswith(b"1"):
            return self._read_head()
        self._status = int(status[2])
        self._is_chunked = self._CHUNKED.search(head) is not None
        length = self._LENGTH.search(head)
        if self._status in (204, 304):
            self._length = 0
        elif length and not self._is_chunked:
            self._length = int(length[1])
        connection = self._CONNECTION.search(head)
        keeps = connection[1].lower() == b"keep-alive" if connection else status[1] == b"1"
        self._is_last = not keeps or (self._length is None and not self._is_chunked)
        return True

    def _read_chunks(self) -> bytes | None:
        """Collect the chunks that are complete; return the body after the last one, which is empty."""
        while (end := self._data.find(b"\r\n")) >= 0:
            try:
                length = int(self._data[:end].partition(b";")[0], 16)
            except ValueError:
                raise InvalidAnswerError(f"the length of a chunk is {bytes(self._data[:40])!r}") from None
            if length == 0:
                last = self._data.find(b"\r\n\r\n")  # trailers can precede it
                if last < 0:
                    return None
                del self._data[: last + 4]
                return bytes(self._chunks)
            if len(self._data) < end + 2 + length + 2:
                return None
            self._chunks += self._data[end + 2 : end + 2 + length]
            del self._data[: end + 2 + length + 2]
        return None
