"""The files in `deploy/`: images, manifests and a model repository that serve an ONNX folder elsewhere."""

import json
import math
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from string import Template

from bert_keras import __version__
from bert_keras.export.deployment import docker_templates, kubernetes_templates, readme_templates, triton_templates
from bert_keras.export.deployment.server_packages import SERVER_PACKAGES, TRITON_PACKAGES
from bert_keras.export.saved_model.serving_bundle import EXAMPLE_IDS, EXAMPLE_MASKED_TEXTS, EXAMPLE_TEXTS
from bert_keras.export.settings import check_model_name
from bert_keras.tasks.base import Task
from bert_keras.tasks.mask_filling_task import MaskFilling
from bert_keras.tasks.signatures import TensorSpec

Signature = Mapping[str, Mapping[str, Sequence]]  # "inputs" and "outputs": name: (dtype, shape), as in a parity report

_MAX_BATCH_SIZE = 128  # texts per request and per batch in Triton; 32 short ones would keep one core busy, not two
_DATA_TYPES = {"string": "TYPE_STRING", "float32": "TYPE_FP32", "int32": "TYPE_INT32"}
_DATA_TYPES |= {"float": "TYPE_FP32", "int64": "TYPE_INT64"}  # onnxruntime's names
_MAX_DNS_LENGTH = 40  # of 63, because KServe appends to it
# MiniLM, a file of 90 MB, takes 330 MB in two processes; during a change of version the server holds two models.
_SERVER_BYTES, _BYTES_PER_MODEL_BYTE = 512 << 20, 4


def write_deployment_files(
    folder: str | os.PathLike, model_name: str, *, signature: Signature, num_bytes: int, task: Task | None
) -> None:
    """Write the folder `deploy/` next to `onnx/`.

    It contains `docker/`, `kubernetes.yaml`, `kserve.yaml`, a Triton model repository `triton/`, example requests, and
    a README.md with the commands for each system. Without a task there are only the files for token ids in Triton.

    Args:
        folder: the folder to write to; `onnx/` is, or will be, next to it.
        model_name: the name under which the model is served.
        signature: the inputs and outputs of the ONNX file.
        num_bytes: the size of the ONNX file.
        task: the task with which `bert-keras serve` answers texts; None: it cannot serve the model.

    Raises:
        InputError: the name cannot be part of a URL.
    """
    check_model_name(model_name)
    facts = _describe(model_name, num_bytes)
    files = {**_make_triton_files(facts, signature, task), "request_ids.json": _make_ids_request(signature)}
    if task is not None:
        files |= {
            "docker/Dockerfile": _fill(docker_templates.SERVER_DOCKERFILE, **facts),
            "kubernetes.yaml": _fill(kubernetes_templates.KUBERNETES, **facts),
            "kserve.yaml": _fill(kubernetes_templates.KSERVE, **facts),
            "request.json": _make_text_request(task),
        }
    files["README.md"] = _make_readme(facts, has_texts=task is not None)
    for name, text in files.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def make_dns_name(model_name: str) -> str:
    """Return a model's name as a name of Kubernetes: lower-case letters, digits and -, the first a letter."""
    name = re.sub(r"[^a-z0-9]+", "-", model_name.lower()).strip("-")
    return (name if name[:1].isalpha() else f"model-{name}")[:_MAX_DNS_LENGTH].rstrip("-")


def _describe(model_name: str, num_bytes: int) -> dict[str, object]:
    """Return what the templates contain."""
    dns_name = make_dns_name(model_name)
    return {
        "name": model_name,
        "dns_name": dns_name,
        "image": f"{dns_name}:1",
        "server_image": f"bert-keras-server:{__version__}",
        "triton_image": f"{dns_name}-triton:1",
        "version": __version__,
        "memory": f"{math.ceil((_SERVER_BYTES + _BYTES_PER_MODEL_BYTE * num_bytes) / (1 << 30))}Gi",
        "max_batch_size": _MAX_BATCH_SIZE,
        "server_packages": _format_packages(SERVER_PACKAGES),
        "triton_packages": _format_packages(TRITON_PACKAGES),
    }


