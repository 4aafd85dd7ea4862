"""`GrpcCall`: one gRPC request with the limits, metrics and errors that all share; and the handler of a service."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator

import grpc

from bert_keras.errors import InputError
from bert_keras.message_builder import Methods
from bert_keras.serving.errors import Reason, ServingError
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
        settings: the settings of the server.
        repository: the models.
    """

    def __init__(self, server: ServerState, seconds: float):
        self.settings, self.repository = server.settings, server.repository
        self._metrics = server.metrics
        self._deadline = time.monotonic() + seconds
        self.timings = Timings()

    async def run(self, version: ServedVersion, kind: str, inputs: object, **options: object) -> Result:
        """Run a job; gRPC cancels this coroutine if the client leaves, and with it the job.

        Raises:
            ServingError: it has no result.
        """
        result = await version.start(kind, inputs, options, self._deadline)
        self.timings = result.timings
        self._metrics.observe_job(version.name, result.timings)
        return result


@contextlib.asynccontextmanager
async def grpc_call(
    server: ServerState,
    name: str,
    request: object,
    context: grpc.aio.ServicerContext,
    *,
    is_inference: bool = False,
) -> AsyncIterator[GrpcCall]:
    """Answer a gRPC request within the limits of the server; errors become statuses.

    Args:
        server: what all requests share.
        name: the method, for the metrics.
        request: the message.
        context: that of gRPC.
        is_inference: whether it is work for a model, which an overloaded server refuses.
    """
    begin = time.perf_counter()
    left = context.time_remaining()
    seconds = server.settings.timeout if left is None else min(left, server.settings.timeout)
    call = GrpcCall(server, seconds)
    size = request.ByteSize()
    code = grpc.StatusCode.OK
    entry, is_late = None, False
    try:
        server.settings.check_key(dict(context.invocation_metadata() or ()).get("authorization"))
        if is_inference:
            entry = server.admission.enter(size, seconds)
        yield call
    except (ServingError, InputError) as error:
        error = error if isinstance(error, ServingError) else ServingError(Reason.INVALID, str(error))
        server.metrics.count_error(error.reason.name.lower())
        is_late = error.reason is Reason.EXPIRED
        # TensorFlow Serving's code for an unknown signature
        code = grpc.StatusCode.FAILED_PRECONDITION if isinstance(error, UnknownSignatureError) else _CODES[error.reason]
        if error.retry_after is not None:
            context.set_trailing_metadata((("retry-after", str(error.retry_after)),))
        await context.abort(code, str(error))
    except asyncio.CancelledError:
        code = grpc.StatusCode.CANCELLED
        raise
    finally:
        if entry is not None:
            server.admission.leave(entry, compute=call.timings.compute, is_late=is_late)
        server.metrics.count_request(name, code.value[0], time.perf_counter() - begin)


def make_generic_handler(service_name: str, methods: Methods, implementation: object) -> grpc.GenericRpcHandler:
    """Make the handler of a service whose methods take one request and return one response.

    Args:
        service_name: the full name of the service, such as "tensorflow.serving.PredictionService".
        methods: the classes of the request and the response, keyed by method name.
        implementation: an object with a coroutine per method, `async def predict(self, request, context)` for
            `Predict`, which returns the response. gRPC answers UNIMPLEMENTED for methods that it lacks.

    Returns:
        The handler, for `add_generic_rpc_handlers` of a `grpc.aio.Server`.

    Example:
        >>> from google.protobuf.struct_pb2 import Struct
        >>> class Echo:
        ...     async def predict(self, request, context):
        ...         return request
        >>> make_generic_handler("example.Echo", {"Predict": (Struct, Struct)}, Echo()).service_name()
        'example.Echo'
    """
    handlers = {}
    for name, (request_class, response_class) in methods.items():
        coroutine = getattr(implementation, to_snake_case(name), None)
        if coroutine is not None:
            handlers[name] = grpc.unary_unary_rpc_method_handler(
                coroutine,
                request_deserializer=request_class.FromString,
                response_serializer=response_class.SerializeToString,
            )
    return grpc.method_handlers_generic_handler(service_name, handlers)


def to_snake_case(name: str) -> str:
    """Return the Python name of a gRPC method: `get_model_status` for `GetModelStatus`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
