"""Export an ONNX folder: write the float32 file, write or search the 8-bit file, and start their parity checks."""

import dataclasses
import functools
import os
import pathlib
import statistics
import time
from collections.abc import Sequence

import numpy as np

from bert_keras.checkpoints.task_loading import restore_task
from bert_keras.checkpoints.vocabulary_file import open_tokenizer
from bert_keras.engines.artifact_files import find_model_folder
from bert_keras.engines.onnxruntime_engine import OnnxruntimeEngine
from bert_keras.engines.sequence_runner import SequenceRunner
from bert_keras.errors import InputError, MissingExtraError, UnsupportedTokenizerError
from bert_keras.export.client_bundle.bundle_files import make_probes, write_onnx_description
from bert_keras.export.deployment_bundle import write_deployment_files
from bert_keras.export.export_job import ExportJob
from bert_keras.export.onnx.onnx_calibrated import SCHEMES, write_calibrated_onnx
from bert_keras.export.onnx.onnx_calibration import draw_batches, make_calibration_batches, measure_ranges
from bert_keras.export.onnx.to_onnx import FLOAT32, INT8, write_onnx_folder
from bert_keras.export.parity.parity_check import TOLERANCE, ParityCheck, start_check
from bert_keras.export.parity.probe_inputs import DEFAULT_PROBES, ProbeSet
from bert_keras.export.parity.reference import Reference
from bert_keras.export.quantization_search import Candidate, score_outputs, score_runner
from bert_keras.export.targets import WRITTEN_BY
from bert_keras.heads.task import Task
from bert_keras.pipelines.text.portable_tokenizer import PortableTokenizer
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.publishing import publish_folder

# The mean difference of an output, in standard deviations, on random ids
INT8_TOLERANCE = 0.3  # MiniLM: 0.157

_NUM_ROUNDS = 3  # one after the other in each round
_FLOAT32 = "float32"


@dataclasses.dataclass(frozen=True)
class _TimedCandidate(Candidate):
    """A file that the search tried.

    Attributes:
        ms_per_example: milliseconds per labelled example in onnxruntime, in batches of similar length.
        passed: whether an 8-bit file passed the parity check; None: it was not checked, because it lost too much or
            was slower than the file that was kept.
    """

    ms_per_example: float
    passed: bool | None = None


def export_onnx(job: ExportJob) -> None:
    """Write `onnx/`, a Hugging Face folder with `onnx/model.onnx` and `onnx/model_quantized.onnx`, and check both.

    Next to it, `deploy/` contains files that serve it in other places. `model.json`, for programs on devices, is added
    when all artifacts have passed their checks.

    Raises:
        InputError: one of the folders exists and may not be replaced.
        ParityError: ONNX has no equivalent of an operation.
    """
    reference, probes = job.reference, job.settings.probes
    folder, deployment = (
        job.publishing.enter_context(publish_folder(job.out / name, WRITTEN_BY, overwrite=job.overwrite))
        for name in ("onnx", "deploy")
    )
    job.stages.begin("writing ONNX")
    task = reference.task.settings() if reference.task else None
    write_onnx_folder(reference.model, reference.tokenizer, folder, task=task)

    def write_deployment(report: dict) -> dict:
        """Write `deploy/` with the signature that onnxruntime reported."""
        write_deployment_files(
            deployment,
            job.settings.model_name,
            signature=report["signatures"][""],
            num_bytes=report["bytes"],
            task=get_served_task(reference),
        )
        return report

    start = functools.partial(start_onnx_check, reference, folder / FLOAT32, probes, is_quantized=False)
    job.checks.begin(f"onnx/{FLOAT32}", start, write_deployment)
    scores = _write_int8(job, folder)
    if (folder / INT8).exists():
        start = functools.partial(start_onnx_check, reference, folder / INT8, probes, is_quantized=True)
        job.checks.begin(f"onnx/{INT8}", start, lambda report: report | scores)
    else:
        job.checks.finish()
        job.checks.reports[f"onnx/{FLOAT32}"] |= scores
    files = {path: kind for path, kind in ((FLOAT32, "float32"), (INT8, "int8")) if (folder / path).exists()}
    probes = make_probes(reference, reference.task, reference.text_length)
    job.completions.append(lambda reports: write_onnx_description(job, folder, files, probes=probes, reports=reports))


