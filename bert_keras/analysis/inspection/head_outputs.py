"""Predictions of the head of a model: classes, tags, answers, cosine similarity, replaced tokens."""

import dataclasses
import os
from collections.abc import Mapping

import keras
import numpy as np

from bert_keras.analysis.inspection.forward_pass import ForwardPass
from bert_keras.checks import quote
from bert_keras.heads.known_heads import find_finetuned_head, get_task_head
from bert_keras.modeling import BertEmbedder, BertPretrainer, ElectraPretrainer
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.base import Task, softmax
from bert_keras.tasks.predictor import Predictor
from bert_keras.tasks.task_loading import restore_task


@dataclasses.dataclass(frozen=True)
class PredictedItem:
    """A class, tag, answer or token of a prediction.

    Attributes:
        label: name of the class or tag, or text of the answer or token.
        value: its probability, or the number that `Prediction.measure` names; None without one.
        text: index of the text that has its range, from 0; None without a range.
        start, end: its characters in that text, `text[start:end]`.
        is_predicted: whether the model predicts it; otherwise it is an alternative.
    """

    label: str
    value: float | None
    text: int | None = None
    start: int | None = None
    end: int | None = None
    is_predicted: bool = True


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The prediction of a head.

    Attributes:
        description: one sentence about the items and their values.
        measure: the kind of the values: "probability", "value" or "cosine".
        items: the items, most probable first or in the order of the text.
    """

    description: str
    measure: str
    items: tuple[PredictedItem, ...]


def make_predictor(folder: str | os.PathLike | None, model: keras.Model, tokenizer: BertTokenizer) -> Predictor | None:
    """Create a predictor for the task of a model, with the model's maximum sequence length; None without a task.

    Args:
        folder: the folder of the model, which may have a stored task; None if the model was not loaded.
        model: the model.
        tokenizer: its tokenizer.
    """
    head = find_finetuned_head(type(model).__name__)
    if head is None:
        return None
    changes = {"max_sequence_length": model.encoder.config.max_sequence_length}
    if head.load("task").is_token_level:
        changes["window_overlap"] = 0  # the text is a single window
    return Predictor(model, tokenizer, restore_task(folder, model, tokenizer, **changes))


def predict_with_head(model: keras.Model, predictor: Predictor | None, forward_pass: ForwardPass) -> Prediction | None:
    """Return the prediction of the head for the sequence of a forward pass; None without a head that predicts.

    Raises:
        InputError: the task accepts only pairs or only single texts, and the number of texts differs.
    """
    texts = forward_pass.sequence.texts
    if isinstance(model, BertPretrainer):
        return _describe_next_sentence(forward_pass) if len(texts) == 2 else None
    if isinstance(model, ElectraPretrainer):
        return _describe_replaced_tokens(forward_pass)
    if predictor is None or (isinstance(model, BertEmbedder) and len(texts) == 1):
        return None
    [answer] = predictor([texts])
    return get_task_head(predictor.task.name).load("description")(predictor.task, answer)


def describe_classes(task: Task, answer: Mapping) -> Prediction:
    """Describe the classes, labels or value of a text."""
    if task.problem == "regression":
        return Prediction("The number predicted for the text.", "value", (PredictedItem("value", answer["value"]),))
    predicted = answer["labels"] if task.problem == "multi_label" else [answer["label"]]
    ranked = sorted(zip(answer["probabilities"], task.labels, strict=True), key=lambda pair: -pair[0])
    items = tuple(PredictedItem(label, value, is_predicted=label in predicted) for value, label in ranked)
    description = "Class probabilities, which sum to 1."
    if task.problem == "multi_label":
        description = "Independent probabilities of the labels; a label is predicted from 0.5."
    return Prediction(description, "probability", items)


def describe_tags(task: Task, answer: Mapping) -> Prediction:
    """Describe the tags of words."""
    kind = "entities" if "entities" in answer else "words"
    items = tuple(
        PredictedItem(item["label"], item["probability"], 0, item["start"], item["end"]) for item in answer[kind]
    )
    return Prediction(f"The {kind} with their tags and character ranges.", "probability", items)


def describe_answers(task: Task, answer: Mapping) -> Prediction:
    """Describe the answers to a question."""
    items = [
        PredictedItem(
            span["answer"], span["probability"], 1, span["start"], span["end"], span["answer"] == answer["answer"]
        )
        for span in answer["best"]
    ]
    if answer["answer"] == "":
        items.insert(0, PredictedItem("no answer", None))
    description = "The best answers with their character ranges in the context; probabilities among these answers."
    return Prediction(description, "probability", tuple(items))


def describe_cosine(task: Task, answer: Mapping) -> Prediction:
    """Describe the similarity of two texts."""
    prompt = f" after the prompt {quote(task.prompt_text)}" if task.prompt_text else ""
    description = f"Cosine similarity of the two texts, each encoded separately{prompt}; 1 = same direction."
    return Prediction(description, "cosine", (PredictedItem("cosine", answer["cosine"]),))


def _describe_next_sentence(forward_pass: ForwardPass) -> Prediction:
    is_next, is_random = softmax(forward_pass.outputs["next_sentence_logits"]).tolist()
    items = (
        PredictedItem("the second text follows the first", is_next, is_predicted=is_next >= is_random),
        PredictedItem("the second text does not follow", is_random, is_predicted=is_next < is_random),
    )
    return Prediction("Next-sentence prediction from the pooled [CLS] vector.", "probability", items)


def _describe_replaced_tokens(forward_pass: ForwardPass) -> Prediction:
    probabilities = 1 / (1 + np.exp(-forward_pass.outputs["replaced_logits"].astype(np.float64)))
    sequence = forward_pass.sequence
    ranges = (sequence.segment_ids.tolist(), sequence.starts.tolist(), sequence.ends.tolist())
    items = tuple(
        PredictedItem(token, value, text, start, end, value >= 0.5)
        for token, value, text, start, end in zip(sequence.tokens, probabilities.tolist(), *ranges, strict=True)
        if start >= 0
    )
    description = "Probability that each token was replaced; a token is predicted as replaced from 0.5."
    return Prediction(description, "probability", items)
