"""`GrpcService`: the methods of a gRPC service, with the limits, metrics and errors that all share."""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import grpc
from google.protobuf.message import Message

from bert_keras.errors import InputError
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.messages.definitions import find_methods
from bert_keras.serving.protocols.model_calls import UnknownSignatureError
from bert_keras.serving.served_version import ServedVersion
from bert_keras.serving.server_state import ServerState
from bert_keras.serving.worker.jobs import Result, Timings

_CODES = {
    Reason.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.UNSUPPORTED: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.OVERLOADED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Reason.EXPIRED: grpc.StatusCode.DEADLINE_EXCEEDED,
    Reason.EXPIRED_BODY: grpc.StatusCode.DEADLINE_EXCEEDED,
    Reason.FAILED: grpc.StatusCode.INTERNAL,
}


class GrpcCall:
    """One request.

    Attributes:
        server: what all requests share.
        settings: the settings of the server.
        repository: the models.
    """

    def __init__(self, server: ServerState, seconds: float):
        self.server, self.settings, self.repository = server, server.settings, server.repository
        self._deadline = time.monotonic() + seconds
        self.timings = Timings()

    async def run(self, version: ServedVersion, kind: str, inputs: object, **options: object) -> Result:
        """Run a job; gRPC cancels this coroutine if the client leaves, and with it the job.

        Raises:
            ServingError: it has no result.
        """
        result = await version.start(kind, inputs, options, self._deadline)
        self.timings = result.timings
        self.server.metrics.observe_job(version.name, result.timings)
        return result


Answer = Callable[[GrpcCall, Message], Awaitable[Message]]


class _Method(NamedTuple):
    """A method of a service; see `GrpcService.method`."""

    name: str
    answer: Answer
    is_inference: bool
    is_open: bool


async def _handle(method: _Method, server: ServerState, request: Message, context: grpc.aio.ServicerContext) -> Message:
    """Answer a request within the limits of the server; errors become statuses."""
    begin = time.perf_counter()
    left = context.time_remaining()
    seconds = server.settings.timeout if left is None else min(left, server.settings.timeout)
    call = GrpcCall(server, seconds)
    size = request.ByteSize()
    code = grpc.StatusCode.OK
    entry, is_late = None, False
    try:
        if not method.is_open:
            server.settings.check_key(dict(context.invocation_metadata() or ()).get("authorization"))
        if method.is_inference:
            entry = server.admission.enter(size, seconds)
        return await method.answer(call, request)
    except (ServingError, InputError) as error:
        error = error if isinstance(error, ServingError) else ServingError(Reason.INVALID, str(error))
        server.metrics.count_error(error.reason.name.lower())
        is_late = error.reason is Reason.EXPIRED
        # TensorFlow Serving's code for an unknown signature
        is_precondition = isinstance(error, UnknownSignatureError)
        code = grpc.StatusCode.FAILED_PRECONDITION if is_precondition else _CODES[error.reason]
        if error.retry_after is not None:
            context.set_trailing_metadata((("retry-after", str(error.retry_after)),))
        await context.abort(code, str(error))
    except asyncio.CancelledError:
        code = grpc.StatusCode.CANCELLED
        raise
    finally:
        if entry is not None:
            server.admission.leave(entry, compute=call.timings.compute, is_late=is_late)
        if not method.is_open:
            server.metrics.count_request(f"grpc {method.name}", code.value[0], time.perf_counter() - begin)


class GrpcService:
    """A gRPC service whose methods take one request and return one response.

    Args:
        name: its full name in `messages.textproto`, such as "tensorflow.serving.PredictionService".
    """

    def __init__(self, name: str):
        self.name = name
        self._methods: dict[str, _Method] = {}

    def method(self, name: str, *, is_inference: bool = False, is_open: bool = False) -> Callable[[Answer], Answer]:
        """Declare the coroutine function that answers a method.

        Args:
            name: the method.
            is_inference: whether it is work for a model, which an overloaded server refuses.
            is_open: whether it can be called without the API key; such calls are not counted.
        """

        def declare(answer: Answer) -> Answer:
            self._methods[name] = _Method(name, answer, is_inference, is_open)
            return answer

        return declare

    def make_handler(self, server: ServerState) -> grpc.GenericRpcHandler:
        """Return the handler for a `grpc.aio.Server`, which answers UNIMPLEMENTED for methods that are not declared.

        Example:
            >>> GrpcService("inference.GRPCInferenceService").make_handler(server=None).service_name()
            'inference.GRPCInferenceService'
        """
        classes = find_methods(self.name)
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                functools.partial(_handle, method, server),
                request_deserializer=classes[name][0].FromString,
                response_serializer=classes[name][1].SerializeToString,
            )
            for name, method in self._methods.items()
        }
        return grpc.method_handlers_generic_handler(self.name, handlers)
