"""The file of requests that a TensorFlow Serving sends to a model itself before it answers anybody.

The first request to a graph pays for its optimisation and its memory; a server that finds this file pays while it
loads. It is a TFRecord file of `PredictionLog` messages, of which the package `tensorflow-serving-api` has the classes.
That package asks for TensorFlow's own release, so the five messages that matter are declared here.
"""

import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers its ops, which a model that is replayed is made of
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from bert_keras.errors import InputError, ParityError
from bert_keras.export.settings import check_model_name

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"
MAX_REQUESTS = 1000  # a server that finds more refuses the model

# tensorflow_serving/apis/{model,predict,prediction_log}.proto: field, number, type. A tensor is kept as bytes, which it
# is within a message, and the entries of a map as a message with a key and a value, which is what a map is.
_MESSAGES = {
    "ModelSpec": [("name", 1, "string"), ("signature_name", 3, "string")],
    "Input": [("key", 1, "string"), ("value", 2, "bytes")],
    "PredictRequest": [("model_spec", 1, "ModelSpec"), ("inputs", 2, "repeated Input")],
    "PredictLog": [("request", 1, "PredictRequest")],
    "PredictionLog": [("predict_log", 6, "PredictLog")],
}
_TYPES = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
}


class WarmupRequest(NamedTuple):
    """A request of a warm-up file.

    Attributes:
        model_name: the name under which the model is served.
        signature: the name of a signature.
        inputs: its inputs by name; strings are `bytes`.
    """

    model_name: str
    signature: str
    inputs: dict[str, np.ndarray]


def write_warmup(
    folder: str | os.PathLike, model_name: str, requests: Sequence[tuple[str, Mapping[str, np.ndarray]]]
) -> None:
    """Writes the warm-up file of a SavedModel. `tf.saved_model.save` removes it, so it is written after that.

    Args:
        folder: with `saved_model.pb`.
        model_name: the name under which the model will be served.
        requests: for each a signature's name and its inputs by name, arrays of the signature's types. A server runs
            them one after the other, so a few of different sizes are enough.

    Raises:
        InputError: there is no SavedModel, no request or too many, or the name cannot stand in an address.
    """
    folder = pathlib.Path(folder)
    check_model_name(model_name)
    if not (folder / "saved_model.pb").is_file():
        raise InputError(f"{folder} holds no saved_model.pb; expected a SavedModel: write that first")
    if not 1 <= len(requests) <= MAX_REQUESTS:
        raise InputError(f"{len(requests):,} warm-up requests were given; a server takes 1 to {MAX_REQUESTS:,}")
    path = folder / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests:
            writer.write(_encoded(model_name, signature, inputs))


def read_warmup(folder: str | os.PathLike) -> list[WarmupRequest]:
    """Returns the requests of a SavedModel's warm-up file.

    Raises:
        ParityError: there is no such file, it is damaged, or it holds something else than such requests.
    """
    path = pathlib.Path(folder, WARMUP_FILE)
    if not path.is_file():
        raise ParityError(f"{path} does not exist; expected warm-up requests there: export again")
    try:
        records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
        return [_decoded(record) for record in records]
    except (tf.errors.DataLossError, DecodeError, _OtherRecordError) as error:
        raise ParityError(f"{path} is no file of warm-up requests ({_reason(error)}): export again") from None


def replay_warmup(folder: str | os.PathLike) -> int:
    """Sends the requests of a SavedModel's warm-up file to its signatures, as a server would.

    Returns:
        How many there are; each was answered.

    Raises:
        ParityError: the file cannot be read, or a request does not fit its signature, or fails; a server that meets
            such a request refuses the model.
    """
    requests = read_warmup(folder)
    signatures = tf.saved_model.load(str(folder)).signatures
    for number, request in enumerate(requests, 1):
        if misfit := _misfit(request, signatures):
            raise ParityError(f"warm-up request {number} of {folder} {misfit}: export again")
    return len(requests)


class _OtherRecordError(ValueError):
    """A record is a message of another kind."""


def _encoded(model_name: str, signature: str, inputs: Mapping[str, np.ndarray]) -> bytes:
    log = _PredictionLog()
    request = log.predict_log.request
    request.model_spec.name, request.model_spec.signature_name = model_name, signature
    for name in sorted(inputs):  # one request, one sequence of bytes
        request.inputs.add(key=name, value=tf.make_tensor_proto(inputs[name]).SerializeToString())
    return log.SerializeToString(deterministic=True)


def _decoded(record: bytes) -> WarmupRequest:
    log = _PredictionLog.FromString(record)
    if not log.HasField("predict_log"):
        raise _OtherRecordError("a record is no request for a prediction")
    request = log.predict_log.request
    inputs = {one.key: _array(one.value) for one in request.inputs}
    return WarmupRequest(request.model_spec.name, request.model_spec.signature_name, inputs)


def _array(encoded: bytes) -> np.ndarray:
    """Returns the array of a `TensorProto`, whose class is public as that of a field of `AttrValue` alone."""
    tensor = tf.compat.v1.AttrValue().tensor
    tensor.MergeFromString(encoded)
    return tf.make_ndarray(tensor)


def _misfit(request: WarmupRequest, signatures) -> str:
    """Returns why a request gets no answer; "": it got one."""
    if request.signature not in signatures:
        return f"is for the signature {request.signature!r}; the model has {', '.join(sorted(signatures))}"
    function = signatures[request.signature]
    takes = function.structured_input_signature[1]
    if set(request.inputs) != set(takes):
        return f"gives {_listed(request.inputs)}; the signature {request.signature!r} takes {_listed(takes)}"
    for name, spec in takes.items():
        given = tf.TensorSpec.from_tensor(tf.constant(request.inputs[name]))
        if given.dtype != spec.dtype or not given.shape.is_compatible_with(spec.shape):
            return (
                f"gives {name} as {given.dtype.name} {given.shape}; the signature {request.signature!r} takes "
                f"{spec.dtype.name} {spec.shape}"
            )
    try:
        function(**{name: tf.constant(value) for name, value in request.inputs.items()})
    except tf.errors.OpError as error:
        return f"fails in the signature {request.signature!r} ({_reason(error)})"
    return ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _reason(error: Exception) -> str:
    """Returns the line of TensorFlow's message that says what was wrong, without the names of nodes around it."""
    line = re.split(r"\n\s*\[\[", str(getattr(error, "message", error)).strip())[0].split("\n")[-1]
    return re.sub(r"^\{\{.*?\}\} | \[Op:.*$", "", line)


def _message_class(name: str):
    """Builds the class of one of `_MESSAGES`, in a pool of its own, beside which the real ones can be imported."""
    file = descriptor_pb2.FileDescriptorProto(name="bert_keras/warmup.proto", package="bert_keras", syntax="proto3")
    for message, fields in _MESSAGES.items():
        declared = file.message_type.add(name=message)
        for field, number, kind in fields:
            label, kind = (3, kind.split()[1]) if " " in kind else (1, kind)  # LABEL_REPEATED, LABEL_OPTIONAL
            type_of = {"type": _TYPES[kind]} if kind in _TYPES else {"type": 11, "type_name": kind}  # TYPE_MESSAGE
            declared.field.add(name=field, number=number, label=label, **type_of)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"bert_keras.{name}"))


_PredictionLog = _message_class("PredictionLog")
