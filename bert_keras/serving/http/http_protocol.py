"""`make_http_protocol`: uvicorn's protocol for HTTP/1.1, cheaper for many short requests, and with limits for heads.

The head and the body of an answer leave in one packet. A full server refuses requests before uvicorn starts a task for
them: at ten times the load that it can answer, refusals are most of its work. And a client that sends a head without an
end loses its connection.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bert_keras.serving.errors import Reason
from bert_keras.serving.http.endpoint import Endpoint, FormatError, format_plain_error, make_json_reply
from bert_keras.serving.server_state import ServerState

_SAME_SECONDS = 0.1  # in which refusals have the same text
_MAX_HEAD_BYTES = 1 << 16  # of a request's first line and headers; a web page has no reason to send more


def make_http_protocol(server: ServerState, endpoints: Sequence[Endpoint]) -> type[HttpToolsProtocol]:
    """Return the class of the protocol.

    Args:
        server: what all requests share.
        endpoints: those whose protocols have their own form of errors.
    """
    return type("HttpProtocol", (_HttpProtocol,), {"refusals": _Refusals(server, endpoints)})


class _Refusals:
    """Decides which requests are refused, and writes the answers."""

    def __init__(self, server: ServerState, endpoints: Sequence[Endpoint]):
        self._server = server
        self._formats: Mapping[bytes, FormatError] = {
            endpoint.path.encode(): endpoint.protocol.format_error for endpoint in endpoints if endpoint.is_inference
        }
        self._answers: dict[FormatError, bytes] = {}  # those of a moment
        self._end = 0.0
        self.timeout = server.settings.timeout
        self._is_possible = not server.settings.cors_origins  # else the application refuses, with CORS headers

    def must_refuse(self, method: bytes) -> bool:
        """Whether a request with this method is refused."""
        return method == b"POST" and self._is_possible and self._server.admission.must_refuse(self.timeout)

    def make_answer(self, url: bytes, *, keep_alive: bool) -> bytes:
        """Count a refusal and return the bytes of its answer."""
        now = time.monotonic()
        if now > self._end:
            self._answers.clear()
            self._end = now + _SAME_SECONDS
        path = httptools.parse_url(url).path
        format_error = self._formats.get(path, format_plain_error)
        answer = self._answers.get(format_error)
        if answer is None:
            error = self._server.admission.make_refusal()
            header, value = b"retry-after: %d" % error.retry_after, format_error(error)[1]
            answer = self._answers[format_error] = _encode_answer(b"429 Too Many Requests", value, header)
        metrics = self._server.metrics
        metrics.count_error("overloaded")
        metrics.count_request("refused", Reason.OVERLOADED.value)
        return answer if keep_alive else answer.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)


class _HttpProtocol(HttpToolsProtocol):
    """One connection. `refusals` is set by `make_http_protocol`."""

    refusals: _Refusals
    _is_refused = False  # whether the request that is being read is refused
    _is_head = False  # whether the head of a request is being read
    _head_bytes = 0
    _unfinished: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Wrap the transport."""
        super().connection_made(_JoiningTransport(transport, self.loop))

    def connection_lost(self, error: Exception | None) -> None:
        """Stop waiting for the rest of a request."""
        self._is_refused = self._is_head = False
        self._stop_timer()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; a head or a refused body that never ends must not hold the connection."""
        was_head = self._is_head
        super().data_received(data)
        if self._is_head:
            self._head_bytes += len(data) if was_head else 0  # the packet can contain an earlier request, too
            if self._head_bytes > _MAX_HEAD_BYTES:
                if self.cycle is None or self.cycle.response_complete:
                    error = {"error": f"the headers have more than {_MAX_HEAD_BYTES:,} bytes; send fewer"}
                    status = b"431 Request Header Fields Too Large"
                    self.transport.write(_encode_answer(status, error, b"connection: close"))
                self.transport.close()
        if (self._is_refused or self._is_head) and self._unfinished is None:
            self._unfinished = self.loop.call_later(self.refusals.timeout, self.transport.close)

    def on_message_begin(self) -> None:
        """Start to read a head."""
        self._is_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start a request, or refuse it if the connection has no other one."""
        self._is_head = False
        self._stop_timer()
        is_free = self.cycle is None or self.cycle.response_complete
        is_simple = is_free and not self.expect_100_continue  # otherwise the application refuses it
        self._is_refused = is_simple and self.refusals.must_refuse(self.parser.get_method())
        if not self._is_refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body, unless the request is refused."""
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request; only now a refused one is answered, because some clients write all before they read."""
        if not self._is_refused:
            super().on_message_complete()
            return
        self._is_refused = False
        self._stop_timer()
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        self.transport.write(self.refusals.make_answer(self.url, keep_alive=keep_alive))
        if not keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _stop_timer(self) -> None:
        if self._unfinished is not None:
            self._unfinished.cancel()
            self._unfinished = None


def _encode_answer(status: bytes, value: object, header: bytes) -> bytes:
    """Return an answer with a JSON body, and one header besides those of the body."""
    body = make_json_reply(value).body
    head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%s\r\n\r\n"
    return head % (status, len(body), header) + body


class _JoiningTransport:
    """A transport that sends two writes of the same moment in one packet."""

    __slots__ = ("_first", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop):
        self._transport, self._loop = transport, loop
        self._first: bytes | None = None

    def write(self, data: bytes) -> None:
        """Send data, together with the next data if there are some in this turn of the event loop."""
        if self._first is None:
            self._first = data
            self._loop.call_soon(self._flush)
        else:
            first, self._first = self._first, None
            self._transport.writelines((first, data))

    def close(self) -> None:
        """Close the connection after everything is sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._first is not None:
            first, self._first = self._first, None
            self._transport.write(first)

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)
