"""Warm-up requests, which TensorFlow Serving sends to a model before it answers clients.

The first request to a graph is slow because the graph is optimized and memory is allocated; a server that finds this
file does so while it loads. It is a TFRecord file of `PredictionLog` messages. The package `tensorflow-serving-api` has
their classes but pins its own TensorFlow release, so they are those of our server.
"""

import os
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of the tokenizer
from google.protobuf.message import DecodeError

from bert_keras.errors import ParityError
from bert_keras.serving.messages.definitions import MESSAGES

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"


def write_warmup(
    folder: str | os.PathLike, model_name: str, requests: Sequence[tuple[str, Mapping[str, np.ndarray]]]
) -> None:
    """Write the warm-up file of a SavedModel. `tf.saved_model.save` deletes it, so write it after saving.

    Args:
        folder: contains `saved_model.pb`.
        model_name: the name under which the model will be served.
        requests: each a signature's name and its inputs, arrays of the signature's dtypes keyed by name. A server runs
            them one after the other, so a few of different sizes are enough; it refuses a model with more than 1000.
    """
    path = pathlib.Path(folder, WARMUP_FILE)
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests:
            log = MESSAGES.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name, request.model_spec.signature_name = model_name, signature
            for name, value in inputs.items():
                request.inputs[name].MergeFromString(tf.make_tensor_proto(value).SerializeToString())
            writer.write(log.SerializeToString(deterministic=True))


def read_warmup(folder: str | os.PathLike) -> list[tuple[str, str, dict[str, np.ndarray]]]:
    """Return the requests of a SavedModel's warm-up file: the names of the model and the signature, and the inputs.

    Raises:
        ParityError: there is no such file, or it is damaged.
    """
    path = pathlib.Path(folder, WARMUP_FILE)
    if not path.is_file():
        raise ParityError(f"{path} does not exist; expected warm-up requests there: export again")
    try:
        return [_decode(record.numpy()) for record in tf.data.TFRecordDataset(str(path))]
    except (tf.errors.OpError, DecodeError) as error:
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
    for number, (_, signature, inputs) in enumerate(requests, 1):
        if problem := _find_problem(signature, inputs, signatures):
            raise ParityError(f"warm-up request {number} of {folder} {problem}: export again")
    return len(requests)


def _find_problem(signature: str, inputs: Mapping[str, np.ndarray], signatures: Mapping[str, Callable]) -> str:
    """Send a request and return the reason if it fails, or "" if it succeeds."""
    if signature not in signatures:
        return f"is for the signature {signature!r}; the model has {', '.join(sorted(signatures))}"
    specs = signatures[signature].structured_input_signature[1]
    if set(inputs) != set(specs):
        has, expected = (", ".join(sorted(names)) or "nothing" for names in (inputs, specs))
        return f"has {has}; the signature {signature!r} expects {expected}"
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    for name, spec in specs.items():
        if not spec.is_compatible_with(tensors[name]):
            given = f"{name} as {tensors[name].dtype.name} {tensors[name].shape}"
            return f"has {given}; the signature {signature!r} expects {spec.dtype.name} {spec.shape}"
    try:
        signatures[signature](**tensors)
    except tf.errors.OpError as error:
        return f"fails in the signature {signature!r} ({_find_reason(error)})"
    return ""


def _decode(record: bytes) -> tuple[str, str, dict[str, np.ndarray]]:
    log = MESSAGES.PredictionLog.FromString(record)
    if not log.HasField("predict_log"):
        raise DecodeError("a record is not a request for a prediction")
    request = log.predict_log.request
    inputs = {name: _parse_tensor(value.SerializeToString()) for name, value in request.inputs.items()}
    return request.model_spec.name, request.model_spec.signature_name, inputs


def _parse_tensor(encoded: bytes) -> np.ndarray:
    """Return the array of a serialized `TensorProto`; its class is only public as the type of a field."""
    tensor = tf.compat.v1.AttrValue().tensor
    tensor.MergeFromString(encoded)
    return tf.make_ndarray(tensor)


def _find_reason(error: Exception) -> str:
    """Return the line of TensorFlow's message that contains the reason, without the names of nodes around it."""
    line = re.split(r"\n\s*\[\[", str(getattr(error, "message", error)).strip())[0].split("\n")[-1]
    return re.sub(r"^\{\{.*?\}\} | \[Op:.*$", "", line)
