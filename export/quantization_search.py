"""The quantization search: find the smallest TFLite file that scores as well as its checkpoint on labelled examples."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bert_keras.export.parity.reference import Reference
from bert_keras.export.tflite.tflite_runner import TfliteRunner
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.base import Task
from bert_keras.tasks.engines.keras_engine import KerasEngine
from bert_keras.tasks.sequence_runner import SequenceRunner

_SMALLEST_FIRST = ("dynamic_int8", "float16", "float32")


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A file that the quantization search tried.

    Attributes:
        quantization: of a TFLite file "dynamic_int8", "float16" or "float32"; of an ONNX file a scheme or "float32".
        bytes: the size of the file.
        score: the task's main score, in points.
        drop: the checkpoint's score minus `score`.
    """

    quantization: str
    bytes: int
    score: float
    drop: float


def search_quantization(
    write: Callable[[str], os.PathLike], score: Callable[[os.PathLike], float], best: float, tolerance: float
) -> list[Candidate]:
    """Try quantizations from the smallest to the largest until one scores well enough.

    Args:
        write: writes the file of a quantization and returns its path.
        score: returns the score of a file in points.
        best: the checkpoint's score in points.
        tolerance: points that a file may lose.

    Returns:
        The candidates that were tried. The last one is the result: float32 if no smaller one scores well enough.
    """
    candidates = []
    for quantization in _SMALLEST_FIRST:
        path = write(quantization)
        reached = score(path)
        candidates.append(Candidate(quantization, os.path.getsize(path), reached, best - reached))
        if candidates[-1].drop <= tolerance:
            break
    return candidates


def score_checkpoint(reference: Reference, examples: Sequence) -> float:
    """Return the checkpoint's own score on labelled examples, in points."""
    task = reference.task
    run = SequenceRunner(KerasEngine(reference.model), is_token_level=task.is_token_level)
    return _score(task, reference.tokenizer, run, examples)


def score_file(
    reference: Reference,
    path: str | os.PathLike,
    length: int,
    examples: Sequence,
    tokenizer: BertTokenizer | None = None,
) -> float:
    """Return the score of a TFLite file on labelled examples, in points; texts are cut or windowed to its length.

    Args:
        reference: the checkpoint.
        path: a file with one signature.
        length: the length of its sequences.
        examples: labelled examples of the task.
        tokenizer: replaces the checkpoint's tokenizer, for example by that of a phone.
    """
    task = reference.task.with_length(min(length, reference.task.max_sequence_length))
    run = TfliteRunner(path, reference.model, length, is_token_level=task.is_token_level)
    return _score(task, tokenizer or reference.tokenizer, run, examples)


def convert_to_points(task: Task, scores: Mapping[str, float]) -> float:
    """Return a task's main score in points: scores of answers already are, others are at most 1."""
    return scores[task.main_score] * (1 if task.name == "answer" else 100)


def score_outputs(
    task: Task, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
) -> float:
    """Return the score of a model's outputs for the sequences of labelled examples, in points."""
    return convert_to_points(task, task.score(task.decode(sequences, outputs, examples), examples))


def _score(task: Task, tokenizer: BertTokenizer, run: Callable, examples: Sequence) -> float:
    encoded = task.encode(tokenizer, examples)
    return score_outputs(task, encoded, run(encoded), examples)