def get_served_task(reference: Reference) -> Task | None:
    """Return the task with which `bert-keras serve` answers texts; None: it cannot serve such a model."""
    if reference.task is not None or reference.head.task is None:
        return reference.task
    return restore_task(None, reference.model, reference.tokenizer).with_length(reference.text_length)


def _write_int8(job: ExportJob, folder: pathlib.Path) -> dict[str, dict]:
    """Write the 8-bit file while the float32 file is checked; return its scores, to add to its report.

    The quantization search writes none if no 8-bit file scores well enough.
    """
    reference, settings = job.reference, job.settings
    if settings.is_automatic:
        job.checks.finish()  # the candidates are timed, so nothing else may run
        job.stages.begin("comparing 8-bit ONNX files")
        return {"scores": search_onnx(job, folder)}
    write_smoothed_onnx(reference, folder / FLOAT32, folder / INT8)
    if not settings.examples:
        return {}
    task = reference.task
    score = score_runner(task, reference.tokenizer, _open(reference, folder / INT8), settings.examples)
    return {"scores": {"score": task.main_score, "checkpoint": job.checkpoint_score, "file": score}}


def write_smoothed_onnx(reference: Reference, float_path: pathlib.Path, path: pathlib.Path) -> None:
    """Write the 8-bit file that needs no texts: its activations are measured on sequences drawn from the vocabulary."""
    ranges = measure_ranges(float_path, draw_batches(reference.config, reference.tokenizer))
    write_calibrated_onnx(float_path, path, ranges)


def search_onnx(job: ExportJob, folder: pathlib.Path) -> dict[str, object]:
    """Write the 8-bit files of all schemes, and keep the fastest good one as `model_quantized.onnx`.

    A good file scores well enough on the labelled examples and passes the parity check. Fixed ranges that were
    measured on few texts may suffice for texts like these and be too narrow for others.

    Args:
        job: the export, with labelled examples.
        folder: the folder with the float32 file. If no 8-bit file is good and faster, it gets no other file.

    Returns:
        `score`, the name of the score; `checkpoint`, that of the checkpoint; `file`, that of the kept file; `kept`, its
        quantization; and `tried`, all candidates with their sizes, scores and times.
    """
    reference, settings = job.reference, job.settings
    task, tokenizer = reference.task, reference.tokenizer
    batches = make_calibration_batches(task.encode(tokenizer, settings.calibration or settings.examples))
    ranges = measure_ranges(folder / FLOAT32, batches)
    paths = {_FLOAT32: folder / FLOAT32}
    for scheme in SCHEMES:
        paths[scheme] = (folder / INT8).with_name(f"candidate_{scheme}.onnx")
        write_calibrated_onnx(folder / FLOAT32, paths[scheme], ranges, scheme)
    candidates = _try_files(job, paths)
    passed: dict[str, bool] = {}
    for kept in sorted(candidates, key=lambda one: one.ms_per_example):
        name = kept.quantization
        if name != _FLOAT32 and kept.drop <= settings.points_tolerance:
            check = start_onnx_check(reference, paths[name], settings.probes, is_quantized=True)
            passed[name] = check.report()["passed"]
        if name == _FLOAT32 or passed.get(name):
            break
    for scheme in SCHEMES:
        if scheme == kept.quantization:
            os.replace(paths[scheme], folder / INT8)
        else:
            paths[scheme].unlink()
    tried = [{**dataclasses.asdict(one), "passed": passed.get(one.quantization)} for one in candidates]
    scores = {"score": task.main_score, "checkpoint": job.checkpoint_score, "file": kept.score}
    return {**scores, "kept": kept.quantization, "tried": tried}


