"""Write `model.json`, and for TFLite also README.md and the parity reports, into a folder before it is published.

`model.json` contains probes: texts, their token ids and the checkpoint's answers, with which a program checks itself.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from bert_keras.export.client_bundle.client_description import (
    MODEL_FILE,
    ModelFile,
    Tensor,
    build_client_description,
    format_description,
)
from bert_keras.export.client_bundle.client_readme import make_readme
from bert_keras.export.export_job import ExportJob, Reports
from bert_keras.export.parity.probe_inputs import EXAMPLE_TEXTS, draw_default_texts
from bert_keras.export.parity.reference import Reference
from bert_keras.export.targets import PARITY
from bert_keras.export.tflite.tflite_file import parse_tflite, read_signatures
from bert_keras.files import write_json
from bert_keras.heads.task import Task
from bert_keras.pipelines.batches.encoding import encode

_LABELS = "labels.txt"
_DTYPES = {"float": "float32"}  # onnxruntime's name
# Accents in both forms, an emoji of several code points, Deseret (outside the first 65,536 code points), Chinese
_UNUSUAL_TEXT = (
    "Na\u00efve cafe\u0301s: \U0001f469\U0001f3fd\u200d\U0001f680, \U00010414\U0001042f & \u6771\u4eac\u3002"
)
_NUM_VALUES = 8  # of an array that is too long for a readable file


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
    content = (folder / files[0].path).read_bytes()
    ((name, signature),) = read_signatures(parse_tflite(content, files[0].path)).items()
    reported = own_reports[files[0].path]["signatures"][name]  # has the types; the file has the order of the graph
    sides = {
        side: {tensor: (reported[side][tensor][0], shape) for tensor, shape in shapes.items()}
        for side, shapes in signature._asdict().items()
    }
    description = _write_description(job, folder, "tflite", files, sides, task=task, probes=probes)
    readme = make_readme(
        description,
        vocabulary_size=job.reference.tokenizer.vocabulary_size,
        in_mediapipe=in_mediapipe,
        has_labels=(folder / _LABELS).is_file(),
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
    sides = reports[f"onnx/{next(iter(files))}"]["signatures"][""]
    described = [ModelFile(path, kind, (folder / path).stat().st_size, {"": None}) for path, kind in files.items()]
    _write_description(job, folder, "onnx", described, sides, task=job.reference.task, probes=probes)


def _write_description(
    job: ExportJob,
    folder: pathlib.Path,
    runtime: str,
    files: Sequence[ModelFile],
    sides: Mapping[str, Mapping[str, tuple[str, Sequence]]],
    *,
    task: Task | None,
    probes: Sequence[Mapping],
) -> dict:
    """Write `model.json`, given the type and the shape of each tensor in "inputs" and "outputs", and return it."""
    tensors = {
        side: [
            Tensor(name, index, _DTYPES.get(dtype, dtype), [size if isinstance(size, int) else None for size in shape])
            for index, (name, (dtype, shape)) in enumerate(entries.items())
        ]
        for side, entries in sides.items()
    }
    description = build_client_description(
        job.settings.model_name,
        runtime,
        files=files,
        **tensors,
        tokenizer=job.reference.tokenizer,
        task=task,
        probes=probes,
    )
    (folder / MODEL_FILE).write_text(format_description(description) + "\n", encoding="utf-8")
    return description


def make_probes(reference: Reference, task: Task | None, length: int) -> list[dict]:
    """Return texts with the checkpoint's answers: ordinary, unusual and empty ones, and one that is too long.

    Args:
        reference: the checkpoint.
        task: the task, with the length of the file; None: there are no answers, only outputs.
        length: the maximum length of sequences in tokens, for a model without a task.

    Returns:
        For each probe `texts`, one or two; `sequences`, the token ids of each window without padding; and `answer`,
        see `docs/reference/formats.md`.

    Raises:
        InputError: the length leaves no room for tokens.
    """
    texts = _choose_probe_texts(reference, task, length if task is None else task.max_sequence_length)
    return [_make_probe(reference, task, length, parts) for parts in texts]


def _choose_probe_texts(reference: Reference, task: Task | None, length: int) -> list[tuple[str, ...]]:
    """Return the texts of the probes, tuples of one or two texts; the last one is longer than `length` tokens."""
    drawn = draw_default_texts(reference.tokenizer, length)  # of words in the vocabulary
    words, with_accents, long = drawn[-4], drawn[-6], drawn[-1]
    names = ("text",) if task is None else task.input_names
    examples = [EXAMPLE_TEXTS.get(name, EXAMPLE_TEXTS["text"])[0] for name in names]
    if len(names) == 1:
        return [(text,) for text in (*examples, words, with_accents, _UNUSUAL_TEXT, "", long)]
    first, second = examples
    pairs = [(first, second), (with_accents, words), (_UNUSUAL_TEXT, f"{words} {_UNUSUAL_TEXT}"), ("", words)]
    return [*pairs, (first, ""), (first, long)]


def _make_probe(reference: Reference, task: Task | None, length: int, texts: tuple[str, ...]) -> dict:
    if task is None:
        encoded = encode(reference.tokenizer, list(texts), max_sequence_length=length)
        answer = reference.compute_task_outputs(encoded)
    else:
        examples = [task.make_example(*texts)]
        encoded = task.encode(reference.tokenizer, examples)
        encoded = dataclasses.replace(encoded, prompt_lengths=None)  # files pool all tokens, also those of a prompt
        [answer] = task.decode(encoded, reference.compute_task_outputs(encoded), examples)
        answer = task.shorten_for_clients(answer)
    shortened = {}
    for name, value in answer.items():
        if isinstance(value, np.ndarray):  # its first values, under another name
            shortened[f"{name}_start"] = value.ravel()[:_NUM_VALUES].tolist()
        else:
            shortened[name] = value
    sequences = [ids.tolist() for ids in np.split(encoded.token_ids, encoded.row_splits[1:-1])]
    return {"texts": list(texts), "sequences": sequences, "answer": shortened}
