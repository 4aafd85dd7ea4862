"""The Open Inference Protocol (KServe v2, Triton) over gRPC."""

import grpc
from google.protobuf.message import Message

from bert_keras import __version__
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.messages.open_inference import MESSAGES
from bert_keras.serving.messages.tensors import decode_infer_inputs, encode_infer_tensor
from bert_keras.serving.protocols.grpc_call import GrpcCall, grpc_call
from bert_keras.serving.protocols.model_calls import (
    SERVING_DEFAULT,
    choose_signature,
    get_specs,
    read_version,
    run_signature,
)
from bert_keras.serving.protocols.open_inference_rest import check_output_parameters, describe_tensor
from bert_keras.serving.served_version import ServedVersion
from bert_keras.serving.server_state import ServerState


class InferenceService:
    """Implementation of inference.GRPCInferenceService."""

    def __init__(self, server: ServerState):
        self._server = server

    async def server_live(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return that the server runs."""
        return MESSAGES.ServerLiveResponse(live=True)

    async def server_ready(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return whether the server answers."""
        return MESSAGES.ServerReadyResponse(ready=self._server.is_ready)

    async def model_ready(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return whether a model answers."""
        async with grpc_call(self._server, "grpc ModelReady", request, context) as call:
            try:
                is_ready = _find_version(call, request.name, request.version).is_ready
            except ServingError as error:
                if error.reason is not Reason.NOT_FOUND:
                    raise
                is_ready = False  # as in Triton
            return MESSAGES.ModelReadyResponse(ready=is_ready)

    async def server_metadata(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return the name and the version of the server."""
        return MESSAGES.ServerMetadataResponse(name="bert-keras", version=__version__)

    async def model_metadata(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return the inputs and outputs of a model."""
        async with grpc_call(self._server, "grpc ModelMetadata", request, context) as call:
            version = _find_version(call, request.name, request.version)
            response = MESSAGES.ModelMetadataResponse(
                name=version.name, platform=f"bert_keras_{version.description['engine']}"
            )
            numbers = [one.number for one in call.repository.list_versions() if one.name == version.name]
            response.versions.extend(map(str, numbers))
            inputs, outputs = get_specs(version, SERVING_DEFAULT)
            for tensors, specs in ((response.inputs, inputs), (response.outputs, outputs)):
                for spec in specs:
                    tensors.add(**describe_tensor(spec))
            return response

    async def model_infer(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return the outputs of a model."""
        async with grpc_call(self._server, "grpc ModelInfer", request, context, is_inference=True) as call:
            version = _find_version(call, request.model_name, request.model_version)
            inputs = decode_infer_inputs(request)
            for output in request.outputs:
                check_output_parameters(output.name, output.parameters)
            names = [output.name for output in request.outputs]
            outputs = await run_signature(call, version, choose_signature(version, inputs), inputs, names)
            response = MESSAGES.ModelInferResponse(
                model_name=version.name, model_version=str(version.number), id=request.id
            )
            for name, values in outputs.items():
                datatype, shape, raw = encode_infer_tensor(values)
                response.outputs.add(name=name, datatype=datatype, shape=shape)
                response.raw_output_contents.append(raw)
            return response

    async def repository_index(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return the models with the states of their versions."""
        async with grpc_call(self._server, "grpc RepositoryIndex", request, context) as call:
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
