"""The Open Inference Protocol (KServe v2, Triton) over gRPC."""

import grpc
from google.protobuf.message import Message

from bert_keras import __version__
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.messages import open_inference as messages
from bert_keras.serving.messages.tensors import decode_infer_inputs, encode_infer_tensor
from bert_keras.serving.models.served_version import ServedVersion
from bert_keras.serving.protocols.grpc_call import GrpcCall, grpc_call
from bert_keras.serving.protocols.open_inference_rest import DATATYPES, check_output_parameters
from bert_keras.serving.protocols.selection import read_version
from bert_keras.serving.protocols.signatures import choose_signature, get_specs, run_signature
from bert_keras.serving.server_state import ServerState


class InferenceService:
    """Implementation of inference.GRPCInferenceService."""

    def __init__(self, server: ServerState):
        self._server = server

    async def server_live(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return that the server runs."""
        return messages.ServerLiveResponse(live=True)

    async def server_ready(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return whether the server answers."""
        return messages.ServerReadyResponse(ready=self._server.is_ready)

    async def model_ready(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return whether a model answers."""
        async with grpc_call(self._server, "grpc ModelReady", request, context) as call:
            try:
                is_ready = _find_version(call, request.name, request.version).is_ready
            except ServingError as error:
                if error.reason is not Reason.NOT_FOUND:
                    raise
                is_ready = False  # as in Triton
            return messages.ModelReadyResponse(ready=is_ready)

    async def server_metadata(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return the name and the version of the server."""
        return messages.ServerMetadataResponse(name="bert-keras", version=__version__)

    async def model_metadata(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return the inputs and outputs of a model."""
        async with grpc_call(self._server, "grpc ModelMetadata", request, context) as call:
            version = _find_version(call, request.name, request.version)
            response = messages.ModelMetadataResponse(
                name=version.name, platform=f"bert_keras_{version.description['engine']}"
            )
            numbers = [one.number for one in call.repository.list_versions() if one.name == version.name]
            response.versions.extend(map(str, numbers))
            inputs, outputs = get_specs(version, "serving_default")
            for tensors, specs in ((response.inputs, inputs), (response.outputs, outputs)):
                for spec in specs:
                    tensors.add(name=spec.name, datatype=DATATYPES[spec.dtype], shape=spec.shape)
            return response

    async def model_infer(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return the outputs of a model."""
        async with grpc_call(self._server, "grpc ModelInfer", request, context, is_inference=True) as call:
            version = _find_version(call, request.model_name, request.model_version)
            inputs = decode_infer_inputs(request)
            for output in request.outputs:
                check_output_parameters(output.name, output.parameters)
            outputs = await run_signature(
                call.run,
                version,
                choose_signature(version, list(inputs)),
                inputs,
                [output.name for output in request.outputs],
                max_texts=call.settings.max_texts,
            )
            response = messages.ModelInferResponse(
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
            response = messages.RepositoryIndexResponse()
            for name in call.repository.names:
                for number, status in call.repository.list_statuses(name).items():
                    is_ready = status.state.name == "AVAILABLE"
                    if is_ready or not request.ready:
                        state = "READY" if is_ready else "UNAVAILABLE"
                        response.models.add(name=name, version=str(number), state=state, reason=status.message)
            return response


def _find_version(call: GrpcCall, name: str, version: str) -> ServedVersion:
    return call.repository.get(name, read_version(version))
