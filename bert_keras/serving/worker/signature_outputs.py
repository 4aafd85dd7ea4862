"""The outputs of the signature `serving_default` of our SavedModels, for an engine that only computes logits.

Their names, types and paddings are those of the graph in `export/saved_model/answers/`, so that a client of TensorFlow
Serving gets the same from `bert-keras serve`, whichever engine runs.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.serving.worker.tensor_spec import TensorSpec
from bert_keras.tasks.answer_extraction import QuestionAnswering
from bert_keras.tasks.base import Task
from bert_keras.tasks.mask_filling_task import MaskFilling
from bert_keras.tasks.sentence_embedding import SentenceEmbedding
from bert_keras.tasks.text_classification import TextClassification
from bert_keras.tasks.token_classification import TokenClassification

Arrays = dict[str, np.ndarray]


def compute_signature_outputs(
    task: Task, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
) -> Arrays:
    """Return the outputs for B examples, `(B, ...)` each, keyed by name. Strings are arrays of `str` objects."""
    return _COMPUTE[type(task)](task, sequences, outputs, examples)


def describe_signature_outputs(task: Task, num_dimensions: int | None) -> list[TensorSpec]:
    """Return the names, types and shapes of the outputs of a task.

    Args:
        task: the task.
        num_dimensions: D of sentence vectors, if known.
    """
    if isinstance(task, SentenceEmbedding):
        return [TensorSpec("embedding", "float32", (-1, num_dimensions or -1))]
    if isinstance(task, TokenClassification):
        types = {"words": "string", "labels": "string", "label_ids": "int32", "probabilities": "float32"}
        types |= {"starts": "int32", "ends": "int32"}
        return [*(TensorSpec(name, dtype, (-1, -1)) for name, dtype in types.items()), _vector("num_words", "int32")]
    if isinstance(task, QuestionAnswering):
        singles = {"answer": "string", "start": "int32", "end": "int32", "score": "float32", "null_score": "float32"}
        lists = {"best_answers": "string", "best_scores": "float32", "best_probabilities": "float32"}
        lists |= {"best_starts": "int32", "best_ends": "int32"}
        return [
            *(_vector(name, dtype) for name, dtype in singles.items()),
            *(TensorSpec(name, dtype, (-1, -1)) for name, dtype in lists.items()),
            _vector("num_best", "int32"),
        ]
    if isinstance(task, MaskFilling):
        types = {"tokens": "string", "token_ids": "int32", "probabilities": "float32", "texts": "string"}
        shape = (-1, -1, min(task.num_best, len(task.vocabulary)))
        best = [TensorSpec(name, dtype, shape) for name, dtype in types.items()]
        return [*best, _vector("num_masks", "int32")]
    if task.problem == "regression":
        return [TensorSpec("scores", "float32", (-1, 1)), _vector("value", "float32")]
    specs = [TensorSpec(name, "float32", (-1, len(task.labels))) for name in ("scores", "probabilities")]
    if task.problem == "multi_label":
        return [*specs, TensorSpec("labels", "string", (-1, -1)), _vector("num_labels", "int32")]
    return [*specs, _vector("label", "string"), _vector("label_id", "int32")]


def _vector(name: str, dtype: str) -> TensorSpec:
    return TensorSpec(name, dtype, (-1,))


def _compute_embeddings(
    task: SentenceEmbedding, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
) -> Arrays:
    return {"embedding": outputs["embedding"]}


def _compute_classes(
    task: TextClassification, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
) -> Arrays:
    scores = {"scores": task.average_logits(sequences, outputs, len(examples)).astype(np.float32)}
    answers = task.decode(sequences, outputs, examples)
    if task.problem == "regression":
        return scores | {"value": scores["scores"][:, 0]}
    probabilities = [answer["probabilities"] for answer in answers]
    scores["probabilities"] = np.array(probabilities, np.float32).reshape(-1, len(task.labels))
    if task.problem == "multi_label":
        labels = [answer["labels"] for answer in answers]
        return scores | {"labels": _pad(labels, "", object), "num_labels": np.array([*map(len, labels)], np.int32)}
    labels = [answer["label"] for answer in answers]
    label_ids = np.array([task.labels.index(label) for label in labels], np.int32)
    return scores | {"label": _make_strings(labels), "label_id": label_ids}


def _compute_tags(
    task: TokenClassification, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
) -> Arrays:
    rows: dict[str, list[list]] = {name: [] for name in ("words", "labels", "label_ids", "probabilities")}
    rows |= {"starts": [], "ends": []}
    all_probabilities = task.compute_word_probabilities(sequences, outputs, examples)
    all_ranges = task.find_word_ranges(sequences, examples)
    for sentence, probabilities, ranges in zip(examples, all_probabilities, all_ranges, strict=True):
        places = np.flatnonzero(probabilities.any(axis=1))  # words without tokens are left out
        label_ids = probabilities[places].argmax(axis=1).tolist()
        starts, ends = ranges[places].T.tolist()
        rows["words"].append([sentence.text[start:end] for start, end in zip(starts, ends, strict=True)])
        rows["labels"].append([task.labels[number] for number in label_ids])
        rows["label_ids"].append(label_ids)
        rows["probabilities"].append(probabilities[places].max(axis=1).tolist())
        rows["starts"].append(starts)
        rows["ends"].append(ends)
    kinds: dict[str, tuple[object, type]] = {"words": ("", object), "labels": ("", object), "label_ids": (-1, np.int32)}
    kinds |= {"probabilities": (0.0, np.float32), "starts": (0, np.int32), "ends": (0, np.int32)}
    padded = {name: _pad(values, *kinds[name]) for name, values in rows.items()}
    return padded | {"num_words": np.array([*map(len, rows["words"])], np.int32)}


def _compute_spans(
    task: QuestionAnswering, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
) -> Arrays:
    answers = task.decode(sequences, outputs, examples)
    best = [answer["best"] for answer in answers]
    lists: dict[str, tuple[str, object, type]] = {"best_answers": ("answer", "", object)}
    lists |= {"best_scores": ("score", 0.0, np.float32), "best_probabilities": ("probability", 0.0, np.float32)}
    lists |= {"best_starts": ("start", -1, np.int32), "best_ends": ("end", -1, np.int32)}
    return {
        "answer": _make_strings([answer["answer"] for answer in answers]),
        **{
            name: np.array([-1 if answer[name] is None else answer[name] for answer in answers], np.int32)
            for name in ("start", "end")
        },
        **{name: np.array([answer[name] for answer in answers], np.float32) for name in ("score", "null_score")},
        **{
            name: _pad([[span[key] for span in spans] for spans in best], padding, dtype, 1)
            for name, (key, padding, dtype) in lists.items()
        },
        "num_best": np.array([*map(len, best)], np.int32),
    }


def _compute_fillings(
    task: MaskFilling, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
) -> Arrays:
    all_masks = [answer["masks"] for answer in task.decode(sequences, outputs, examples)]
    num_masks = np.array([*map(len, all_masks)], np.int32)
    shape = (len(all_masks), int(num_masks.max(initial=0)), min(task.num_best, len(task.vocabulary)))
    columns: dict[str, tuple[str, object, type]] = {"tokens": ("token", "", object), "texts": ("text", "", object)}
    columns |= {"token_ids": ("token_id", 0, np.int32), "probabilities": ("probability", 0.0, np.float32)}
    padded = {name: np.full(shape, padding, dtype) for name, (_, padding, dtype) in columns.items()}
    for name, (key, _, _) in columns.items():
        for text, masks in enumerate(all_masks):
            for mask, fillings in enumerate(masks):
                padded[name][text, mask] = [filling[key] for filling in fillings]
    return padded | {"num_masks": num_masks}


_COMPUTE: dict[type[Task], Callable] = {
    SentenceEmbedding: _compute_embeddings,
    TextClassification: _compute_classes,
    TokenClassification: _compute_tags,
    QuestionAnswering: _compute_spans,
    MaskFilling: _compute_fillings,
}


def _make_strings(values: Sequence[str]) -> np.ndarray:
    strings = np.empty(len(values), object)
    strings[:] = values
    return strings


def _pad(rows: Sequence[Sequence], padding: object, dtype: type, min_width: int = 0) -> np.ndarray:
    """Return rows of different lengths as an array `(B, W)`."""
    padded = np.full((len(rows), max([min_width, *map(len, rows)])), padding, dtype)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return padded
