"""Predictions of the head of a model: classes, tags, answers, cosine similarity, replaced and masked tokens."""

import dataclasses
import os
from collections.abc import Iterator, Mapping

import keras
import numpy as np

from bert_keras.analysis.inspection.forward_pass import ForwardPass, InputSequence
from bert_keras.checkpoints.task_loading import restore_task
from bert_keras.checks import quote
from bert_keras.engines.mask_filling import predict_tokens
from bert_keras.engines.predictor import Predictor
from bert_keras.heads.fill_mask.mask_checks import check_top_k
from bert_keras.heads.fill_mask.model import MaskedLMModel
from bert_keras.heads.fill_mask.task import find_top_tokens
from bert_keras.heads.known_heads import find_finetuned_head, find_head_of_class
from bert_keras.heads.task import Task, softmax
from bert_keras.pipelines.text.tokenizer import BertTokenizer

MAX_WORDS = 64  # masked in turn, each in a sequence of its own
_TOKENS_PER_BATCH = 4096


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


@dataclasses.dataclass(frozen=True)
class MaskedPrediction:
    """The prediction for one masked token.

    Attributes:
        position: position of the token in the sequence, from 0.
        token: the masked token, or "[MASK]" if the text itself has it.
        probability: probability of `token`; None if the text itself has [MASK].
        proposals: the most probable tokens with their probabilities over the whole vocabulary, best first.
    """

    position: int
    token: str
    probability: float | None
    proposals: tuple[tuple[str, float], ...]


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
    texts, head = forward_pass.sequence.texts, find_head_of_class(type(model))
    if head is None or head.description is None:
        return None
    if head.task is None:
        return head.load("description")(forward_pass)
    if predictor is None or (predictor.task.makes_vectors and len(texts) == 1):  # one vector has no similarity
        return None
    [answer] = predictor([texts])
    return head.load("description")(predictor.task, answer)


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


def describe_next_sentence(forward_pass: ForwardPass) -> Prediction | None:
    """Describe whether the second text follows the first; None without a second text."""
    if len(forward_pass.sequence.texts) == 1:
        return None
    is_next, is_random = softmax(forward_pass.outputs["next_sentence_logits"]).tolist()
    items = (
        PredictedItem("the second text follows the first", is_next, is_predicted=is_next >= is_random),
        PredictedItem("the second text does not follow", is_random, is_predicted=is_next < is_random),
    )
    return Prediction("Next-sentence prediction from the pooled [CLS] vector.", "probability", items)


def describe_replaced_tokens(forward_pass: ForwardPass) -> Prediction:
    """Describe which tokens were replaced."""
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


def get_masked_lm(model: keras.Model) -> MaskedLMModel | None:
    """Return the model with the masked-LM head: the model itself, ELECTRA's generator, or None."""
    return model if isinstance(model, MaskedLMModel) else getattr(model, "generator", None)


def predict_masked_tokens(
    model: MaskedLMModel, tokenizer: BertTokenizer, sequence: InputSequence, *, top_k: int = 5
) -> tuple[MaskedPrediction, ...]:
    """Predict every [MASK] of a sequence; without one, mask each of the first 64 words in turn with all its tokens.

    The other words stay visible, as in Salazar et al. (2020), 2.

    Args:
        model: the result of `get_masked_lm`.
        tokenizer: tokenizer of the model.
        sequence: the sequence.
        top_k: number of proposals for each token.

    Raises:
        InputError: `top_k` is below 1 or above the vocabulary size.
    """
    vocabulary = tokenizer.vocabulary
    check_top_k(top_k, len(vocabulary))
    masks = np.flatnonzero(sequence.token_ids == tokenizer.mask_id)
    words = [masks] if len(masks) else find_words(sequence, tokenizer)[:MAX_WORDS]
    predictions = []
    for positions, probabilities in _predict(model, tokenizer, sequence, words):
        best = find_top_tokens(probabilities, top_k)
        for position, distribution, top_tokens in zip(positions, probabilities, best, strict=True):
            probability = None if len(masks) else float(distribution[sequence.token_ids[position]])
            proposals = tuple((vocabulary[token_id], share) for token_id, share in top_tokens)
            predictions.append(MaskedPrediction(int(position), sequence.tokens[position], probability, proposals))
    return tuple(predictions)


def find_words(sequence: InputSequence, tokenizer: BertTokenizer) -> list[np.ndarray]:
    """Return the positions of the tokens of each word, without special tokens."""
    special_ids = [token_id for token_id in tokenizer.special_ids if token_id != tokenizer.unk_id]
    is_word = (sequence.word_ids >= 0) & ~np.isin(sequence.token_ids, special_ids)
    keys = np.where(is_word, sequence.segment_ids * len(sequence) + sequence.word_ids, -1)
    return [np.flatnonzero(keys == key) for key in dict.fromkeys(keys[is_word].tolist())]


def _predict(
    model: MaskedLMModel, tokenizer: BertTokenizer, sequence: InputSequence, words: list[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the masked positions `(M,)` of each word and the probabilities at these positions `(M, V)`."""
    batch_size = max(1, _TOKENS_PER_BATCH // len(sequence))
    for start in range(0, len(words), batch_size):
        batch = words[start : start + batch_size]
        features = {name: np.repeat(values, len(batch), axis=0) for name, values in sequence.features().items()}
        for token_ids, positions in zip(features["token_ids"], batch, strict=True):
            token_ids[positions] = tokenizer.mask_id
        yield from zip(batch, predict_tokens(model, tokenizer, features, batch), strict=True)
