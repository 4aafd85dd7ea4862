"""TensorFlow Serving's gRPC API: PredictionService and ModelService.

https://github.com/tensorflow/serving/tree/master/tensorflow_serving/apis
"""

import grpc
import numpy as np
from google.protobuf.message import Message

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.serving.messages.tensorflow_serving import DATA_TYPES, MESSAGES
from bert_keras.serving.messages.tensors import decode_tensor_proto, encode_tensor_proto, find_type
from bert_keras.serving.protocols.grpc_call import GrpcCall, grpc_call
from bert_keras.serving.protocols.model_calls import SERVING_DEFAULT, get_specs, run_signature
from bert_keras.serving.protocols.tensorflow_serving_rest import METHOD, classify, read_examples, regress
from bert_keras.serving.served_version import ServedVersion
from bert_keras.serving.server_state import ServerState
from bert_keras.tasks.signatures import TensorSpec

_UNKNOWN = 2  # tensorflow.error.UNKNOWN


class PredictionService:
    """Implementation of tensorflow.serving.PredictionService."""

    def __init__(self, server: ServerState):
        self._server = server

    async def predict(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Run a signature on tensors."""
        async with grpc_call(self._server, "grpc Predict", request, context, is_inference=True) as call:
            version = _find_version(call, request.model_spec)
            signature = request.model_spec.signature_name or SERVING_DEFAULT
            if len(set(request.output_filter)) < len(request.output_filter):
                raise InputError(f"output_filter is {quote(list(request.output_filter))}; expected each output once")
            inputs = {
                name: decode_tensor_proto(proto, source=f"the input {name!r}") for name, proto in request.inputs.items()
            }
            outputs = await run_signature(call, version, signature, inputs, list(request.output_filter))
            response = _make_response(MESSAGES.PredictResponse, version, signature)
            for name, values in outputs.items():
                response.outputs[name].CopyFrom(encode_tensor_proto(values))
            return response

    async def classify(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return the classes of examples."""
        async with grpc_call(self._server, "grpc Classify", request, context, is_inference=True) as call:
            version, signature, texts = _read_request(call, request)
            response = _make_response(MESSAGES.ClassificationResponse, version, signature)
            for classes in await classify(call, version, signature, texts):
                found = response.result.classifications.add()
                for label, score in classes:
                    found.classes.add(label=label, score=score)
            return response

    async def regress(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return the values of examples."""
        async with grpc_call(self._server, "grpc Regress", request, context, is_inference=True) as call:
            version, signature, texts = _read_request(call, request)
            response = _make_response(MESSAGES.RegressionResponse, version, signature)
            for value in await regress(call, version, signature, texts):
                response.result.regressions.add(value=value)
            return response

    async def get_model_metadata(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return the signatures of a model."""
        async with grpc_call(self._server, "grpc GetModelMetadata", request, context) as call:
            version = _find_version(call, request.model_spec)
            if set(request.metadata_field) != {"signature_def"}:
                raise InputError(f"metadata_field is {list(request.metadata_field)}; expected signature_def")
            signatures = MESSAGES.SignatureDefMap()
            for name in version.description["signatures"]:
                _fill_signature(signatures.signature_def[name], *get_specs(version, name))
            response = _make_response(MESSAGES.GetModelMetadataResponse, version, "")
            packed = response.metadata["signature_def"]
            packed.type_url = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
            packed.value = signatures.SerializeToString()
            return response


class ModelService:
    """Implementation of tensorflow.serving.ModelService; versions are loaded when they appear, not by request."""

    def __init__(self, server: ServerState):
        self._server = server

    async def get_model_status(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return the state of the versions of a model."""
        async with grpc_call(self._server, "grpc GetModelStatus", request, context) as call:
            spec = request.model_spec
            number = _find_version(call, spec).number if spec.version_label else _read_version(spec)
            response = MESSAGES.GetModelStatusResponse()
            for version, status in call.repository.list_statuses(spec.name, number).items():
                entry = response.model_version_status.add(version=version, state=status.state.value)
                entry.status.error_code = _UNKNOWN if status.message else 0
                entry.status.error_message = status.message
            return response


def _find_version(call: GrpcCall, spec: Message) -> ServedVersion:
    """Return the version that a ModelSpec names, by default the newest."""
    if not spec.name:
        raise InputError("model_spec has no name; expected that of a model: set it")
    return call.repository.get(spec.name, _read_version(spec), spec.version_label or None)


def _read_version(spec: Message) -> int | None:
    return spec.version.value if spec.HasField("version") else None


def _make_response(make: type[Message], version: ServedVersion, signature: str) -> Message:
    """Return a response that says which model answered."""
    response = make()
    response.model_spec.name, response.model_spec.signature_name = version.name, signature
    response.model_spec.version.value = version.number
    return response


def _fill_signature(signature: Message, inputs: list[TensorSpec], outputs: list[TensorSpec]) -> None:
    signature.method_name = METHOD
    for tensors, specs in ((signature.inputs, inputs), (signature.outputs, outputs)):
        for spec in specs:
            info = tensors[spec.name]
            info.name = f"{spec.name}:0"
            info.dtype = DATA_TYPES[find_type(spec.dtype).tensorflow_name]
            for size in spec.shape:
                info.tensor_shape.dim.add(size=size)


def _read_request(call: GrpcCall, request: Message) -> tuple[ServedVersion, str, dict[str, np.ndarray]]:
    """Return the version, the signature and the texts of a request to classify or regress."""
    version = _find_version(call, request.model_spec)
    signature = request.model_spec.signature_name or SERVING_DEFAULT
    return version, signature, read_examples(_read_input(request.input), version)


def _read_input(given: Message) -> list[dict[str, object]]:
    """Return the features of the examples of a request; those of its context are in each."""
    if given.HasField("example_list_with_context"):
        context = _read_features(given.example_list_with_context.context)
        return [context | _read_features(example) for example in given.example_list_with_context.examples]
    return [_read_features(example) for example in given.example_list.examples]


def _read_features(example: Message) -> dict[str, object]:
    return {name: list(feature.bytes_list.value) for name, feature in example.features.feature.items()}
