"""Messages and methods of `GRPCInferenceService`, the Open Inference Protocol v2 of KServe and Triton.

The table has the fields of grpc_service.proto of triton-inference-server/common. `RepositoryIndex` belongs to Triton's
model repository extension.
"""

import types

from bert_keras.message_builder import build_messages, pair_messages

_PARAMETERS = "map<string, InferParameter>"
_TENSOR_METADATA = {"name": (1, "string"), "datatype": (2, "string"), "shape": (3, "repeated int64")}
_TENSOR = {**_TENSOR_METADATA, "parameters": (4, _PARAMETERS), "contents": (5, "InferTensorContents")}

_INFERENCE = {
    "ServerLiveRequest": {},
    "ServerLiveResponse": {"live": (1, "bool")},
    "ServerReadyRequest": {},
    "ServerReadyResponse": {"ready": (1, "bool")},
    "ModelReadyRequest": {"name": (1, "string"), "version": (2, "string")},
    "ModelReadyResponse": {"ready": (1, "bool")},
    "ServerMetadataRequest": {},
    "ServerMetadataResponse": {"name": (1, "string"), "version": (2, "string"), "extensions": (3, "repeated string")},
    "ModelMetadataRequest": {"name": (1, "string"), "version": (2, "string")},
    "ModelMetadataResponse": {
        "name": (1, "string"),
        "versions": (2, "repeated string"),
        "platform": (3, "string"),
        "inputs": (4, "repeated ModelMetadataResponse.TensorMetadata"),
        "outputs": (5, "repeated ModelMetadataResponse.TensorMetadata"),
    },
    "ModelMetadataResponse.TensorMetadata": _TENSOR_METADATA,
    "InferParameter": {
        "bool_param": (1, "bool", "parameter_choice"),
        "int64_param": (2, "int64", "parameter_choice"),
        "string_param": (3, "string", "parameter_choice"),
        "double_param": (4, "double", "parameter_choice"),
        "uint64_param": (5, "uint64", "parameter_choice"),
    },
    "InferTensorContents": {
        "bool_contents": (1, "repeated bool"),
        "int_contents": (2, "repeated int32"),
        "int64_contents": (3, "repeated int64"),
        "uint_contents": (4, "repeated uint32"),
        "uint64_contents": (5, "repeated uint64"),
        "fp32_contents": (6, "repeated float"),
        "fp64_contents": (7, "repeated double"),
        "bytes_contents": (8, "repeated bytes"),
    },
    "ModelInferRequest": {
        "model_name": (1, "string"),
        "model_version": (2, "string"),
        "id": (3, "string"),
        "parameters": (4, _PARAMETERS),
        "inputs": (5, "repeated ModelInferRequest.InferInputTensor"),
        "outputs": (6, "repeated ModelInferRequest.InferRequestedOutputTensor"),
        "raw_input_contents": (7, "repeated bytes"),
    },
    "ModelInferRequest.InferInputTensor": _TENSOR,
    "ModelInferRequest.InferRequestedOutputTensor": {"name": (1, "string"), "parameters": (2, _PARAMETERS)},
    "ModelInferResponse": {
        "model_name": (1, "string"),
        "model_version": (2, "string"),
        "id": (3, "string"),
        "parameters": (4, _PARAMETERS),
        "outputs": (5, "repeated ModelInferResponse.InferOutputTensor"),
        "raw_output_contents": (6, "repeated bytes"),
    },
    "ModelInferResponse.InferOutputTensor": _TENSOR,
    "RepositoryIndexRequest": {"repository_name": (1, "string"), "ready": (2, "bool")},
    "RepositoryIndexResponse": {"models": (1, "repeated RepositoryIndexResponse.ModelIndex")},
    "RepositoryIndexResponse.ModelIndex": {
        "name": (1, "string"),
        "version": (2, "string"),
        "state": (3, "string"),
        "reason": (4, "string"),
    },
}

_classes = build_messages("inference", _INFERENCE)
MESSAGES = types.SimpleNamespace(**_classes)

INFERENCE_SERVICE = "inference.GRPCInferenceService"
_METHODS = "ServerLive ServerReady ModelReady ServerMetadata ModelMetadata ModelInfer RepositoryIndex".split()
INFERENCE_METHODS = pair_messages(_classes, {name: name for name in _METHODS})
