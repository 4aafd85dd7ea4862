"""What a TensorFlow Serving needs beside a SavedModel: its settings, an image, and a request for each signature."""

import base64
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from string import Template

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.export.saved_model import serving_templates as templates
from bert_keras.export.saved_model.op_audit import read_meta_graph
from bert_keras.export.saved_model.serving_releases import OLDEST_SERVING
from bert_keras.export.settings import check_model_name

IMAGE_TAG = "2.20.0"  # of Docker's tensorflow/serving
MAX_BATCH_SIZE = 32  # rows; base's attention scores of 32 x 128 take 25 MB a layer

Request = tuple[str, Mapping[str, np.ndarray]]  # a signature's name, and its inputs by name

_TEXTS = {
    "text": ["The weather is fine today.", "Ein zweiter Text: 東京 😀"],
    "second_text": ["It is sunny.", "Tokyo is a city."],
    "question": ["Where is the tower?", "Who wrote the book?"],
    "context": ["The tower is in Paris.", "The book was written by a teacher in 1921."],
}
_IDS = {
    "input_ids": [[2, 1, 3], [2, 3, 0]],  # of any vocabulary; the second row is padded
    "attention_mask": [[1, 1, 1], [1, 1, 0]],
    "token_type_ids": [[0, 0, 0], [0, 0, 0]],
}


def write_serving_files(
    folder: str | os.PathLike,
    model_name: str,
    *,
    requests: Sequence[Request] | None = None,
    min_serving: str = OLDEST_SERVING,
) -> None:
    """Writes the folder `serving/` beside `saved_model/`.

    That is `models.config`, `batching.config`, a `Dockerfile`, a README.md with the three commands, and of each
    signature `request_<signature>.json`, the body of a REST request, and `request_<signature>.py`, a gRPC client.

    Args:
        folder: to write into; `saved_model/<version>/` is, or will be, beside it.
        model_name: the name under which the model is served.
        requests: one for each signature; those of `example_requests` for the newest version unless given.
        min_serving: the oldest release of TensorFlow Serving that runs the model.

    Raises:
        InputError: there is no SavedModel, or the name cannot stand in an address.
    """
    check_model_name(model_name)
    folder = pathlib.Path(folder)
    requests = example_requests(_newest_version(folder.parent)) if requests is None else requests
    folder.mkdir(exist_ok=True)
    facts = {
        "name": model_name,
        "min_serving": min_serving,
        "image_tag": _image_tag(min_serving),
        "max_batch_size": MAX_BATCH_SIZE,
        "first": max(requests, key=lambda request: request[0])[0],  # serving_default, behind ids
        "request_rows": "\n".join(_filled(templates.REQUEST_ROW, signature=name) for name, _ in requests),
    }
    for name, template in {
        "models.config": templates.MODELS_CONFIG,
        "batching.config": templates.BATCHING_CONFIG,
        "Dockerfile": templates.DOCKERFILE,
        "README.md": templates.README,
    }.items():
        (folder / name).write_text(_filled(template, **facts), encoding="utf-8")
    for signature, inputs in requests:
        (folder / f"request_{signature}.json").write_text(_json(rest_request(signature, inputs)), encoding="utf-8")
        client = _filled(templates.GRPC_CLIENT, name=model_name, signature=signature, inputs=_literals(inputs))
        (folder / f"request_{signature}.py").write_text(client, encoding="utf-8")


def example_requests(
    folder: str | os.PathLike, texts: Mapping[str, Sequence[str | bytes]] | None = None
) -> list[Request]:
    """Returns a request of two rows for each signature of a SavedModel, made from what the file says it takes.

    Args:
        folder: with `saved_model.pb`.
        texts: for inputs of strings by name, what to say instead of this module's own sentences.

    Raises:
        InputError: there is no SavedModel, or a signature takes something that there is no example of.
    """
    signatures = read_meta_graph(folder).signature_def
    return [
        (name, {argument: _example(argument, info, texts or {}) for argument, info in sorted(signature.inputs.items())})
        for name, signature in sorted(signatures.items())
        if not name.startswith("__")  # what restores the variables
    ]


def rest_request(signature: str, inputs: Mapping[str, np.ndarray]) -> dict:
    """Returns the body of `POST /v1/models/NAME:predict`, by columns; bytes that are no UTF-8 become `{"b64": ...}`."""
    return {"signature_name": signature, "inputs": {name: _json_values(value) for name, value in inputs.items()}}


def _example(name: str, info, texts: Mapping[str, Sequence[str | bytes]]) -> np.ndarray:
    dtype = tf.dtypes.as_dtype(info.dtype)
    values = {**_TEXTS, **texts}.get(name, _TEXTS["text"]) if dtype == tf.string else _IDS.get(name)
    if values is None:
        raise InputError(f"there is no example of the input {name} ({dtype.name}): give requests")
    return np.array(values, object if dtype == tf.string else dtype.as_numpy_dtype)


def _json(request: dict) -> str:
    """Returns a request as JSON with an input a line; a number a line would be no example to read."""
    dumped = {name: json.dumps(values, ensure_ascii=False) for name, values in request["inputs"].items()}
    lines = ",\n".join(f"    {json.dumps(name)}: {values}" for name, values in dumped.items())
    return f'{{\n  "signature_name": {json.dumps(request["signature_name"])},\n  "inputs": {{\n{lines}\n  }}\n}}\n'


def _json_values(value):
    if isinstance(value, np.ndarray | list):
        return [_json_values(one) for one in (value.tolist() if isinstance(value, np.ndarray) else value)]
    text = _text(value)
    return {"b64": base64.b64encode(text).decode()} if isinstance(text, bytes) else text


def _text(value):
    """Returns bytes as a string if they are one."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def _literals(inputs: Mapping[str, np.ndarray]) -> str:
    lines = []
    for name, value in inputs.items():
        is_text = value.dtype.kind in "OSU"
        values = [_text(one) for one in value.tolist()] if is_text else value.tolist()
        lines.append(f"    {name!r}: ({('string' if is_text else value.dtype.name)!r}, {values!r}),")
    return "\n".join(lines)


def _newest_version(out: pathlib.Path) -> pathlib.Path:
    versions = [path for path in out.glob("saved_model/*/") if path.name.isdecimal()]
    if not versions:
        raise InputError(f"{out} holds no saved_model/1 or later version; expected a SavedModel there: write it first")
    return max(versions, key=lambda path: int(path.name))


def _image_tag(min_serving: str) -> str:
    """Returns the image's own tag, or the first of the release that is asked for where that is newer."""
    parts = lambda version: tuple(map(int, version.split(".")[:2]))  # noqa: E731
    return IMAGE_TAG if parts(min_serving) <= parts(IMAGE_TAG) else ".".join(map(str, (*parts(min_serving), 0)))


def _filled(template: str, **facts) -> str:
    return Template(template).substitute(facts)
