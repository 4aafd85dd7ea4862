"""Labels of training examples of which some have none: -1, or NaN for numbers, see `Distiller`."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from bert_keras.features import IGNORED_LABEL
from bert_keras.modeling.distillation import NO_LABEL
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.readers.questions import Question
from bert_keras.pipelines.readers.words.tagged_sentences import TaggedSentence
from bert_keras.tasks.base import LabelledSequences, Task, encode_labels
from bert_keras.tasks.text_classification import TextClassification, compute_balanced_weights


def add_known_labels(
    task: Task, sequences: EncodedSequences, examples: Sequence, num_labelled: int
) -> LabelledSequences:
    """Add the labels of the first `num_labelled` examples, and mark those of the others as unknown.

    Args:
        task: the task; `class_weights` count and weight labelled examples only.
        sequences: all examples, encoded.
        examples: all examples.
        num_labelled: number of labelled examples.
    """
    if num_labelled == len(examples):
        return task.add_labels(sequences, examples)
    if isinstance(task, TextClassification) and task.class_weights == "balanced":
        equal = dataclasses.replace(task, class_weights="equal")
        labelled = add_known_labels(equal, sequences, examples, num_labelled)
        weights = np.ones(len(examples))
        targets = encode_labels([example.label for example in examples[:num_labelled]], task.labels)
        weights[:num_labelled] = compute_balanced_weights(targets, len(task.labels))
        weights = weights[sequences.examples] * (1.0 if labelled.weights is None else labelled.weights)
        return dataclasses.replace(labelled, weights=weights.astype(np.float32))
    unlabelled = [_fill_label(task, example) for example in examples[num_labelled:]]
    labelled = task.add_labels(sequences, [*examples[:num_labelled], *unlabelled])
    is_unknown = sequences.examples >= num_labelled * labelled.group_size
    if labelled.token_labels is not None:
        of_token = np.repeat(is_unknown, sequences.lengths) & (labelled.token_labels != IGNORED_LABEL)
        return dataclasses.replace(labelled, token_labels=_mark_unknown(labelled.token_labels, of_token))
    labels = labelled.labels
    if isinstance(labels, Mapping):
        marked = {name: _mark_unknown(values, is_unknown) for name, values in labels.items()}
    else:
        marked = _mark_unknown(labels, is_unknown)
    return dataclasses.replace(labelled, labels=marked)


def _mark_unknown(labels: np.ndarray, is_unknown: np.ndarray) -> np.ndarray:
    labels = labels.copy()
    labels[is_unknown] = np.nan if np.issubdtype(labels.dtype, np.floating) else NO_LABEL
    return labels


def _fill_label(task: Task, example: object) -> object:
    """Return an unlabelled example with any valid label, which is marked as unknown later."""
    if isinstance(example, TaggedSentence):
        return dataclasses.replace(example, tags=(task.labels[0],) * len(example.words))
    if isinstance(example, Question):
        return dataclasses.replace(example, answers=(), is_impossible=True)
    problem = task.problem or "regression"
    label = {"single_label": next(iter(getattr(task, "labels", ())), None), "multi_label": [], "regression": 0.0}
    return example._replace(label=label[problem])
