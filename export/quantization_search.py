"""Score checkpoints and TFLite files on labelled examples, and find the smallest file that scores well enough."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np

from bert_keras.errors import MissingExtraError
from bert_keras.export.parity.artifact_program import load_tflite
from bert_keras.export.parity.probe_inputs import IdSequence, pad_sequences
from bert_keras.export.parity.reference import Reference, run_one_by_one
from bert_keras.export.tflite.output_conversion import get_output_conversion
from bert_keras.export.tflite.to_tflite import SIGNATURE
from bert_keras.heads.task import Task
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.text.tokenizer import BertTokenizer

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
    run = load_tflite_runner(path, reference.model, length, is_token_level=task.is_token_level)
    return score_runner(task, tokenizer or reference.tokenizer, run, examples)


def convert_to_points(task: Task, scores: Mapping[str, float]) -> float:
    """Return a task's main score in points."""
    return scores[task.main_score] * (1 if task.scores_in_percent else 100)


def score_outputs(
    task: Task, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
) -> float:
    """Return the score of a model's outputs for the sequences of labelled examples, in points."""
    return convert_to_points(task, task.score(task.decode(sequences, outputs, examples), examples))


def score_runner(
    task: Task,
    tokenizer: BertTokenizer,
    run: Callable[[EncodedSequences], Mapping[str, np.ndarray]],
    examples: Sequence,
) -> float:
    """Return the score of a function that runs a model on sequences, in points."""
    encoded = task.encode(tokenizer, examples)
    return score_outputs(task, encoded, run(encoded), examples)


def load_tflite_runner(
    path: str | os.PathLike, model: keras.Model, length: int, *, is_token_level: bool
) -> Callable[[EncodedSequences], dict[str, np.ndarray]]:
    """Open a file with one signature; return the function from N sequences of P tokens in all to the model's outputs.

    They are `(N, ...)` or `(P, ...)`, keyed by name.

    Args:
        path: the file.
        model: the model that it was converted from.
        length: the length of its sequences.
        is_token_level: whether the model has an output for each token, or one for the sequence.

    Raises:
        MissingExtraError: LiteRT's interpreter is not installed.
    """
    try:
        answer, _ = load_tflite(str(path))
    except ModuleNotFoundError:
        raise MissingExtraError("running a TFLite file", "ai-edge-litert", "tflite") from None
    recover = get_output_conversion(model).recover

    def run(encoded: EncodedSequences) -> dict[str, np.ndarray]:
        def run_one(sequence: IdSequence) -> dict[str, np.ndarray]:
            outputs = answer(SIGNATURE, pad_sequences([sequence], encoded.pad_id, length))
            return {name: values[0] for name, values in recover(outputs).items()}

        encoded = dataclasses.replace(encoded, prompt_lengths=None)  # a file pools all tokens, also those of a prompt
        return run_one_by_one(encoded, run_one, lambda _: is_token_level)

    return run
