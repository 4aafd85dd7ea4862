"""What a model with a head says of the text: classes, ranges of characters, a cosine, replaced tokens."""

import dataclasses
import os
from collections.abc import Mapping

import keras
import numpy as np

from bert_keras.analysis.inspection.forward_pass import Look
from bert_keras.checks import quote
from bert_keras.modeling import BertEmbedder, BertPretrainer, ElectraPretrainer
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.base import softmax
from bert_keras.tasks.predictor import Predictor
from bert_keras.tasks.task_loading import TASK_CLASSES, restore_task


@dataclasses.dataclass(frozen=True)
class Finding:
    """A line of an answer.

    Attributes:
        label: what is said: a class, a tag, an answer, a token.
        value: its probability, or the number that `Answer.measure` names; None: it has none.
        text: which of the texts its range is in, from 0; None: no range.
        start, end: the characters of that text, `text[start:end]`.
        is_given: whether it belongs to what the model answers, or is one of the alternatives.
    """

    label: str
    value: float | None
    text: int | None = None
    start: int | None = None
    end: int | None = None
    is_given: bool = True


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a model's head says.

    Attributes:
        sentence: what is shown, in one sentence.
        measure: what the values are: "probability", "value" or "cosine".
        findings: the lines, the likeliest first or in the order of the text.
    """

    sentence: str
    measure: str
    findings: tuple[Finding, ...]


def predictor_of(folder: str | os.PathLike | None, model: keras.Model, tokenizer: BertTokenizer) -> Predictor | None:
    """Returns what answers in the terms of the model's task, with rows as long as the model reads; None: no task.

    Args:
        folder: where a task may be stored; None: the model was not loaded.
        model: the model.
        tokenizer: its tokenizer.
    """
    kind = TASK_CLASSES.get(type(model).__name__)
    if kind is None:
        return None
    changes = {"max_sequence_length": model.encoder.config.max_sequence_length}
    if kind.is_token_level:
        changes["window_overlap"] = 0  # there is one row, and no window to share tokens with
    return Predictor(model, tokenizer, restore_task(folder, model, tokenizer, **changes))


def answer_of(model: keras.Model, predictor: Predictor | None, look: Look) -> Answer | None:
    """Returns what the head of a model says of the row that was looked at; None: it has no head that says anything.

    Raises:
        InputError: the task is of pairs alone and there is one text, or of single texts and there are two.
    """
    if isinstance(model, BertPretrainer):
        return _next_sentence(look) if len(look.row.texts) == 2 else None
    if isinstance(model, ElectraPretrainer):
        return _replaced(look)
    if predictor is None or (isinstance(model, BertEmbedder) and len(look.row.texts) == 1):
        return None
    [answer] = predictor([look.row.texts])
    return _of_task(predictor.task, answer)


def _of_task(task, answer: Mapping) -> Answer:
    if task.name == "classify":
        return _classes(task, answer)
    if task.name == "tag":
        return _tags(answer)
    if task.name == "answer":
        return _spans(answer)
    cosine = Finding("cosine", answer["cosine"])
    prompt = f" behind the prompt {quote(task.prompt_text)}" if task.prompt_text else ""
    note = f"How alike the two texts are, each read alone{prompt}: 1 = the same direction."
    return Answer(note, "cosine", (cosine,))


def _classes(task, answer: Mapping) -> Answer:
    if task.problem == "regression":
        return Answer("The number that the model gives the text.", "value", (Finding("value", answer["value"]),))
    given = answer["labels"] if task.problem == "multi_label" else [answer["label"]]
    ranked = sorted(zip(answer["probabilities"], task.labels, strict=True), key=lambda pair: -pair[0])
    findings = tuple(Finding(label, value, is_given=label in given) for value, label in ranked)
    if task.problem == "multi_label":
        return Answer("Each label by itself: given from a probability of 0.5.", "probability", findings)
    return Answer("The classes; their probabilities sum to 1.", "probability", findings)


def _tags(answer: Mapping) -> Answer:
    kind = "entities" if "entities" in answer else "words"
    findings = tuple(
        Finding(found["label"], found["probability"], 0, found["start"], found["end"]) for found in answer[kind]
    )
    return Answer(f"The {kind} with their tags, and the characters where they stand.", "probability", findings)


def _spans(answer: Mapping) -> Answer:
    found = [
        Finding(span["answer"], span["probability"], 1, span["start"], span["end"], span["answer"] == answer["answer"])
        for span in answer["best"]
    ]
    if answer["answer"] == "":
        found.insert(0, Finding("no answer", None))
    sentence = "The best answers, and the characters of the context where they stand; probabilities among these."
    return Answer(sentence, "probability", tuple(found))


def _next_sentence(look: Look) -> Answer:
    follows, is_random = softmax(look.outputs["next_sentence_logits"]).tolist()
    findings = (
        Finding("the second text follows the first", follows, is_given=follows >= is_random),
        Finding("it does not", is_random, is_given=follows < is_random),
    )
    return Answer("Next-sentence prediction, from [CLS] through the pooler.", "probability", findings)


def _replaced(look: Look) -> Answer:
    probabilities = 1 / (1 + np.exp(-look.outputs["replaced_logits"].astype(np.float64)))
    row = look.row
    places = (row.segment_ids.tolist(), row.starts.tolist(), row.ends.tolist())
    findings = tuple(
        Finding(token, value, text, start, end, value >= 0.5)
        for token, value, text, start, end in zip(row.tokens, probabilities.tolist(), *places, strict=True)
        if start >= 0
    )
    sentence = "How likely each token is not what stood there: replaced from a probability of 0.5."
    return Answer(sentence, "probability", findings)
