"""The Open Inference Protocol (KServe v2, Triton) over gRPC."""

from google.protobuf.message import Message

from bert_keras import __version__
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.messages.definitions import MESSAGES
from bert_keras.serving.messages.tensors import decode_infer_inputs, encode_infer_tensor
from bert_keras.serving.protocols.grpc_service import GrpcCall, GrpcService
from bert_keras.serving.protocols.model_calls import choose_signature, read_version, run_signature
from bert_keras.serving.protocols.open_inference_rest import check_output_parameters, describe_model
from bert_keras.serving.served_version import ServedVersion

INFERENCE = GrpcService("inference.GRPCInferenceService")


@INFERENCE.method("ServerLive", is_open=True)
async def _get_live(call: GrpcCall, request: Message) -> Message:
    return MESSAGES.ServerLiveResponse(live=True)


@INFERENCE.method("ServerReady", is_open=True)
async def _get_ready(call: GrpcCall, request: Message) -> Message:
    return MESSAGES.ServerReadyResponse(ready=call.server.is_ready)


@INFERENCE.method("ModelReady")
async def _get_model_ready(call: GrpcCall, request: Message) -> Message:
    try:
        is_ready = _find_version(call, request.name, request.version).is_ready
    except ServingError as error:
        if error.reason is not Reason.NOT_FOUND:
            raise
        is_ready = False  # as in Triton
    return MESSAGES.ModelReadyResponse(ready=is_ready)


@INFERENCE.method("ServerMetadata", is_open=True)
async def _describe_server(call: GrpcCall, request: Message) -> Message:
    return MESSAGES.ServerMetadataResponse(name="bert-keras", version=__version__)


@INFERENCE.method("ModelMetadata")
async def _describe_model(call: GrpcCall, request: Message) -> Message:
    version = _find_version(call, request.name, request.version)
    return MESSAGES.ModelMetadataResponse(**describe_model(version, call.repository))


@INFERENCE.method("ModelInfer", is_inference=True)
async def _infer(call: GrpcCall, request: Message) -> Message:
    version = _find_version(call, request.model_name, request.model_version)
    inputs = decode_infer_inputs(request)
    for output in request.outputs:
        check_output_parameters(output.name, output.parameters)
    names = [output.name for output in request.outputs]
    outputs = await run_signature(call, version, choose_signature(version, inputs), inputs, names)
    response = MESSAGES.ModelInferResponse(model_name=version.name, model_version=str(version.number), id=request.id)
    for name, values in outputs.items():
        datatype, shape, raw = encode_infer_tensor(values)
        response.outputs.add(name=name, datatype=datatype, shape=shape)
        response.raw_output_contents.append(raw)
    return response


@INFERENCE.method("RepositoryIndex")
async def _list_models(call: GrpcCall, request: Message) -> Message:
    response = MESSAGES.RepositoryIndexResponse()
    for name in call.repository.names:
        for number, status in call.repository.list_statuses(name).items():
            is_ready = status.state.name == "AVAILABLE"
            if is_ready or not request.ready:
                state = "READY" if is_ready else "UNAVAILABLE"
                response.models.add(name=name, version=str(number), state=state, reason=status.message)
    return response


def _find_version(call: GrpcCall, name: str, version: str) -> ServedVersion:
    return call.repository.get(name, read_version(version))
