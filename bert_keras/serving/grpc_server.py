"""The gRPC server: TensorFlow Serving's services, the Open Inference Protocol (Triton), and the health protocol.

https://github.com/tensorflow/serving/tree/master/tensorflow_serving/apis

Load balancers and Kubernetes ask the health protocol whether a server is ready.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message

from bert_keras import __version__
from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.messages import tensors
from bert_keras.serving.messages.definitions import MESSAGES, find_methods
from bert_keras.serving.protocols import tensorflow_serving_rest
from bert_keras.serving.protocols.model_calls import SERVING_DEFAULT, UnknownSignatureError, read_version, run_signature
from bert_keras.serving.protocols.open_inference_rest import describe_model, infer
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


# versions are loaded when they appear, so ModelService has no request that loads them
_PREDICTION = GrpcService("tensorflow.serving.PredictionService")
_MODEL = GrpcService("tensorflow.serving.ModelService")
_INFERENCE = GrpcService("inference.GRPCInferenceService")
_HEALTH = GrpcService("grpc.health.v1.Health")
SERVICES = (_PREDICTION, _MODEL, _INFERENCE, _HEALTH)


async def start_grpc_server(server: ServerState) -> tuple[grpc.aio.Server, int]:
    """Start the server and return it with its port.

    Raises:
        InputError: the port is taken.
    """
    settings = server.settings
    options = [
        ("grpc.max_receive_message_length", settings.max_payload),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
    ]
    running = grpc.aio.server(options=options)
    running.add_generic_rpc_handlers([service.make_handler(server) for service in SERVICES])
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"{host}:{settings.grpc_port}"
    try:
        if settings.tls_certificate is None:
            port = running.add_insecure_port(address)
        else:
            pair = settings.tls_key.read_bytes(), settings.tls_certificate.read_bytes()
            port = running.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except RuntimeError:
        raise InputError(
            f"{address} cannot be opened for gRPC; expected a free port of this machine: choose another one with "
            "--grpc-port"
        ) from None
    await running.start()
    return running, port


@_PREDICTION.method("Predict", is_inference=True)
async def _predict(call: GrpcCall, request: Message) -> Message:
    version = _find_version(call, request.model_spec)
    signature = request.model_spec.signature_name or SERVING_DEFAULT
    if len(set(request.output_filter)) < len(request.output_filter):
        raise InputError(f"output_filter is {quote(list(request.output_filter))}; expected each output once")
    inputs = {
        name: tensors.decode_tensor_proto(proto, source=f"the input {name!r}") for name, proto in request.inputs.items()
    }
    outputs = await run_signature(call, version, signature, inputs, list(request.output_filter))
    response = MESSAGES.PredictResponse()
    _set_model(response, version, signature)
    for name, values in outputs.items():
        response.outputs[name].CopyFrom(tensors.encode_tensor_proto(values))
    return response


@_PREDICTION.method("Classify", is_inference=True)
async def _classify(call: GrpcCall, request: Message) -> Message:
    response = MESSAGES.ClassificationResponse()
    for classes in await _answer_examples(tensorflow_serving_rest.classify, call, request, response):
        found = response.result.classifications.add()
        for label, score in classes:
            found.classes.add(label=label, score=score)
    return response


@_PREDICTION.method("Regress", is_inference=True)
async def _regress(call: GrpcCall, request: Message) -> Message:
    response = MESSAGES.RegressionResponse()
    for value in await _answer_examples(tensorflow_serving_rest.regress, call, request, response):
        response.result.regressions.add(value=value)
    return response


async def _answer_examples(find_results: Callable, call: GrpcCall, request: Message, response: Message) -> Iterable:
    """Return the results of the examples of a request; the features of its context are in each."""
    version = _find_version(call, request.model_spec)
    signature = request.model_spec.signature_name or SERVING_DEFAULT
    _set_model(response, version, signature)
    has_context = request.input.HasField("example_list_with_context")
    given = request.input.example_list_with_context if has_context else request.input.example_list
    context = _read_features(given.context) if has_context else {}
    examples = [context | _read_features(example) for example in given.examples]
    return await find_results(call, version, signature, tensorflow_serving_rest.read_examples(examples, version))


@_PREDICTION.method("GetModelMetadata")
async def _get_metadata(call: GrpcCall, request: Message) -> Message:
    version = _find_version(call, request.model_spec)
    if set(request.metadata_field) != {"signature_def"}:
        raise InputError(f"metadata_field is {list(request.metadata_field)}; expected signature_def")
    response = MESSAGES.GetModelMetadataResponse()
    _set_model(response, version)
    packed = response.metadata["signature_def"]
    packed.type_url = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    signatures = json_format.ParseDict(tensorflow_serving_rest.describe_signatures(version), MESSAGES.SignatureDefMap())
    packed.value = signatures.SerializeToString()
    return response


@_MODEL.method("GetModelStatus")
async def _get_status(call: GrpcCall, request: Message) -> Message:
    spec = request.model_spec
    number = _find_version(call, spec).number if spec.version_label else _read_version(spec)
    statuses = tensorflow_serving_rest.describe_statuses(call.repository, spec.name, number)
    return json_format.ParseDict(statuses, MESSAGES.GetModelStatusResponse())


def _find_version(call: GrpcCall, spec: Message) -> ServedVersion:
    """Return the version that a ModelSpec names, by default the newest."""
    if not spec.name:
        raise InputError("model_spec has no name; expected that of a model: set it")
    return call.repository.get(spec.name, _read_version(spec), spec.version_label or None)


def _read_version(spec: Message) -> int | None:
    return spec.version.value if spec.HasField("version") else None


def _set_model(response: Message, version: ServedVersion, signature: str = "") -> None:
    """Write into a response which model answered."""
    response.model_spec.name, response.model_spec.signature_name = version.name, signature
    response.model_spec.version.value = version.number


def _read_features(example: Message) -> dict[str, object]:
    return {name: list(feature.bytes_list.value) for name, feature in example.features.feature.items()}


@_INFERENCE.method("ServerLive", is_open=True)
async def _get_live(call: GrpcCall, request: Message) -> Message:
    return MESSAGES.ServerLiveResponse(live=True)


@_INFERENCE.method("ServerReady", is_open=True)
async def _get_ready(call: GrpcCall, request: Message) -> Message:
    return MESSAGES.ServerReadyResponse(ready=call.server.is_ready)


@_INFERENCE.method("ModelReady")
async def _get_model_ready(call: GrpcCall, request: Message) -> Message:
    try:
        is_ready = call.repository.get(request.name, read_version(request.version)).is_ready
    except ServingError as error:
        if error.reason is not Reason.NOT_FOUND:
            raise
        is_ready = False  # as in Triton
    return MESSAGES.ModelReadyResponse(ready=is_ready)


@_INFERENCE.method("ServerMetadata", is_open=True)
async def _describe_server(call: GrpcCall, request: Message) -> Message:
    return MESSAGES.ServerMetadataResponse(name="bert-keras", version=__version__)


@_INFERENCE.method("ModelMetadata")
async def _describe_model(call: GrpcCall, request: Message) -> Message:
    version = call.repository.get(request.name, read_version(request.version))
    return MESSAGES.ModelMetadataResponse(**describe_model(version, call.repository))


@_INFERENCE.method("ModelInfer", is_inference=True)
async def _infer(call: GrpcCall, request: Message) -> Message:
    version = call.repository.get(request.model_name, read_version(request.model_version))
    outputs = await infer(call, version, tensors.decode_infer_inputs(request), request.outputs)
    response = MESSAGES.ModelInferResponse(model_name=version.name, model_version=str(version.number), id=request.id)
    for name, values in outputs.items():
        datatype, shape, raw = tensors.encode_infer_tensor(values)
        response.outputs.add(name=name, datatype=datatype, shape=shape)
        response.raw_output_contents.append(raw)
    return response


@_INFERENCE.method("RepositoryIndex")
async def _list_models(call: GrpcCall, request: Message) -> Message:
    response = MESSAGES.RepositoryIndexResponse()
    for name in call.repository.names:
        for number, status in call.repository.list_statuses(name).items():
            is_ready = status.state.name == "AVAILABLE"
            if is_ready or not request.ready:
                state = "READY" if is_ready else "UNAVAILABLE"
                response.models.add(name=name, version=str(number), state=state, reason=status.message)
    return response


@_HEALTH.method("Check", is_open=True)
async def _check_health(call: GrpcCall, request: Message) -> Message:
    """Return whether the server answers, whatever service is asked for."""
    return MESSAGES.HealthCheckResponse(status="SERVING" if call.server.is_ready else "NOT_SERVING")
