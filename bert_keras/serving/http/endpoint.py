"""`Protocol` and `Endpoint`, what clients can call over HTTP, and `Call`, one request to an endpoint."""

import asyncio
import dataclasses
import functools
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import orjson
import pydantic

from bert_keras.errors import InputError
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.http.request_bodies import decompress, describe_validation_error
from bert_keras.serving.served_version import ServedVersion
from bert_keras.serving.server_state import ServerState
from bert_keras.serving.worker.jobs import Result, Timings

JSON, BINARY = "application/json", "application/octet-stream"
STATUSES = (400, 401, 404, 408, 413, 422, 429, 500, 503, 504)  # of errors of requests to models
Form = TypeVar("Form")
_make_adapter = functools.cache(pydantic.TypeAdapter)
_TIMEOUT_HEADER = b"x-request-timeout"
_WATCH_SECONDS = 0.2  # after which the server looks whether the client still waits


class ClientLeftError(Exception):
    """The client has closed its connection, so nobody reads an answer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """An answer.

    Attributes:
        body: its bytes.
        status: the HTTP status.
        content_type: the type of the body.
        headers: further headers, in lower case.
    """

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


FormatError = Callable[[ServingError], tuple[int, object]]  # returns the status and the JSON body
Handler = Callable[["Call"], Awaitable[Reply]]  # answers a call


def format_plain_error(error: ServingError) -> tuple[int, object]:
    """Return the status and the body of an error of our own endpoints."""
    return error.reason.value, {"error": str(error)}


@dataclasses.dataclass(frozen=True, eq=False)
class Endpoint:
    """Something that clients can call.

    Attributes:
        method: GET or POST.
        path: with parameters as in Starlette, `/v1/models/{name}`.
        handler: answers a call.
        summary: one line for the page of the API.
        protocol: the protocol that it belongs to.
        body: the pydantic model or type of the JSON body; None: no body, or not JSON.
        answer: the pydantic model or type of the answer; None: not JSON.
        statuses: the statuses of errors.
        example: a body, for the page.
        is_open: whether it can be called without the API key.
        has_binary: whether bodies and answers can also be binary.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    protocol: "Protocol"
    body: Any = None
    answer: Any = dict
    statuses: tuple[int, ...] = ()
    example: object = None
    is_open: bool = False
    has_binary: bool = False

    @property
    def is_inference(self) -> bool:
        """Whether its calls are counted and limited as work for a model."""
        return self.method == "POST"


class Protocol:
    """The endpoints of a protocol; `get` and `post` are decorators of the functions that answer calls.

    Args:
        tag: its name on the page of the API.
        format_error: writes errors as its clients expect them.
        statuses: the statuses of errors of requests to models.
    """

    def __init__(self, tag: str, format_error: FormatError = format_plain_error, statuses: tuple[int, ...] = STATUSES):
        self.tag, self.format_error = tag, format_error
        self.endpoints: list[Endpoint] = []
        self._statuses = statuses

    def get(self, *paths: str, **fields: Any) -> Callable[[Handler], Handler]:
        """Declare the paths at which a function answers; the arguments are fields of `Endpoint`."""
        return self._declare("GET", paths, **fields)

    def post(self, *paths: str, body: Any, **fields: Any) -> Callable[[Handler], Handler]:
        """Declare the paths at which a function answers requests to models, as `get` does."""
        _make_adapter(body)  # now, so that the first client does not wait for it
        return self._declare("POST", paths, body=body, statuses=self._statuses, **fields)

    def _declare(self, method: str, paths: tuple[str, ...], **fields: Any) -> Callable[[Handler], Handler]:
        def declare(handler: Handler) -> Handler:
            self.endpoints += [Endpoint(method, path, handler, protocol=self, **fields) for path in paths]
            return handler

        return declare


