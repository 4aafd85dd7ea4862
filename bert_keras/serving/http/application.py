"""The ASGI application: limits, identity and metrics of each request, and the routes to the endpoints."""

import time
from collections.abc import Callable, Mapping, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bert_keras.errors import InputError
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.http.endpoint import (
    Call,
    ClientLeftError,
    Endpoint,
    Reply,
    check_payload,
    get_header,
    make_json_reply,
    read_timeout,
)
from bert_keras.serving.server_state import ServerState

_TIME_HEADERS = (b"x-total-time", b"x-queue-time", b"x-tokenization-time", b"x-inference-time")
_MAX_ID_LENGTH = 128  # characters of a client's request id


class _EndpointApplication:
    """The ASGI application of one endpoint: reads the request, answers it, and counts it."""

    def __init__(self, server: ServerState, endpoint: Endpoint):
        self._server, self._endpoint = server, endpoint

    async def __call__(self, scope: Mapping, receive: Callable, send: Callable) -> None:
        """Answer a request."""
        server, endpoint = self._server, self._endpoint
        begin = time.perf_counter()
        call = Call(server, scope, receive)
        try:
            reply = await self._answer(call, scope)
        except ClientLeftError:
            server.metrics.count_error("client left")
            server.metrics.count_request(endpoint.path, 499, time.perf_counter() - begin)
            return
        except ServingError as error:
            reply = self._make_error_reply(error)
        except InputError as error:
            reply = self._make_error_reply(ServingError(Reason.INVALID, str(error)))
        except Exception as error:
            server.log(f"error in {endpoint.path}: {type(error).__name__}: {error}")
            failure = ServingError(Reason.FAILED, "the server failed on this request; see its log")
            reply = self._make_error_reply(failure)
        seconds = time.perf_counter() - begin
        server.metrics.count_request(endpoint.path, reply.status, seconds)
        if call.model_name is not None:
            server.metrics.observe_job(call.model_name, call.timings)
        if server.tracer is not None:
            names = ("traceparent", "tracestate")
            parents = {name: value for name in names if (value := get_header(scope, name.encode())) is not None}
            name, began = f"{scope['method']} {endpoint.path}", time.time() - seconds
            server.tracer.record(name, began, reply.status, parents, call.model_name, call.timings)
        request_id = get_header(scope, b"x-request-id") or server.make_id()
        if server.settings.access_log:
            client = (scope.get("client") or ("-",))[0]
            request = f"{scope['method']} {scope['path']}"
            server.log(f"{request_id[:_MAX_ID_LENGTH]} {client} {request} {reply.status} {seconds * 1e3:.1f} ms")
        headers = _make_headers(reply, request_id, call, seconds)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    async def _answer(self, call: Call, scope: Mapping) -> Reply:
        server, endpoint = self._server, self._endpoint
        if not endpoint.is_open:
            server.settings.check_key(get_header(scope, b"authorization"))
        if not endpoint.is_inference:
            return await endpoint.handler(call)
        length = get_header(scope, b"content-length") or ""  # none for a body in chunks
        size = int(length) if length.isdecimal() else 0
        check_payload(size, server.settings.max_payload)
        entry, is_late = server.admission.enter(size, read_timeout(scope, server.settings.timeout)), False
        try:
            await call.read_body()
            return await endpoint.handler(call)
        except ServingError as error:
            is_late = error.reason is Reason.EXPIRED
            raise
        finally:
            server.admission.leave(entry, compute=call.timings.compute, is_late=is_late)

    def _make_error_reply(self, error: ServingError) -> Reply:
        self._server.metrics.count_error(error.reason.name.lower())
        status, body = self._endpoint.protocol.format_error(error)
        headers = () if error.retry_after is None else ((b"retry-after", str(error.retry_after).encode()),)
        if error.reason is Reason.UNAUTHORIZED:
            headers = ((b"www-authenticate", b"Bearer"),)
        return make_json_reply(body, status, headers)


def make_application(server: ServerState, endpoints: Sequence[Endpoint]) -> Callable:
    """Return the ASGI application of all endpoints.

    Args:
        server: what all requests share.
        endpoints: what clients can call.
    """
    own = {(endpoint.method, endpoint.path): _EndpointApplication(server, endpoint) for endpoint in endpoints}
    routes = [Route(path, application, methods=[method]) for (method, path), application in own.items()]
    fixed = {key: application for key, application in own.items() if "{" not in key[1]}
    others = Starlette(routes=routes, exception_handlers={HTTPException: _describe_http_error})

    async def dispatch(scope: Mapping, receive: Callable, send: Callable) -> None:
        """Find endpoints without parameters in their paths; Starlette's routing takes longer than the endpoint."""
        application = others
        if scope["type"] == "http":
            application = fixed.get((scope["method"], scope["path"]), others)
        await application(scope, receive, send)

    if not server.settings.cors_origins:
        return dispatch
    origins, every = list(server.settings.cors_origins), ["*"]
    return CORSMiddleware(dispatch, origins, allow_methods=["GET", "POST"], allow_headers=every, expose_headers=every)


async def _describe_http_error(request: Request, error: Exception) -> JSONResponse:
    """Answer requests that no endpoint matches."""
    message = {
        404: f"there is nothing at {request.url.path}; /docs lists what can be called",
        405: f"{request.url.path} cannot be called with {request.method}; /docs lists how",
    }.get(error.status_code, str(error.detail))
    return JSONResponse({"error": message}, error.status_code, headers=error.headers)


def _make_headers(reply: Reply, request_id: str, call: Call, seconds: float) -> list[tuple[bytes, bytes]]:
    headers = [
        (b"content-type", reply.content_type.encode()),
        (b"content-length", str(len(reply.body)).encode()),
        (b"x-request-id", request_id[:_MAX_ID_LENGTH].encode("latin-1", "replace")),
        *reply.headers,
    ]
    if call.model_name is not None:  # the names of Text Embeddings Inference; milliseconds
        timings = call.timings
        values = (seconds, timings.queue, timings.tokenization, timings.inference)
        headers += [(name, b"%.2f" % (1e3 * value)) for name, value in zip(_TIME_HEADERS, values, strict=True)]
        headers.append((b"x-compute-tokens", b"%d" % timings.num_tokens))
    return headers
