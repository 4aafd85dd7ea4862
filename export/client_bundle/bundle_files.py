"""Write `model.json`, and for TFLite also README.md and the parity reports, into a folder before it is published."""

import pathlib
from collections.abc import Mapping, Sequence

from bert_keras.export.client_bundle.client_description import (
    MODEL_FILE,
    ModelFile,
    Tensor,
    build_client_description,
    format_description,
)
from bert_keras.export.client_bundle.client_readme import make_readme
from bert_keras.export.export_job import ExportJob, Reports
from bert_keras.export.targets import PARITY
from bert_keras.export.tflite.tflite_file import parse_tflite, read_signatures
from bert_keras.files import write_json
from bert_keras.tasks.base import Task

_LABELS = "labels.txt"
_OTHER_FILES = {  # next to the TFLite files
    "vocab.txt": "the tokens, one per line; the id of a token is its line, counted from 0",
    _LABELS: "the labels, one per line, in the order of the outputs",
    MODEL_FILE: "for programs: files, inputs, outputs, tokenizer, task, and texts with answers to check an app",
    PARITY: "how far the answers of each file differ from those of the original model",
}
_DTYPES = {"float": "float32"}  # onnxruntime's name


def write_tflite_bundle(
    job: ExportJob,
    folder: pathlib.Path,
    files: Sequence[ModelFile],
    *,
    task: Task | None,
    probes: Sequence[Mapping],
    reports: Reports,
    in_mediapipe: bool,
) -> None:
    """Write `model.json`, README.md and `parity.json` next to TFLite files.

    Args:
        job: the export.
        folder: the folder with the files.
        files: the files. The first one has a single signature, whose inputs and outputs are described.
        task: the task, with the length of the files.
        probes: the result of `make_probes`.
        reports: the parity report of each artifact, keyed by its path in the output folder.
        in_mediapipe: whether MediaPipe can run the files with a single signature.
    """
    own_reports = {file.path: reports[f"tflite/{file.path}"] for file in files}
    inputs, outputs = _read_tensors(folder / files[0].path, own_reports[files[0].path]["signatures"])
    description = build_client_description(
        job.settings.model_name,
        "tflite",
        files=files,
        inputs=inputs,
        outputs=outputs,
        tokenizer=job.reference.tokenizer,
        task=task,
        probes=probes,
    )
    _write_description(folder, description)
    readme = make_readme(
        description,
        vocabulary_size=len(job.reference.tokenizer.vocabulary),
        in_mediapipe=in_mediapipe,
        other_files={name: text for name, text in _OTHER_FILES.items() if name != _LABELS or (folder / name).is_file()},
    )
    (folder / "README.md").write_text(readme, encoding="utf-8")
    write_json(folder / PARITY, {"model": job.settings.model_name, "artifacts": own_reports})


def write_onnx_description(
    job: ExportJob,
    folder: pathlib.Path,
    files: Mapping[str, str],
    *,
    probes: Sequence[Mapping],
    reports: Reports,
) -> None:
    """Write `model.json` into an ONNX folder.

    Args:
        job: the export.
        folder: the folder.
        files: the quantization of each file, keyed by its path; the first file's inputs and outputs are described.
        probes: the result of `make_probes`.
        reports: the parity report of each artifact, keyed by its path in the output folder.
    """
    signature = reports[f"onnx/{next(iter(files))}"]["signatures"][""]
    sides = [
        [
            Tensor(name, index, _DTYPES.get(dtype, dtype), [size if isinstance(size, int) else None for size in shape])
            for index, (name, (dtype, shape)) in enumerate(signature[side].items())
        ]
        for side in ("inputs", "outputs")
    ]
    description = build_client_description(
        job.settings.model_name,
        "onnx",
        files=[
            ModelFile(path, quantization, (folder / path).stat().st_size, {"": None})
            for path, quantization in files.items()
        ],
        inputs=sides[0],
        outputs=sides[1],
        tokenizer=job.reference.tokenizer,
        task=job.reference.task,
        probes=probes,
    )
    _write_description(folder, description)


def _write_description(folder: pathlib.Path, description: Mapping) -> None:
    (folder / MODEL_FILE).write_text(format_description(description) + "\n", encoding="utf-8")


def _read_tensors(path: pathlib.Path, reported: Mapping[str, Mapping]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs and the outputs of a file with one signature, in the order of the graph.

    Args:
        path: the file.
        reported: its signatures as LiteRT reported them, which have the types.
    """
    ((name, signature),) = read_signatures(parse_tflite(path.read_bytes(), str(path))).items()
    inputs, outputs = (
        [
            Tensor(tensor, index, reported[name][side][tensor][0], list(shape))
            for index, (tensor, shape) in enumerate(getattr(signature, side).items())
        ]
        for side in ("inputs", "outputs")
    )
    return inputs, outputs
