"""The smallest file whose score on the user's own examples is still the model's."""

import dataclasses
import os
from collections.abc import Callable, Sequence

from bert_keras.export.parity.reference import Reference
from bert_keras.export.tflite.tflite_runner import TfliteRows
from bert_keras.tasks.base import Task
from bert_keras.tasks.inference import SequenceRunner

SMALLEST_FIRST = ("dynamic_int8", "float16", "float32")


@dataclasses.dataclass(frozen=True)
class Rung:
    """What a file scored.

    Attributes:
        quantization: how its weights are kept.
        bytes: its size.
        score: in points, of 100 at most where the score is one.
        drop: how many points less than the checkpoint's.
    """

    quantization: str
    bytes: int
    score: float
    drop: float


def points(task: Task, scores: dict[str, float]) -> float:
    """Returns a task's main score in points: of answers it is in points already, of others at most 1."""
    return scores[task.main_score] * (1 if task.name == "answer" else 100)


def checkpoint_score(reference: Reference, examples: Sequence) -> float:
    """Returns the points of the checkpoint itself."""
    task = reference.task
    return _score(
        reference,
        task,
        reference.tokenizer,
        SequenceRunner(reference.model, is_token_level=task.is_token_level),
        examples,
    )


def file_score(reference: Reference, path: str | os.PathLike, length: int, examples: Sequence, tokenizer=None) -> float:
    """Returns the points of a TFLite file of one length, in LiteRT, with texts cut or in windows to that length.

    Args:
        reference: the checkpoint.
        path: the file.
        length: of its rows.
        examples: labelled ones of the task.
        tokenizer: another one than the checkpoint's, such as a phone's.
    """
    task = reference.task.with_length(min(length, reference.task.max_sequence_length))
    run = TfliteRows(path, reference.model, length, of_tokens=task.is_token_level)
    return _score(reference, task, tokenizer or reference.tokenizer, run, examples)


def climb(write: Callable[[str], os.PathLike], score: Callable[[os.PathLike], float], best: float, tolerance: float):
    """Tries quantizations, the smallest first, until one scores well enough.

    Args:
        write: writes the file of a quantization and returns its path.
        score: returns the points of a file.
        best: the checkpoint's points.
        tolerance: how many points a file may lose.

    Returns:
        The rungs that were tried. The last one is the one to keep: float32 if no smaller one will do.
    """
    rungs = []
    for quantization in SMALLEST_FIRST:
        path = write(quantization)
        reached = score(path)
        rungs.append(Rung(quantization, os.path.getsize(path), reached, best - reached))
        if rungs[-1].drop <= tolerance:
            break
    return rungs


def _score(reference: Reference, task: Task, tokenizer, run, examples: Sequence) -> float:
    rows = task.encode(tokenizer, examples)
    return points(task, task.score(task.decode(rows, run(rows), examples), examples))
