"""Warm-up requests, which TensorFlow Serving sends to a model before it answers clients.

The first request to a graph is slow because the graph is optimized and memory is allocated; a server that finds this
file does so while it loads. It is a TFRecord file of `PredictionLog` messages. The package `tensorflow-serving-api` has
their classes but pins its own TensorFlow release, so the five messages that are needed are declared here.
"""

import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of the tokenizer
from google.protobuf.message import DecodeError

from bert_keras.errors import InputError, ParityError
from bert_keras.export.saved_model.proto_messages import build_message_class
from bert_keras.export.settings import check_model_name

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"
MAX_REQUESTS = 1000  # a server refuses a model with more

# tensorflow_serving/apis/{model,predict,prediction_log}.proto: field, number, type. On the wire, a nested message (here
# a tensor) is a bytes field, and a map is a repeated message with a key and a value.
_MESSAGES = {
    "ModelSpec": {"name": (1, "string"), "signature_name": (3, "string")},
    "Input": {"key": (1, "string"), "value": (2, "bytes")},
    "PredictRequest": {"model_spec": (1, "ModelSpec"), "inputs": (2, "repeated Input")},
    "PredictLog": {"request": (1, "PredictRequest")},
    "PredictionLog": {"predict_log": (6, "PredictLog")},
}
_PredictionLog = build_message_class(_MESSAGES, "PredictionLog")


class WarmupRequest(NamedTuple):
    """A request of a warm-up file.

    Attributes:
        model_name: the name under which the model is served.
        signature: the name of a signature.
        inputs: its inputs, keyed by name; strings are `bytes`.
    """

    model_name: str
    signature: str
    inputs: dict[str, np.ndarray]


def write_warmup(
    folder: str | os.PathLike, model_name: str, requests: Sequence[tuple[str, Mapping[str, np.ndarray]]]
) -> None:
    """Write the warm-up file of a SavedModel. `tf.saved_model.save` deletes it, so write it after saving.

    Args:
        folder: contains `saved_model.pb`.
        model_name: the name under which the model will be served.
        requests: each a signature's name and its inputs, arrays of the signature's dtypes keyed by name. A server runs
            them one after the other, so a few of different sizes are enough.

    Raises:
        InputError: there is no SavedModel, there are no requests or too many, or the name cannot be part of a URL.
    """
    folder = pathlib.Path(folder)
    check_model_name(model_name)
    if not (folder / "saved_model.pb").is_file():
        raise InputError(f"{folder} contains no saved_model.pb: write the SavedModel first")
    if not 1 <= len(requests) <= MAX_REQUESTS:
        raise InputError(f"{len(requests):,} warm-up requests were given; a server accepts 1 to {MAX_REQUESTS:,}")
    path = folder / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests:
            writer.write(_encode(model_name, signature, inputs))


def read_warmup(folder: str | os.PathLike) -> list[WarmupRequest]:
    """Return the requests of a SavedModel's warm-up file.

    Raises:
        ParityError: there is no such file, it is damaged, or it contains other records.
    """
    path = pathlib.Path(folder, WARMUP_FILE)
    if not path.is_file():
        raise ParityError(f"{path} does not exist; expected warm-up requests there: export again")
    try:
        records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
        return [_decode(record) for record in records]
    except (tf.errors.DataLossError, DecodeError, _RecordError) as error:
        raise ParityError(f"{path} is not a file of warm-up requests ({_find_reason(error)}): export again") from None


def replay_warmup(folder: str | os.PathLike) -> int:
    """Send the requests of a SavedModel's warm-up file to its signatures, as a server does.

    Returns:
        The number of requests.

    Raises:
        ParityError: the file cannot be read, or a request does not match its signature or fails. A server would refuse
            the model.
    """
    requests = read_warmup(folder)
    signatures = tf.saved_model.load(str(folder)).signatures
    for number, request in enumerate(requests, 1):
        if problem := _find_problem(request, signatures):
            raise ParityError(f"warm-up request {number} of {folder} {problem}: export again")
    return len(requests)


class _RecordError(ValueError):
    """A record is another kind of message."""


def _encode(model_name: str, signature: str, inputs: Mapping[str, np.ndarray]) -> bytes:
    log = _PredictionLog()
    request = log.predict_log.request
    request.model_spec.name, request.model_spec.signature_name = model_name, signature
    for name in sorted(inputs):  # so that equal requests have equal bytes
        request.inputs.add(key=name, value=tf.make_tensor_proto(inputs[name]).SerializeToString())
    return log.SerializeToString(deterministic=True)


def _decode(record: bytes) -> WarmupRequest:
    log = _PredictionLog.FromString(record)
    if not log.HasField("predict_log"):
        raise _RecordError("a record is not a request for a prediction")
    request = log.predict_log.request
    inputs = {entry.key: _parse_tensor(entry.value) for entry in request.inputs}
    return WarmupRequest(request.model_spec.name, request.model_spec.signature_name, inputs)


def _parse_tensor(encoded: bytes) -> np.ndarray:
    """Return the array of a serialized `TensorProto`; its class is only public as the type of a field."""
    tensor = tf.compat.v1.AttrValue().tensor
    tensor.MergeFromString(encoded)
    return tf.make_ndarray(tensor)


def _find_problem(request: WarmupRequest, signatures: Mapping[str, Callable]) -> str:
    """Send a request and return the reason if it fails, or "" if it succeeds."""
    if request.signature not in signatures:
        return f"is for the signature {request.signature!r}; the model has {', '.join(sorted(signatures))}"
    function = signatures[request.signature]
    specs = function.structured_input_signature[1]
    if set(request.inputs) != set(specs):
        return f"has {_list_names(request.inputs)}; the signature {request.signature!r} expects {_list_names(specs)}"
    for name, spec in specs.items():
        given = tf.TensorSpec.from_tensor(tf.constant(request.inputs[name]))
        if given.dtype != spec.dtype or not given.shape.is_compatible_with(spec.shape):
            return (
                f"has {name} as {given.dtype.name} {given.shape}; the signature {request.signature!r} expects "
                f"{spec.dtype.name} {spec.shape}"
            )
    try:
        function(**{name: tf.constant(value) for name, value in request.inputs.items()})
    except tf.errors.OpError as error:
        return f"fails in the signature {request.signature!r} ({_find_reason(error)})"
    return ""


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _find_reason(error: Exception) -> str:
    """Return the line of TensorFlow's message that contains the reason, without the names of nodes around it."""
    line = re.split(r"\n\s*\[\[", str(getattr(error, "message", error)).strip())[0].split("\n")[-1]
    return re.sub(r"^\{\{.*?\}\} | \[Op:.*$", "", line)
