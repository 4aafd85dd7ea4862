"""Export a SavedModel: write the next version with warm-up requests and server files, and start its parity check."""

import base64
import functools
import json
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.export.description import write_description
from bert_keras.export.export_job import ExportJob
from bert_keras.export.parity.parity_check import start_saved_model_check
from bert_keras.export.parity.probe_inputs import EXAMPLE_IDS, EXAMPLE_MASKED_TEXTS, EXAMPLE_TEXTS
from bert_keras.export.saved_model.op_audit import audit_saved_model, read_meta_graph
from bert_keras.export.saved_model.serving_releases import OLDEST_SERVING
from bert_keras.export.saved_model.to_saved_model import write_saved_model
from bert_keras.export.saved_model.warmup import replay_warmup, write_warmup
from bert_keras.export.settings import check_model_name
from bert_keras.export.targets import PARITY, WRITTEN_BY, get_next_version
from bert_keras.export.template_files import fill_template
from bert_keras.files import write_json
from bert_keras.publishing import publish_folder
from bert_keras.tasks.engines.artifact_files import DESCRIPTION

NUM_CHECKS = 1
IMAGE_TAG = "2.20.0"  # of Docker's tensorflow/serving
MAX_BATCH_SIZE = 32  # texts; base's attention scores of 32 x 128 take 25 MB per layer

Request = tuple[str, Mapping[str, np.ndarray]]  # a signature's name, and its inputs keyed by name


def export_saved_model(job: ExportJob) -> None:
    """Write `saved_model/VERSION` and `serving/`, and start the parity check.

    Raises:
        ParityError: an operator is newer than the server, or a warm-up request fails.
    """
    reference, settings = job.reference, job.settings
    version = get_next_version(job.out / "saved_model")
    folder = job.publishing.enter_context(publish_folder(job.out / "saved_model" / str(version), WRITTEN_BY))
    job.stages.begin("writing the SavedModel")
    write_saved_model(reference.model, reference.tokenizer, reference.task, folder)
    task = None if reference.task is None else reference.task.settings()
    write_description(reference.model, reference.tokenizer, folder / DESCRIPTION, task=task)
    audit = audit_saved_model(folder, settings.min_serving)
    requests = build_example_requests(folder, EXAMPLE_MASKED_TEXTS if reference.head.fills_masks else None)
    write_warmup(folder, settings.model_name, requests)
    serving = job.publishing.enter_context(publish_folder(job.out / "serving", WRITTEN_BY, overwrite=True))
    write_serving_files(serving, settings.model_name, requests=requests, min_serving=settings.min_serving)

    name = f"saved_model/{version}"

    def complete_report(report: dict) -> dict:
        return {**report, "warmup_requests": num_requests, "audit": audit}

    start = functools.partial(start_saved_model_check, reference, folder, settings.probes)
    job.checks.begin(name, start, complete_report)
    job.completions.append(lambda reports: write_json(folder / "assets.extra" / PARITY, reports[name]))
    num_requests = replay_warmup(folder)  # while the check runs


def write_serving_files(
    folder: str | os.PathLike,
    model_name: str,
    *,
    requests: Sequence[Request] | None = None,
    min_serving: str = OLDEST_SERVING,
) -> None:
    """Write the folder `serving/` next to `saved_model/`.

    It contains `models.config`, `batching.config`, `monitoring.config`, a `Dockerfile`, a README.md with the three
    commands to run, and for each signature `request_<signature>.json`, the body of a REST request, and
    `request_<signature>.py`, a gRPC client.

    Args:
        folder: the folder to write to; `saved_model/<version>/` is, or will be, next to it.
        model_name: the name under which the model is served.
        requests: one for each signature; by default those of `build_example_requests` for the newest version.
        min_serving: the oldest release of TensorFlow Serving that can run the model.

    Raises:
        InputError: there is no SavedModel, or the name cannot be part of a URL.
    """
    check_model_name(model_name)
    folder = pathlib.Path(folder)
    requests = build_example_requests(_find_newest_version(folder.parent)) if requests is None else requests
    folder.mkdir(exist_ok=True)
    facts = {
        "name": model_name,
        "min_serving": min_serving,
        "image_tag": _choose_image_tag(min_serving),
        "max_batch_size": MAX_BATCH_SIZE,
        "first": max(requests, key=lambda request: request[0])[0],  # serving_default rather than ids
        "request_rows": "\n".join(_describe_request(name) for name, _ in requests),
    }
    for name in ("models.config", "batching.config", "monitoring.config", "Dockerfile", "README.md"):
        (folder / name).write_text(fill_template(f"serving/{name}", **facts), encoding="utf-8")
    for signature, inputs in requests:
        (folder / f"request_{signature}.json").write_text(
            _format_json(build_rest_request(signature, inputs)), encoding="utf-8"
        )
        inputs = _format_inputs(inputs)
        client = fill_template("serving/request.py.txt", name=model_name, signature=signature, inputs=inputs)
        (folder / f"request_{signature}.py").write_text(client, encoding="utf-8")