class Call:
    """One request to an endpoint.

    Attributes:
        server: what all requests share.
        scope: what ASGI says about the request.
        repository: the models.
        settings: the settings of the server.
        body: the bytes of the request.
        parameters: those of the path.
        deadline: the time, of `time.monotonic`, until which the client waits.
        timings: where the time of its jobs went, the sum of all.
        model_name: the model that answered; None: none has.
    """

    def __init__(self, server: ServerState, scope: Mapping, receive: Callable):
        self.server, self.repository, self.settings = server, server.repository, server.settings
        self.scope, self._receive = scope, receive
        self.body = b""
        self.parameters: Mapping[str, str] = scope.get("path_params", {})
        self.deadline = time.monotonic() + read_timeout(scope, self.settings.timeout)
        self.timings = Timings()
        self.model_name: str | None = None

    async def read_body(self) -> None:
        """Read the body, and decompress it if it is compressed.

        Raises:
            ServingError: it is too large or damaged, or comes too slowly.
            ClientLeftError: the client has left.
        """
        self.body, is_complete = await self._read_chunk(0)
        if not is_complete:
            try:
                self.body = await asyncio.wait_for(self._read_rest(self.body), self.settings.timeout)
            except asyncio.TimeoutError:  # not an alias of TimeoutError in Python 3.10
                raise ServingError(
                    Reason.EXPIRED_BODY,
                    f"the request did not arrive within {self.settings.timeout:g} s; send it faster",
                ) from None
        encoding = get_header(self.scope, b"content-encoding")
        if encoding and encoding.lower() != "identity":
            limit = self.settings.max_payload
            self.body = decompress(self.body, encoding.lower(), limit)
            check_payload(len(self.body), limit)

    async def _read_rest(self, first: bytes) -> bytes:
        chunks, size, is_complete = [first], len(first), False
        while not is_complete:
            chunk, is_complete = await self._read_chunk(size)
            size += len(chunk)
            chunks.append(chunk)
        return b"".join(chunks)

    async def _read_chunk(self, size_before: int) -> tuple[bytes, bool]:
        """Return the next part of the body, and whether it is the last."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        chunk = message.get("body", b"")
        check_payload(size_before + len(chunk), self.settings.max_payload)
        return chunk, not message.get("more_body", False)

    def parse(self, form: type[Form]) -> Form:
        """Return the JSON body as an object of a form, a pydantic model or type.

        Raises:
            InputError: it is not JSON, or not what the endpoint expects.
        """
        try:
            return _make_adapter(form).validate_json(self.body)
        except pydantic.ValidationError as error:
            raise InputError(describe_validation_error(error)) from None

    async def run(self, version: ServedVersion, kind: str, inputs: object, **options: object) -> Result:
        """Run a job, and cancel it if the client leaves and the job takes longer than a moment.

        Raises:
            ServingError: it has no result.
            ClientLeftError: the client has left.
        """
        future = version.start(kind, inputs, options, self.deadline)
        watch = _Watch(self._receive, future)
        try:
            result = await future
        except asyncio.CancelledError:
            if watch.has_left:
                raise ClientLeftError from None
            raise
        finally:
            watch.stop()
        timings = map(sum, zip(self.timings, result.timings, strict=True))  # of all jobs of the request
        self.model_name, self.timings = version.name, Timings(*timings)
        return result


class _Watch:
    """Cancels a future when the client leaves, because `receive` returns then; begins late, after most answers."""

    def __init__(self, receive: Callable, future: asyncio.Future):
        self._receive, self._future = receive, future
        self.has_left = False
        self._task: asyncio.Task | None = None
        self._timer = asyncio.get_running_loop().call_later(_WATCH_SECONDS, self._start)

    def stop(self) -> None:
        """Watch no longer."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        self._task = asyncio.ensure_future(self._wait())

    async def _wait(self) -> None:
        await self._receive()
        self.has_left = True
        self._future.cancel()


def make_json_reply(value: object, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Reply:
    """Return a JSON answer; arrays of NumPy are allowed."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    # the default is for arrays of strings, in another byte order, or not contiguous
    body = orjson.dumps(value, option=options, default=lambda array: array.tolist())
    return Reply(body, status, headers=headers)


def check_payload(size: int, limit: int) -> None:
    """Raise `ServingError` if a request has too many bytes."""
    if size > limit:
        raise ServingError(
            Reason.TOO_LARGE,
            f"the request has more than {limit:,} bytes; send fewer or shorter texts, or start the server with a "
            "higher --max-payload",
        )


def check_number_of_texts(number: int, limit: int) -> None:
    """Raise `ServingError` if a request has too many texts."""
    if number > limit:
        raise ServingError(
            Reason.TOO_LARGE,
            f"the request has {number:,} texts; expected at most {limit:,}: send several requests, or start the server "
            "with a higher --max-texts",
        )


def get_header(scope: Mapping, name: bytes) -> str | None:
    """Return a header of a request, named in lower case; None without it."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return None


def read_timeout(scope: Mapping, default: float) -> float:
    """Return the seconds that a request may take: its header `x-request-timeout`, but at most the default."""
    value = get_header(scope, _TIMEOUT_HEADER)
    if value is None:
        return default
    try:
        seconds = float(value)
    except ValueError:
        return default
    return min(seconds, default) if seconds > 0 else default
