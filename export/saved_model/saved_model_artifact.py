"""Export a SavedModel: write the next version with warm-up requests and server files, and start its parity check."""

import functools
import json
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_keras.engines.artifact_files import DESCRIPTION
from bert_keras.export.export_job import ExportJob, write_description
from bert_keras.export.parity.parity_check import start_saved_model_check
from bert_keras.export.parity.probe_inputs import EXAMPLE_IDS, EXAMPLE_MASKED_TEXTS, EXAMPLE_TEXTS
from bert_keras.export.saved_model.op_audit import audit_saved_model, read_meta_graph
from bert_keras.export.saved_model.to_saved_model import write_saved_model
from bert_keras.export.saved_model.warmup import replay_warmup, write_warmup
from bert_keras.export.targets import PARITY, WRITTEN_BY, get_next_version
from bert_keras.export.template_files import fill_template
from bert_keras.files import write_json
from bert_keras.publishing import publish_folder

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
    texts = EXAMPLE_TEXTS | (EXAMPLE_MASKED_TEXTS if reference.head.fills_masks else {})
    requests = build_example_requests(folder, texts)
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
    folder: str | os.PathLike, model_name: str, *, requests: Sequence[Request], min_serving: str
) -> None:
    """Write the folder `serving/` next to `saved_model/`.

    It contains `models.config`, `batching.config`, `monitoring.config`, a `Dockerfile`, a README.md with the three
    commands to run, and for each signature `request_<signature>.json`, the body of a REST request, and
    `request_<signature>.py`, a gRPC client.

    Args:
        folder: the folder to write to; `saved_model/<version>/` is, or will be, next to it.
        model_name: the name under which the model is served.
        requests: one for each signature, such as those of `build_example_requests`.
        min_serving: the oldest release of TensorFlow Serving that can run the model.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    facts = {
        "name": model_name,
        "min_serving": min_serving,
        "image_tag": _choose_image_tag(min_serving),
        "max_batch_size": MAX_BATCH_SIZE,
        "first": max(requests, key=lambda request: request[0])[0],  # serving_default rather than ids
        "signatures": [{"signature": name} for name, _ in requests],
    }
    for name in ("models.config", "batching.config", "monitoring.config", "Dockerfile", "README.md"):
        (folder / name).write_text(fill_template(f"serving/{name}", **facts), encoding="utf-8")
    for signature, inputs in requests:
        (folder / f"request_{signature}.json").write_text(_format_rest_request(signature, inputs), encoding="utf-8")
        columns = [
            {"key": name, "dtype": "string" if values.dtype == object else values.dtype.name, "rows": values.tolist()}
            for name, values in inputs.items()
        ]
        client = fill_template("serving/request.py.txt", name=model_name, signature=signature, inputs=columns)
        (folder / f"request_{signature}.py").write_text(client, encoding="utf-8")


def build_example_requests(
    folder: str | os.PathLike, texts: Mapping[str, Sequence[str]] = EXAMPLE_TEXTS
) -> list[Request]:
    """Build a request of two texts or sequences for each signature of a SavedModel.

    Args:
        folder: contains `saved_model.pb`.
        texts: the texts of each input, keyed by its name; those of "text" are for any other input.

    Raises:
        InputError: there is no SavedModel.
    """
    signatures = read_meta_graph(folder).signature_def
    return [
        (name, {key: _choose_example(key, info, texts) for key, info in sorted(signature.inputs.items())})
        for name, signature in sorted(signatures.items())
        if not name.startswith("__")  # the function that restores the variables
    ]


def _choose_example(name: str, info: tf.compat.v1.TensorInfo, texts: Mapping[str, Sequence[str]]) -> np.ndarray:
    dtype = tf.dtypes.as_dtype(info.dtype)
    if dtype == tf.string:
        return np.array(texts.get(name, texts["text"]), object)
    return np.array(EXAMPLE_IDS[name], dtype.as_numpy_dtype)


def _format_rest_request(signature: str, inputs: Mapping[str, np.ndarray]) -> str:
    """Return the body of `POST /v1/models/NAME:predict` in column format, with one input per line.

    `json.dumps(indent=2)` writes one number per line.
    """
    dumped = {name: json.dumps(values.tolist(), ensure_ascii=False) for name, values in inputs.items()}
    lines = ",\n".join(f"    {json.dumps(name)}: {values}" for name, values in dumped.items())
    return f'{{\n  "signature_name": {json.dumps(signature)},\n  "inputs": {{\n{lines}\n  }}\n}}\n'


def _choose_image_tag(min_serving: str) -> str:
    """Return `IMAGE_TAG`, or the first image of the required release if that is newer."""
    (major, minor), newest = (tuple(map(int, version.split(".")[:2])) for version in (min_serving, IMAGE_TAG))
    return IMAGE_TAG if (major, minor) <= newest else f"{major}.{minor}.0"
