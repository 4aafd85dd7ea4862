"""The outputs of the signature `serving_default` that the answers of `Predictor` imply. They need no SavedModel."""

import dataclasses
from collections.abc import Sequence

import numpy as np

import bert_keras as bk
from bert_keras.heads.tag.task import TokenClassification

from .conftest import TEXTS
from .signature_inputs import assert_same_outputs

Arrays = dict[str, np.ndarray]


def make_texts(kind: str) -> dict[str, list[str]]:
    """Return the inputs of a kind of model, valid texts of several lengths, keyed by name."""
    if kind in ("pair_classifier", "reranker"):
        return {"text": TEXTS, "second_text": TEXTS[::-1]}
    if kind == "null_answerer":
        return {"question": ["the cat", "red hat", "a", "", "dog"], "context": [*TEXTS[:2], TEXTS[2] * 3, *TEXTS[3:]]}
    if kind == "masked_lm":
        return {"text": ["the [MASK] sat on a mat .", "[MASK] and [MASK]", "Ünkn [MASK] 東京"]}
    return {"text": TEXTS}


def expect_outputs(predictor: bk.Predictor, inputs: dict[str, list[str]]) -> Arrays:
    """Return the outputs for texts. The `scores` of classes have a mean of 0, because answers have no logits."""
    task = predictor.task
    if isinstance(task, TokenClassification):  # only without a scheme, answers have the words
        task = dataclasses.replace(task, scheme="none")
    columns = list(inputs.values())
    examples = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    answers = bk.Predictor(predictor.model, predictor.tokenizer, task)(examples)
    if "embedding" in answers[0]:
        return {"embedding": _to_floats([answer["embedding"] for answer in answers])}
    if "value" in answers[0]:
        values = _to_floats([answer["value"] for answer in answers])
        return {"scores": values[:, np.newaxis], "value": values}
    if "words" in answers[0]:
        return _list_words(answers, task.labels)
    if "masks" in answers[0]:
        return _list_fillings(answers)
    if "null_score" in answers[0]:
        return _list_spans(answers)
    probabilities = np.array([answer["probabilities"] for answer in answers])
    if "labels" in answers[0]:
        logits = np.log(probabilities / (1 - probabilities))
        rows = [answer["labels"] for answer in answers]
        names = {"labels": _pad(rows, b"", object), "num_labels": _count(rows)}
    else:
        logits = _center(np.log(probabilities))
        labels = [answer["label"] for answer in answers]
        names = {"label": _encode(labels), "label_id": _to_integers([task.labels.index(label) for label in labels])}
    return {"scores": _to_floats(logits), "probabilities": _to_floats(probabilities), **names}


def assert_are_answers(got: Arrays, expected: Arrays) -> None:
    """Check outputs of a server; `expected` is from `expect_outputs`."""
    if "label_id" in got:
        got = {**got, "scores": _center(got["scores"])}
    assert_same_outputs(got, expected)


def _list_words(answers: Sequence[dict], labels: Sequence[str]) -> Arrays:
    words = [answer["words"] for answer in answers]
    columns = {
        name: [[word[key] for word in row] for row in words]
        for name, key in (("words", "text"), ("labels", "label"), ("probabilities", "probability"))
    }
    ids = [[labels.index(label) for label in row] for row in columns["labels"]]
    return {
        "words": _pad(columns["words"], b"", object),
        "labels": _pad(columns["labels"], b"", object),
        "label_ids": _pad(ids, -1, np.int32),
        "probabilities": _pad(columns["probabilities"], 0, np.float32),
        "starts": _pad([[word["start"] for word in row] for row in words], 0, np.int32),
        "ends": _pad([[word["end"] for word in row] for row in words], 0, np.int32),
        "num_words": _count(words),
    }


def _list_spans(answers: Sequence[dict]) -> Arrays:
    best = [answer["best"] for answer in answers]
    columns = {
        "best_answers": ("answer", b"", object),
        "best_scores": ("score", 0, np.float32),
        "best_probabilities": ("probability", 0, np.float32),
        "best_starts": ("start", -1, np.int32),
        "best_ends": ("end", -1, np.int32),
    }
    return {
        "answer": _encode([answer["answer"] for answer in answers]),
        "start": _to_integers([-1 if answer["start"] is None else answer["start"] for answer in answers]),
        "end": _to_integers([-1 if answer["end"] is None else answer["end"] for answer in answers]),
        "score": _to_floats([answer["score"] for answer in answers]),
        "null_score": _to_floats([answer["null_score"] for answer in answers]),
        **{name: _pad([[span[key] for span in row] for row in best], *kind) for name, (key, *kind) in columns.items()},
        "num_best": _count(best),
    }


def _list_fillings(answers: Sequence[dict]) -> Arrays:
    masks = [answer["masks"] for answer in answers]
    columns = {
        "tokens": ("token", b"", object),
        "token_ids": ("token_id", 0, np.int32),
        "probabilities": ("probability", 0, np.float32),
        "texts": ("text", b"", object),
    }
    width, num_best = max(map(len, masks)), len(masks[0][0])
    outputs = {}
    for name, (key, padding, dtype) in columns.items():
        rows = [[[filling[key] for filling in mask] for mask in row] for row in masks]
        padded = [row + [[padding] * num_best] * (width - len(row)) for row in rows]
        flat = [value for row in padded for mask in row for value in mask]
        values = _encode(flat) if dtype is object else np.array(flat, dtype)
        outputs[name] = values.reshape(len(rows), width, num_best)
    return {**outputs, "num_masks": _count(masks)}


def _center(scores: np.ndarray) -> np.ndarray:
    return scores - scores.mean(axis=1, keepdims=True)


def _to_floats(values: Sequence) -> np.ndarray:
    return np.array(values, np.float32)


def _to_integers(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int32)


def _count(rows: Sequence[Sequence]) -> np.ndarray:
    return _to_integers([*map(len, rows)])


def _encode(texts: Sequence[str | bytes]) -> np.ndarray:
    """Return an array of bytes."""
    array = np.empty(len(texts), object)
    array[:] = [text.encode() if isinstance(text, str) else text for text in texts]
    return array


def _pad(rows: Sequence[Sequence], padding: object, dtype: type) -> np.ndarray:
    """Return rows of different lengths as an array `(B, W)`."""
    width = max(map(len, rows))
    flat = [value for row in rows for value in [*row, *[padding] * (width - len(row))]]
    return (_encode(flat) if dtype is object else np.array(flat, dtype)).reshape(len(rows), width)