def _try_files(job: ExportJob, paths: dict[str, pathlib.Path]) -> list[_TimedCandidate]:
    reference, examples = job.reference, job.settings.examples
    sequences = reference.task.encode(reference.tokenizer, examples)
    runs = {name: _open(reference, path) for name, path in paths.items()}
    seconds: dict[str, list[float]] = {name: [] for name in paths}
    scores = {}
    for number in range(1 + _NUM_ROUNDS):  # the first round is a warm-up
        for name, run in runs.items():
            start = time.perf_counter()
            outputs = run(sequences)
            if number:
                seconds[name].append(time.perf_counter() - start)
            else:
                scores[name] = score_outputs(reference.task, sequences, outputs, examples)
    return [
        _TimedCandidate(
            name,
            os.path.getsize(path),
            scores[name],
            job.checkpoint_score - scores[name],
            1000 * statistics.median(seconds[name]) / len(examples),
        )
        for name, path in paths.items()
    ]


def _open(reference: Reference, path: pathlib.Path) -> SequenceRunner:
    engine = OnnxruntimeEngine(path, reference.head.outputs)
    return SequenceRunner(engine, is_token_level=reference.task.is_token_level)


def start_onnx_check(
    reference: Reference, path: pathlib.Path, probes: ProbeSet = DEFAULT_PROBES, *, is_quantized: bool | None = None
) -> ParityCheck:
    """Start the parity check of a file; see `start_check`.

    Args:
        reference: the checkpoint.
        path: the file.
        probes: the inputs to compare on.
        is_quantized: whether the weights have 8 bits; None: read it from the file.

    Raises:
        InputError: the file is not an ONNX file.
        MissingExtraError: onnx is not installed.
    """
    relative = _has_int8_weights(path) if is_quantized is None else is_quantized
    tolerance = INT8_TOLERANCE if relative else TOLERANCE

    def add_tokenizer_differences(report: dict) -> dict:
        """Add the number of texts whose ids differ in engines without TensorFlow, if it is in a model folder."""
        texts, folder = probes.texts(reference.tokenizer, reference.text_length), find_model_folder(path)
        differences = None if folder is None else count_tokenizer_differences(reference.tokenizer, folder, texts)
        return report if differences is None else {**report, "tokenizer_json": differences}

    return start_check(
        reference,
        "onnx",
        path,
        probes,
        lengths={"": None},
        tolerance=tolerance,
        relative=relative,
        complete_report=add_tokenizer_differences,
    )


def count_tokenizer_differences(
    tokenizer: BertTokenizer, folder: pathlib.Path, texts: Sequence[str]
) -> dict[str, int] | None:
    """Count the texts whose ids differ between a checkpoint's tokenizer and a folder's in Hugging Face's library.

    The engines onnxruntime and openvino use the latter, and so do other tools that open the folder.

    Args:
        tokenizer: the checkpoint's tokenizer.
        folder: the folder with the tokenizer's files.
        texts: the texts to compare.

    Returns:
        `texts`, the number of texts, and `differ`, how many of them have other ids. None if the folder has no
        tokenizer, or one that only TensorFlow can run (MediaPipe's rules).
    """
    settings = open_tokenizer(folder)()
    if settings is None:
        return None
    try:
        portable = PortableTokenizer(**settings)
    except UnsupportedTokenizerError:
        return None
    ours, theirs = (one.tokenize_to_arrays(texts) for one in (tokenizer, portable))
    pairs = zip(*(np.split(ids.token_ids, ids.row_splits[1:-1]) for ids in (ours, theirs)), strict=True)
    return {"texts": len(texts), "differ": sum(not np.array_equal(one, other) for one, other in pairs)}


def _has_int8_weights(path: pathlib.Path) -> bool:
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        raise MissingExtraError(f"reading {path}", "onnx", "onnx") from None
    try:
        graph = onnx.load(path, load_external_data=False).graph
    except DecodeError:
        raise InputError(f"{path} is not a complete ONNX file: export it again") from None
    return any(array.data_type == onnx.TensorProto.INT8 for array in graph.initializer)
