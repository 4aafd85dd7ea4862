"""The files in `deploy/`: images, manifests and a model repository that serve an ONNX folder elsewhere."""

import json
import math
import os
import pathlib
import re
from collections.abc import Mapping, Sequence

from bert_keras import __version__
from bert_keras.export.parity.probe_inputs import EXAMPLE_IDS, EXAMPLE_MASKED_TEXTS, EXAMPLE_TEXTS
from bert_keras.export.template_files import fill_template
from bert_keras.heads.known_heads import get_task_head
from bert_keras.heads.signatures import TensorSpec
from bert_keras.heads.task import Task

Signature = Mapping[str, Mapping[str, Sequence]]  # "inputs" and "outputs": name: (dtype, shape), as in a parity report

_MAX_BATCH_SIZE = 128  # texts per request and per batch in Triton; 32 short ones would keep one core busy, not two
_FILES = ("README.md", "docker/triton.Dockerfile")
_TEXT_FILES = ("docker/Dockerfile", "kubernetes.yaml", "kserve.yaml")  # for a model that `bert-keras serve` can serve
_DATA_TYPES = {"string": "TYPE_STRING", "float32": "TYPE_FP32", "int32": "TYPE_INT32"}
_DATA_TYPES |= {"float": "TYPE_FP32", "int64": "TYPE_INT64"}  # onnxruntime's names
_MAX_DNS_LENGTH = 40  # of 63, because KServe appends to it
# MiniLM, a file of 90 MB, takes 330 MB in two processes; during a change of version the server holds two models.
_SERVER_BYTES, _BYTES_PER_MODEL_BYTE = 512 << 20, 4

# The packages that `bert-keras serve` and Triton's Python need to run an ONNX file, without TensorFlow and Keras. The
# versions are those of setup.cfg; a test compares both lists with what the modules import.
_ONNXRUNTIME = "onnxruntime>=1.20,!=1.21.*,!=1.22.*,!=1.23.*,!=1.24.*,<2"  # the others compute wrongly with AMX
_MODEL_PACKAGES = (_ONNXRUNTIME, "safetensors>=0.5,<1", "tokenizers>=0.22,<0.24")

SERVER_PACKAGES = (
    "grpcio>=1.71,<2",
    "httptools>=0.6,<1",
    "numpy>=2.0,<3",
    "orjson>=3.10,<4",
    "prometheus-client>=0.21,<1",
    "protobuf>=6.31,<8",
    "pydantic>=2.10,<3",
    "rich>=13",
    "starlette>=0.45,<2",
    "uvicorn>=0.34,<1",
    "uvloop>=0.21,<1",
    *_MODEL_PACKAGES,
)
# NumPy 2 ends the Python process of Triton 24.10 at the first request; answers with 1.26.4 and 2.4.6 are equal.
TRITON_PACKAGES = ("numpy>=1.26,<2", *_MODEL_PACKAGES)


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
    """
    dns_name, has_texts = make_dns_name(model_name), task is not None
    facts = {
        "name": model_name,
        "dns_name": dns_name,
        "image": f"{dns_name}:1",
        "server_image": f"bert-keras-server:{__version__}",
        "triton_image": f"{dns_name}-triton:1",
        "version": __version__,
        "memory": f"{math.ceil((_SERVER_BYTES + _BYTES_PER_MODEL_BYTE * num_bytes) / (1 << 30))}Gi",
        "max_batch_size": _MAX_BATCH_SIZE,
        "server_packages": [{"package": package} for package in SERVER_PACKAGES],
        "triton_packages": [{"package": package} for package in TRITON_PACKAGES],
        "texts": has_texts,
    }
    templates = {name: pathlib.PurePath(name).name for name in (*_FILES, *(_TEXT_FILES if has_texts else ()))}
    files = {name: fill_template(f"deploy/{template}", **facts) for name, template in templates.items()}
    ids = {side: [(name, *entry) for name, entry in entries.items()] for side, entries in signature.items()}
    config = fill_template("deploy/ids_config.pbtxt", **facts, **_format_sides(ids))
    files[f"triton/{model_name}_ids/config.pbtxt"] = config
    files["request_ids.json"] = _format_request(
        {name: (dtype.upper(), EXAMPLE_IDS[name]) for name, (dtype, _) in signature["inputs"].items()}
    )
    if has_texts:
        config = fill_template("deploy/text_config.pbtxt", **facts, **_format_sides(_describe_texts(task, signature)))
        files[f"triton/{model_name}/config.pbtxt"] = config
        files[f"triton/{model_name}/1/model.py"] = fill_template("deploy/triton_model.py.txt", **facts)
        examples = EXAMPLE_MASKED_TEXTS if get_task_head(task.name).fills_masks else EXAMPLE_TEXTS
        columns = {name: examples.get(name, examples["text"]) for name in task.input_names}
        files["request.json"] = _format_request(
            {name: ("BYTES", [[text] for text in column]) for name, column in columns.items()}
        )
    for name, text in files.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def make_dns_name(model_name: str) -> str:
    """Return a model's name as a name of Kubernetes: lower-case letters, digits and -, the first a letter."""
    name = re.sub(r"[^a-z0-9]+", "-", model_name.lower()).strip("-")
    return (name if name[:1].isalpha() else f"model-{name}")[:_MAX_DNS_LENGTH].rstrip("-")


def _describe_texts(task: Task, signature: Signature) -> dict[str, list[TensorSpec]]:
    """Return the inputs and outputs of `serving_default`."""
    _, vector_shape = signature["outputs"].get("sentence_embedding", (None, (None,)))
    dimensions = vector_shape[-1] if isinstance(vector_shape[-1], int) else None
    inputs = [TensorSpec(name, "string", (-1,)) for name in task.input_names]
    return {"inputs": inputs, "outputs": task.describe_signature(dimensions)}


def _format_sides(sides: Mapping[str, Sequence[tuple[str, str, Sequence]]]) -> dict[str, str]:
    """Return the tensors of `config.pbtxt`, given their names, types and shapes; named axes have any length.

    The shapes lack the batch, and a vector `(B,)` is `(B, 1)` in Triton.
    """
    return {side: ",\n".join(_format_tensor(*spec) for spec in specs) for side, specs in sides.items()}


def _format_tensor(name: str, dtype: str, shape: Sequence[int | str | None]) -> str:
    dims = ", ".join(str(size) if isinstance(size, int) else "-1" for size in shape[1:] or (1,))
    return f'  {{ name: "{name}" data_type: {_DATA_TYPES[dtype]} dims: [ {dims} ] }}'


def _format_request(tensors: Mapping[str, tuple[str, Sequence[Sequence]]]) -> str:
    """Return a request of the Open Inference Protocol, given the datatype and the rows of each input."""
    lines = []
    for name, (datatype, rows) in tensors.items():
        data = [value for row in rows for value in row]
        entry = {"name": name, "shape": [len(rows), len(rows[0])], "datatype": datatype, "data": data}
        lines.append(f"    {json.dumps(entry, ensure_ascii=False)}")  # one line per input
    return '{\n  "inputs": [\n' + ",\n".join(lines) + "\n  ]\n}\n"
