"""The quantization search for ONNX: the fastest 8-bit file that scores well and passes the parity check."""

import dataclasses
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence

from bert_keras.export.export_job import ExportJob
from bert_keras.export.onnx.onnx_calibrated import SCHEMES, write_calibrated_onnx
from bert_keras.export.onnx.onnx_calibration import make_calibration_batches, measure_ranges
from bert_keras.export.onnx.onnx_check import start_onnx_check
from bert_keras.export.onnx.onnx_folder import FLOAT32, INT8
from bert_keras.export.parity.reference import Reference
from bert_keras.export.quantization_search import Candidate, score_outputs
from bert_keras.heads.known_heads import get_head
from bert_keras.tasks.engines.onnxruntime_engine import OnnxruntimeEngine
from bert_keras.tasks.sequence_runner import SequenceRunner

_NUM_ROUNDS = 3  # one after the other in each round
_FLOAT32 = "float32"


@dataclasses.dataclass(frozen=True)
class TimedCandidate(Candidate):
    """A file that the search tried.

    Attributes:
        ms_per_example: milliseconds per labelled example in onnxruntime, in batches of similar length.
        passed: whether an 8-bit file passed the parity check; None: it was not checked, because it lost too much or
            was slower than the file that was kept.
    """

    ms_per_example: float
    passed: bool | None = None


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
    candidates, kept = _choose(candidates, settings.points_tolerance, lambda name: _passes(job, paths[name]))
    for scheme in SCHEMES:
        if scheme == kept.quantization:
            os.replace(paths[scheme], folder / INT8)
        else:
            paths[scheme].unlink()
    tried = [dataclasses.asdict(one) for one in candidates]
    scores = {"score": task.main_score, "checkpoint": job.checkpoint_score, "file": kept.score}
    return {**scores, "kept": kept.quantization, "tried": tried}


def score_onnx(job: ExportJob, path: pathlib.Path) -> dict[str, object]:
    """Return the scores of the checkpoint and of a file on the labelled examples, in points, and the score's name."""
    task, examples = job.reference.task, job.settings.examples
    sequences = task.encode(job.reference.tokenizer, examples)
    score = score_outputs(task, sequences, _open(job.reference, path)(sequences), examples)
    return {"score": task.main_score, "checkpoint": job.checkpoint_score, "file": score}


def _choose(
    candidates: Sequence[TimedCandidate], tolerance: float, passes: Callable[[str], bool]
) -> tuple[list[TimedCandidate], TimedCandidate]:
    """Return all candidates, with the results of the checks that were needed, and the one to keep."""
    passed: dict[str, bool] = {}
    for kept in sorted(candidates, key=lambda one: one.ms_per_example):
        if kept.quantization == _FLOAT32:
            break
        if kept.drop <= tolerance:
            passed[kept.quantization] = passes(kept.quantization)
            if passed[kept.quantization]:
                break
    return [dataclasses.replace(one, passed=passed.get(one.quantization)) for one in candidates], kept


def _passes(job: ExportJob, path: pathlib.Path) -> bool:
    return start_onnx_check(job.reference, path, job.settings.probes, is_quantized=True).report()["passed"]


def _try_files(job: ExportJob, paths: dict[str, pathlib.Path]) -> list[TimedCandidate]:
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
        TimedCandidate(
            name,
            os.path.getsize(path),
            scores[name],
            job.checkpoint_score - scores[name],
            1000 * statistics.median(seconds[name]) / len(examples),
        )
        for name, path in paths.items()
    ]


def _open(reference: Reference, path: pathlib.Path) -> SequenceRunner:
    engine = OnnxruntimeEngine(path, get_head(type(reference.model).__name__).outputs)
    return SequenceRunner(engine, is_token_level=reference.task.is_token_level)