def _make_triton_files(facts: Mapping[str, object], signature: Signature, task: Task | None) -> dict[str, str]:
    """Return the files of the model repository and its Dockerfile, keyed by path."""
    name = facts["name"]
    ids_config = _fill(triton_templates.IDS_CONFIG, **facts, **_format_sides(_read_specs(signature)))
    files = {f"triton/{name}_ids/config.pbtxt": ids_config}
    layers = docker_templates.TRITON_LAYERS
    if task is not None:
        sides = _format_sides(_describe_texts(task, signature))
        files[f"triton/{name}/config.pbtxt"] = _fill(triton_templates.TEXT_CONFIG, **facts, **sides)
        files[f"triton/{name}/1/model.py"] = _fill(triton_templates.TEXT_MODEL, **facts)
        layers = docker_templates.TRITON_LAYERS_WITH_TEXTS
    dockerfile = _fill(docker_templates.TRITON_DOCKERFILE, **facts, layers=_fill(layers, **facts))
    return {**files, "docker/triton.Dockerfile": dockerfile}


def _read_specs(signature: Signature) -> dict[str, list[TensorSpec]]:
    """Return the inputs and outputs of an ONNX file; its named axes have any length."""
    return {
        side: [TensorSpec(name, dtype, _read_shape(shape)) for name, (dtype, shape) in entries.items()]
        for side, entries in signature.items()
    }


def _read_shape(shape: Sequence[int | str | None]) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else -1 for size in shape)


def _describe_texts(task: Task, signature: Signature) -> dict[str, list[TensorSpec]]:
    """Return the inputs and outputs of `serving_default`."""
    _, vector_shape = signature["outputs"].get("sentence_embedding", (None, (None,)))
    dimensions = vector_shape[-1] if isinstance(vector_shape[-1], int) else None
    inputs = [TensorSpec(name, "string", (-1,)) for name in task.input_names]
    return {"inputs": inputs, "outputs": task.describe_signature(dimensions)}


def _format_sides(sides: Mapping[str, Sequence[TensorSpec]]) -> dict[str, str]:
    """Return the tensors of `config.pbtxt`. Their shapes lack the batch, and a vector `(B,)` is `(B, 1)` in Triton."""
    return {side: ",\n".join(_format_tensor(*spec) for spec in specs) for side, specs in sides.items()}


def _format_tensor(name: str, dtype: str, shape: Sequence[int]) -> str:
    dims = ", ".join(map(str, shape[1:] or (1,)))
    return _fill(triton_templates.TENSOR, name=name, data_type=_DATA_TYPES[dtype], dims=dims)


def _make_text_request(task: Task) -> str:
    texts = EXAMPLE_MASKED_TEXTS if isinstance(task, MaskFilling) else EXAMPLE_TEXTS
    return _format_request({name: ("BYTES", [[text] for text in texts[name]]) for name in task.input_names})


def _make_ids_request(signature: Signature) -> str:
    inputs = signature["inputs"].items()
    return _format_request({name: (dtype.upper(), EXAMPLE_IDS[name]) for name, (dtype, _) in inputs})


def _format_request(tensors: Mapping[str, tuple[str, Sequence[Sequence]]]) -> str:
    """Return a request of the Open Inference Protocol, given the datatype and the rows of each input."""
    lines = []
    for name, (datatype, rows) in tensors.items():
        data = [value for row in rows for value in row]
        entry = {"name": name, "shape": [len(rows), len(rows[0])], "datatype": datatype, "data": data}
        lines.append(f"    {json.dumps(entry, ensure_ascii=False)}")  # one line per input
    return '{\n  "inputs": [\n' + ",\n".join(lines) + "\n  ]\n}\n"


def _make_readme(facts: Mapping[str, object], *, has_texts: bool) -> str:
    templates = readme_templates
    rows = templates.SERVER_ROWS if has_texts else templates.IDS_ROWS
    curls = [templates.TEXT_CURL] * has_texts + [templates.IDS_CURL]
    copies = [templates.TEXT_COPY] * has_texts + [templates.IDS_COPY]
    triton = _fill(
        templates.TRITON_SECTION,
        **facts,
        curls=_fill("\n".join(curls), **facts),
        copies=_fill("\n".join(copies), **facts),
        text_notes=_fill(templates.TEXT_NOTES, **facts) if has_texts else "",
    )
    sections = _fill(templates.SERVER_SECTIONS, **facts) + triton if has_texts else triton
    return _fill(templates.README, **facts, rows=_fill(rows, **facts), sections=sections)


def _format_packages(packages: Sequence[str]) -> str:
    return "\n".join(_fill(docker_templates.PACKAGE_LINE, package=package) for package in packages)


def _fill(template: str, **facts: object) -> str:
    return Template(template).substitute(facts)
