"""TensorFlow Serving's gRPC API: PredictionService and ModelService.

https://github.com/tensorflow/serving/tree/master/tensorflow_serving/apis
"""

import numpy as np
from google.protobuf import json_format
from google.protobuf.message import Message

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.serving.messages.definitions import MESSAGES
from bert_keras.serving.messages.tensors import decode_tensor_proto, encode_tensor_proto
from bert_keras.serving.protocols.grpc_service import GrpcCall, GrpcService
from bert_keras.serving.protocols.model_calls import SERVING_DEFAULT, run_signature
from bert_keras.serving.protocols.tensorflow_serving_rest import (
    classify,
    describe_signatures,
    describe_statuses,
    read_examples,
    regress,
)
from bert_keras.serving.served_version import ServedVersion

# versions are loaded when they appear, so ModelService has no request that loads them
PREDICTION, MODEL = (GrpcService(f"tensorflow.serving.{name}") for name in ("PredictionService", "ModelService"))


@PREDICTION.method("Predict", is_inference=True)
async def _predict(call: GrpcCall, request: Message) -> Message:
    version = _find_version(call, request.model_spec)
    signature = request.model_spec.signature_name or SERVING_DEFAULT
    if len(set(request.output_filter)) < len(request.output_filter):
        raise InputError(f"output_filter is {quote(list(request.output_filter))}; expected each output once")
    inputs = {name: decode_tensor_proto(proto, source=f"the input {name!r}") for name, proto in request.inputs.items()}
    outputs = await run_signature(call, version, signature, inputs, list(request.output_filter))
    response = _make_response(MESSAGES.PredictResponse, version, signature)
    for name, values in outputs.items():
        response.outputs[name].CopyFrom(encode_tensor_proto(values))
    return response


@PREDICTION.method("Classify", is_inference=True)
async def _classify(call: GrpcCall, request: Message) -> Message:
    version, signature, texts = _read_request(call, request)
    response = _make_response(MESSAGES.ClassificationResponse, version, signature)
    for classes in await classify(call, version, signature, texts):
        found = response.result.classifications.add()
        for label, score in classes:
            found.classes.add(label=label, score=score)
    return response


@PREDICTION.method("Regress", is_inference=True)
async def _regress(call: GrpcCall, request: Message) -> Message:
    version, signature, texts = _read_request(call, request)
    response = _make_response(MESSAGES.RegressionResponse, version, signature)
    for value in await regress(call, version, signature, texts):
        response.result.regressions.add(value=value)
    return response


@PREDICTION.method("GetModelMetadata")
async def _get_metadata(call: GrpcCall, request: Message) -> Message:
    version = _find_version(call, request.model_spec)
    if set(request.metadata_field) != {"signature_def"}:
        raise InputError(f"metadata_field is {list(request.metadata_field)}; expected signature_def")
    response = _make_response(MESSAGES.GetModelMetadataResponse, version, "")
    packed = response.metadata["signature_def"]
    packed.type_url = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    signatures = json_format.ParseDict(describe_signatures(version), MESSAGES.SignatureDefMap())
    packed.value = signatures.SerializeToString()
    return response


@MODEL.method("GetModelStatus")
async def _get_status(call: GrpcCall, request: Message) -> Message:
    spec = request.model_spec
    number = _find_version(call, spec).number if spec.version_label else _read_version(spec)
    statuses = describe_statuses(call.repository, spec.name, number)
    return json_format.ParseDict(statuses, MESSAGES.GetModelStatusResponse())


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
