"""Probes in `model.json`: texts, their token ids and the checkpoint's answers, with which a program checks itself."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from bert_keras.export.parity.probe_inputs import draw_default_texts
from bert_keras.export.parity.reference import Reference
from bert_keras.export.saved_model.serving_bundle import EXAMPLE_TEXTS
from bert_keras.pipelines.batches.encoding import EncodedSequences, encode
from bert_keras.tasks.base import Task

# Accents in both forms, an emoji of several code points, Deseret (outside the first 65,536 code points), Chinese
_UNUSUAL_TEXT = (
    "Na\u00efve cafe\u0301s: \U0001f469\U0001f3fd\u200d\U0001f680, \U00010414\U0001042f & \u6771\u4eac\u3002"
)
_ANSWERS = (  # the parts of the answers of each task
    ("label", "probability"),
    ("labels", "probabilities"),
    ("value",),
    ("entities",),
    ("words",),
    ("answer", "start", "end", "score", "null_score", "probability"),
)
_NUM_VALUES = 8  # of an output that is too long for a readable file


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
    texts = choose_probe_texts(reference, task, length if task is None else task.max_sequence_length)
    return [_make_probe(reference, task, length, parts) for parts in texts]


def choose_probe_texts(reference: Reference, task: Task | None, length: int) -> list[tuple[str, ...]]:
    """Return the texts of the probes, tuples of one or two texts; the last one is longer than `length` tokens."""
    drawn = draw_default_texts(reference.tokenizer, length)  # of words in the vocabulary
    words, with_accents, long = drawn[-4], drawn[-6], drawn[-1]
    names = ("text",) if task is None else task.input_names
    examples = [EXAMPLE_TEXTS[name][0] for name in names]
    if len(names) == 1:
        return [(text,) for text in (*examples, words, with_accents, _UNUSUAL_TEXT, "", long)]
    first, second = examples
    pairs = [(first, second), (with_accents, words), (_UNUSUAL_TEXT, f"{words} {_UNUSUAL_TEXT}"), ("", words)]
    return [*pairs, (first, ""), (first, long)]


def _make_probe(reference: Reference, task: Task | None, length: int, texts: tuple[str, ...]) -> dict:
    if task is None:
        encoded = encode(reference.tokenizer, list(texts), max_sequence_length=length)
        outputs = reference.compute_task_outputs(encoded)
        answer = {f"{name}_start": _get_first_values(values) for name, values in outputs.items()}
    else:
        examples = [task.make_example(*texts)]
        encoded = task.encode(reference.tokenizer, examples)
        encoded = dataclasses.replace(encoded, prompt_lengths=None)  # files pool all tokens, also those of a prompt
        [answer] = task.decode(encoded, reference.compute_task_outputs(encoded), examples)
        answer = _simplify(answer)
    return {"texts": list(texts), "sequences": _list_sequences(encoded), "answer": answer}


def _list_sequences(encoded: EncodedSequences) -> list[list[int]]:
    return [ids.tolist() for ids in np.split(encoded.token_ids, encoded.row_splits[1:-1])]


def _simplify(answer: Mapping) -> dict[str, object]:
    """Return the parts of an answer that programs compare, as plain values."""
    if "embedding" in answer:
        return {"embedding_start": _get_first_values(answer["embedding"])}
    names = next(names for names in _ANSWERS if names[0] in answer)
    return {name: np.asarray(answer[name]).tolist() if name == "probabilities" else answer[name] for name in names}


def _get_first_values(values: Sequence) -> list[float]:
    return np.ravel(values)[:_NUM_VALUES].tolist()