def build_example_requests(
    folder: str | os.PathLike, texts: Mapping[str, Sequence[str | bytes]] | None = None
) -> list[Request]:
    """Build a request of two texts or sequences for each signature of a SavedModel.

    Args:
        folder: contains `saved_model.pb`.
        texts: replacements for this module's example texts, keyed by input name.

    Raises:
        InputError: there is no SavedModel, or there is no example for an input of a signature.
    """
    signatures = read_meta_graph(folder).signature_def
    return [
        (name, {key: _choose_example(key, info, texts or {}) for key, info in sorted(signature.inputs.items())})
        for name, signature in sorted(signatures.items())
        if not name.startswith("__")  # the function that restores the variables
    ]


def build_rest_request(signature: str, inputs: Mapping[str, np.ndarray]) -> dict:
    """Build the body of `POST /v1/models/NAME:predict` in column format; invalid UTF-8 becomes `{"b64": ...}`."""
    return {"signature_name": signature, "inputs": {name: _convert_to_json(value) for name, value in inputs.items()}}


def _describe_request(signature: str) -> str:
    """Return the rows of the README about the requests to a signature."""
    return (
        f"| `request_{signature}.json` | a REST request to the signature `{signature}` |\n"
        f"| `request_{signature}.py` | the same over gRPC; needs `pip install tensorflow-serving-api` |"
    )


def _choose_example(name: str, info: tf.compat.v1.TensorInfo, texts: Mapping[str, Sequence[str | bytes]]) -> np.ndarray:
    dtype = tf.dtypes.as_dtype(info.dtype)
    values = (
        {**EXAMPLE_TEXTS, **texts}.get(name, EXAMPLE_TEXTS["text"]) if dtype == tf.string else EXAMPLE_IDS.get(name)
    )
    if values is None:
        raise InputError(f"there is no example for the input {name} ({dtype.name}): pass requests")
    return np.array(values, object if dtype == tf.string else dtype.as_numpy_dtype)


def _format_json(request: dict) -> str:
    """Return a request as JSON with one input per line, because `json.dumps(indent=2)` writes one number per line."""
    dumped = {name: json.dumps(values, ensure_ascii=False) for name, values in request["inputs"].items()}
    lines = ",\n".join(f"    {json.dumps(name)}: {values}" for name, values in dumped.items())
    return f'{{\n  "signature_name": {json.dumps(request["signature_name"])},\n  "inputs": {{\n{lines}\n  }}\n}}\n'


def _convert_to_json(value: object) -> object:
    if isinstance(value, np.ndarray | list):
        return [_convert_to_json(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]
    text = _decode(value)
    return {"b64": base64.b64encode(text).decode()} if isinstance(text, bytes) else text


def _decode(value: object) -> object:
    """Decode bytes that are valid UTF-8; return any other value as it is."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def _format_inputs(inputs: Mapping[str, np.ndarray]) -> str:
    lines = []
    for name, value in inputs.items():
        is_text = value.dtype.kind in "OSU"
        values = [_decode(item) for item in value.tolist()] if is_text else value.tolist()
        lines.append(f"    {name!r}: ({('string' if is_text else value.dtype.name)!r}, {values!r}),")
    return "\n".join(lines)


def _find_newest_version(out: pathlib.Path) -> pathlib.Path:
    versions = [path for path in out.glob("saved_model/*/") if path.name.isdecimal()]
    if not versions:
        raise InputError(f"{out} contains no saved_model/1 or later version: write the SavedModel first")
    return max(versions, key=lambda path: int(path.name))


def _choose_image_tag(min_serving: str) -> str:
    """Return `IMAGE_TAG`, or the first image of the required release if that is newer."""
    (major, minor), newest = (tuple(map(int, version.split(".")[:2])) for version in (min_serving, IMAGE_TAG))
    return IMAGE_TAG if (major, minor) <= newest else f"{major}.{minor}.0"
