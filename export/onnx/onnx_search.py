"""The quantization search for ONNX: the fastest 8-bit file that scores as well as its checkpoint."""

import dataclasses
import os
import pathlib
import statistics
import time
from collections.abc import Sequence

from bert_keras.export.onnx.onnx_calibrated import SCHEMES, write_calibrated_onnx
from bert_keras.export.onnx.onnx_calibration import make_calibration_batches, measure_ranges
from bert_keras.export.onnx.onnx_folder import FLOAT32, INT8
from bert_keras.export.parity.reference import Reference
from bert_keras.export.quantization_search import Candidate, score_checkpoint, score_outputs
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.tasks.engines.artifact_files import TASK_OUTPUTS
from bert_keras.tasks.engines.onnxruntime_engine import OnnxruntimeEngine
from bert_keras.tasks.sequence_runner import SequenceRunner

_NUM_ROUNDS = 3  # the files take turns
_FLOAT32 = "float32"


@dataclasses.dataclass(frozen=True)
class TimedCandidate(Candidate):
    """A file that the search tried.

    Attributes:
        ms_per_example: milliseconds per labelled example in onnxruntime, in batches of similar length.
    """

    ms_per_example: float


def search_onnx(
    reference: Reference, folder: pathlib.Path, examples: Sequence, calibration: Sequence, tolerance: float
) -> dict[str, object]:
    """Write the 8-bit files of all schemes, and keep the fastest one that scores well enough as `model_quantized.onnx`.

    Args:
        reference: the checkpoint.
        folder: the folder with the float32 file. If no 8-bit file scores well enough, it gets no other file.
        examples: labelled examples of the task.
        calibration: examples of the task from which the ranges of activations are measured; their labels are not used.
        tolerance: points that a file may lose.

    Returns:
        `score`, the name of the score; `checkpoint`, that of the checkpoint; `file`, that of the kept file; `kept`, its
        quantization; and `tried`, all candidates with their sizes, scores and times.
    """
    task, tokenizer = reference.task, reference.tokenizer
    batches = make_calibration_batches(task.encode(tokenizer, calibration))
    ranges = measure_ranges(folder / FLOAT32, batches)
    paths = {_FLOAT32: folder / FLOAT32}
    for scheme in SCHEMES:
        paths[scheme] = (folder / INT8).with_name(f"candidate_{scheme}.onnx")
        write_calibrated_onnx(folder / FLOAT32, paths[scheme], ranges, scheme)
    sequences = task.encode(tokenizer, examples)
    best = score_checkpoint(reference, examples)
    candidates = _try_files(reference, paths, sequences, examples, best)
    good = [one for one in candidates if one.drop <= tolerance or one.quantization == _FLOAT32]
    kept = min(good, key=lambda one: one.ms_per_example)
    for scheme in SCHEMES:
        if scheme == kept.quantization:
            os.replace(paths[scheme], folder / INT8)
        else:
            paths[scheme].unlink()
    tried = [dataclasses.asdict(one) for one in candidates]
    scores = {"score": task.main_score, "checkpoint": best, "file": kept.score}
    return {**scores, "kept": kept.quantization, "tried": tried}


def score_onnx(reference: Reference, path: pathlib.Path, examples: Sequence) -> dict[str, object]:
    """Return the scores of the checkpoint and of a file on labelled examples, in points, and the score's name."""
    task = reference.task
    sequences = task.encode(reference.tokenizer, examples)
    score = score_outputs(task, sequences, _open(reference, path)(sequences), examples)
    return {"score": task.main_score, "checkpoint": score_checkpoint(reference, examples), "file": score}


def _try_files(
    reference: Reference, paths: dict[str, pathlib.Path], sequences: EncodedSequences, examples: Sequence, best: float
) -> list[TimedCandidate]:
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
            best - scores[name],
            1000 * statistics.median(seconds[name]) / len(examples),
        )
        for name, path in paths.items()
    ]


def _open(reference: Reference, path: pathlib.Path) -> SequenceRunner:
    engine = OnnxruntimeEngine(path, TASK_OUTPUTS[type(reference.model).__name__])
    return SequenceRunner(engine, is_token_level=reference.task.is_token_level)
