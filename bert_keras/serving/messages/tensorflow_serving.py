"""Messages and methods of TensorFlow Serving's `PredictionService` and `ModelService`.

The tables have the fields of these files of tensorflow and tensorflow/serving 2.21 that a server of a text model needs;
protobuf skips the others:

- tensorflow/core/framework: types.proto, tensor_shape.proto, tensor.proto
- tensorflow/core/example: example.proto, feature.proto
- tensorflow/core/protobuf: meta_graph.proto, error_codes.proto
- tensorflow_serving/apis: model.proto, input.proto, predict.proto, classification.proto, regression.proto,
  get_model_metadata.proto, get_model_status.proto, status.proto
"""

import types

from bert_keras.message_builder import build_messages, pair_messages

_DATA_TYPES = """INVALID FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32 BFLOAT16
    QINT16 QUINT16 UINT16 COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64"""
DATA_TYPES = {f"DT_{name}": number for number, name in enumerate(_DATA_TYPES.split())}
_ERROR_CODES = """OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED
    RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS
    UNAUTHENTICATED"""

_GOOGLE = {
    "Any": {"type_url": (1, "string"), "value": (2, "bytes")},
    "Int64Value": {"value": (1, "int64")},
}

_TENSORFLOW = {
    "DataType": DATA_TYPES,
    "TensorShapeProto": {"dim": (2, "repeated TensorShapeProto.Dim"), "unknown_rank": (3, "bool")},
    "TensorShapeProto.Dim": {"size": (1, "int64"), "name": (2, "string")},
    "TensorProto": {
        "dtype": (1, "DataType"),
        "tensor_shape": (2, "TensorShapeProto"),
        "version_number": (3, "int32"),
        "tensor_content": (4, "bytes"),
        "float_val": (5, "repeated float"),
        "double_val": (6, "repeated double"),
        "int_val": (7, "repeated int32"),
        "string_val": (8, "repeated bytes"),
        "scomplex_val": (9, "repeated float"),
        "int64_val": (10, "repeated int64"),
        "bool_val": (11, "repeated bool"),
        "dcomplex_val": (12, "repeated double"),
        "half_val": (13, "repeated int32"),
        "uint32_val": (16, "repeated uint32"),
        "uint64_val": (17, "repeated uint64"),
    },
    "TensorInfo": {
        "name": (1, "string", "encoding"),
        "coo_sparse": (4, "TensorInfo.CooSparse", "encoding"),
        "dtype": (2, "DataType"),
        "tensor_shape": (3, "TensorShapeProto"),
    },
    "TensorInfo.CooSparse": {
        "values_tensor_name": (1, "string"),
        "indices_tensor_name": (2, "string"),
        "dense_shape_tensor_name": (3, "string"),
    },
    "SignatureDef": {
        "inputs": (1, "map<string, TensorInfo>"),
        "outputs": (2, "map<string, TensorInfo>"),
        "method_name": (3, "string"),
        "defaults": (4, "map<string, TensorProto>"),
    },
    "BytesList": {"value": (1, "repeated bytes")},
    "FloatList": {"value": (1, "repeated float")},
    "Int64List": {"value": (1, "repeated int64")},
    "Feature": {
        "bytes_list": (1, "BytesList", "kind"),
        "float_list": (2, "FloatList", "kind"),
        "int64_list": (3, "Int64List", "kind"),
    },
    "Features": {"feature": (1, "map<string, Feature>")},
    "Example": {"features": (1, "Features")},
}

_SERVING = {
    "ModelSpec": {
        "name": (1, "string"),
        "version": (2, "google.protobuf.Int64Value", "version_choice"),
        "version_label": (4, "string", "version_choice"),
        "signature_name": (3, "string"),
    },
    "PredictRequest": {
        "model_spec": (1, "ModelSpec"),
        "inputs": (2, "map<string, tensorflow.TensorProto>"),
        "output_filter": (3, "repeated string"),
    },
    "PredictResponse": {"model_spec": (2, "ModelSpec"), "outputs": (1, "map<string, tensorflow.TensorProto>")},
    "ExampleList": {"examples": (1, "repeated tensorflow.Example")},
    "ExampleListWithContext": {"examples": (1, "repeated tensorflow.Example"), "context": (2, "tensorflow.Example")},
    "Input": {
        "example_list": (1, "ExampleList", "kind"),
        "example_list_with_context": (2, "ExampleListWithContext", "kind"),
    },
    "ClassificationRequest": {"model_spec": (1, "ModelSpec"), "input": (2, "Input")},
    "ClassificationResponse": {"model_spec": (2, "ModelSpec"), "result": (1, "ClassificationResult")},
    "ClassificationResult": {"classifications": (1, "repeated Classifications")},
    "Classifications": {"classes": (1, "repeated Class")},
    "Class": {"label": (1, "string"), "score": (2, "float")},
    "RegressionRequest": {"model_spec": (1, "ModelSpec"), "input": (2, "Input")},
    "RegressionResponse": {"model_spec": (2, "ModelSpec"), "result": (1, "RegressionResult")},
    "RegressionResult": {"regressions": (1, "repeated Regression")},
    "Regression": {"value": (1, "float")},
    "GetModelMetadataRequest": {"model_spec": (1, "ModelSpec"), "metadata_field": (2, "repeated string")},
    "GetModelMetadataResponse": {"model_spec": (1, "ModelSpec"), "metadata": (2, "map<string, google.protobuf.Any>")},
    "SignatureDefMap": {"signature_def": (1, "map<string, tensorflow.SignatureDef>")},
    "GetModelStatusRequest": {"model_spec": (1, "ModelSpec")},
    "GetModelStatusResponse": {"model_version_status": (1, "repeated ModelVersionStatus")},
    "ModelVersionStatus": {
        "version": (1, "int64"),
        "state": (2, "ModelVersionStatus.State"),
        "status": (3, "StatusProto"),
    },
    "ModelVersionStatus.State": {"UNKNOWN": 0, "START": 10, "LOADING": 20, "AVAILABLE": 30, "UNLOADING": 40, "END": 50},
    "StatusProto": {"error_code": (1, "tensorflow.error.Code"), "error_message": (2, "string")},
}

build_messages("google.protobuf", _GOOGLE)
build_messages("tensorflow.error", {"Code": {name: number for number, name in enumerate(_ERROR_CODES.split())}})
_tensorflow = build_messages("tensorflow", _TENSORFLOW)
_serving = build_messages("tensorflow.serving", _SERVING)
MESSAGES = types.SimpleNamespace(**_tensorflow, **_serving)

PREDICTION_SERVICE, MODEL_SERVICE = "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"
_NAMES = {"Predict": "Predict", "Classify": "Classification", "Regress": "Regression"}
PREDICTION_METHODS = pair_messages(_serving, {**_NAMES, "GetModelMetadata": "GetModelMetadata"})
MODEL_METHODS = pair_messages(_serving, {"GetModelStatus": "GetModelStatus"})
