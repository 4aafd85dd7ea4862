"""Classes, sets of tags, or a number for a text or a pair of texts."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from bert_keras.errors import InputError
from bert_keras.metrics import classes, regression
from bert_keras.pipelines.batches.encoding import EncodedSequences, encode
from bert_keras.tasks.base import LabelledSequences, Task, check_choice, encode_labels, softmax

CLASS_WEIGHTS = ("equal", "balanced")
_MAIN_SCORES = {"single_label": "accuracy", "multi_label": "micro_f1", "regression": "pearson"}


class TextExample(NamedTuple):
    """A text or a pair of texts.

    Attributes:
        text: the text.
        second_text: the second one of a pair.
        label: a class name, a list of them, or a number; None where it is not known.
        line: where it stands in its file.
    """

    text: str
    second_text: str | None = None
    label: str | Sequence[str] | float | None = None
    line: int | None = None


@dataclasses.dataclass(frozen=True)
class TextClassification(Task):
    """Classes, sets of tags or a number for a text or a pair of texts (Devlin et al. 2018, 4.1).

    A text that is read in windows is answered by the mean of their logits; in training each text counts once.

    Args:
        problem: "single_label", "multi_label" or "regression".
        labels: names of the classes; none in "regression".
        has_pairs: whether it was trained on pairs of texts. It answers both; an artifact takes what it was trained on.
        class_weights: "equal", or "balanced": each class counts in training as if all had equally many texts
            (scikit-learn's rule).

    Raises:
        InputError: a setting is out of range.
    """

    problem: str = "single_label"
    labels: tuple[str, ...] = ()
    has_pairs: bool = False
    class_weights: str = "equal"

    name: ClassVar[str] = "classify"
    model_class: ClassVar[str] = "BertClassifier"
    example_class: ClassVar[type] = TextExample

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "labels", tuple(self.labels))
        check_choice("problem", self.problem, tuple(_MAIN_SCORES))
        check_choice("class_weights", self.class_weights, CLASS_WEIGHTS)
        if self.class_weights == "balanced" and self.problem != "single_label":
            raise InputError(f"class weights are for single_label, the problem is {self.problem}: leave them out")

    @property
    def main_score(self) -> str:
        return _MAIN_SCORES[self.problem]

    @property
    def has_alternatives(self) -> bool:
        return self.problem != "regression"

    @property
    def input_names(self) -> tuple[str, ...]:
        return ("text", "second_text") if self.has_pairs else ("text",)

    def head_arguments(self) -> dict:
        labels = None if self.problem == "regression" else list(self.labels)
        return {"num_classes": len(self.labels) or 1, "problem": self.problem, "labels": labels}

    def make_example(self, text: str, second_text: str | None = None, line: int | None = None) -> TextExample:
        return TextExample(text, second_text, None, line)

    def encode(self, tokenizer, examples: Sequence[TextExample]) -> EncodedSequences:
        return encode(
            tokenizer,
            [example.text for example in examples],
            _second_texts(examples),
            max_sequence_length=self.max_sequence_length,
            window_overlap=self.window_overlap,
        )

    def add_labels(self, rows: EncodedSequences, examples: Sequence[TextExample]) -> LabelledSequences:
        targets = self._targets(examples)
        weights = 1.0 / np.bincount(rows.examples)[rows.examples]  # a text in three windows counts once
        if self.class_weights == "balanced":
            counts = np.bincount(targets, minlength=len(self.labels))
            weights = weights * (len(targets) / (len(self.labels) * np.maximum(counts, 1)))[targets][rows.examples]
        weights = None if (weights == 1).all() else weights.astype(np.float32)
        return LabelledSequences(rows, targets[rows.examples], weights=weights)

    def decode(self, rows, outputs, examples) -> list[dict]:
        logits = self.average_logits(rows, outputs, len(examples))
        if self.problem == "regression":
            return [{"value": float(value)} for value in logits[:, 0]]
        if self.problem == "multi_label":
            probabilities = 1 / (1 + np.exp(-logits))
            return [
                {"labels": [name for name, p in zip(self.labels, row, strict=True) if p >= 0.5], "probabilities": row}
                for row in probabilities
            ]
        return [
            {"label": self.labels[row.argmax()], "probability": float(row.max()), "probabilities": row}
            for row in softmax(logits)
        ]

    def average_logits(self, rows: EncodedSequences, outputs: Mapping[str, np.ndarray], num_texts: int) -> np.ndarray:
        """Returns the logits of each text `(N, C)`, float64: of one in windows their means."""
        return _means(outputs["logits"].astype(np.float64), rows.examples, num_texts)

    def score(self, answers: Sequence[Mapping], examples: Sequence[TextExample]) -> dict[str, float]:
        targets = self._targets(examples)
        if self.problem == "regression":
            return regression.regression_scores(targets, np.array([answer["value"] for answer in answers]))
        probabilities = np.stack([answer["probabilities"] for answer in answers])
        if self.problem == "multi_label":
            return classes.tag_set_scores(targets.astype(int), (probabilities >= 0.5).astype(int))
        of_truth = probabilities[np.arange(len(targets)), targets]
        loss = {"loss": float(-np.log(np.maximum(of_truth, 1e-30)).mean())}
        scores = classes.class_scores(targets, probabilities.argmax(axis=1), num_classes=len(self.labels))
        return scores | loss

    def to_json(self, answer: Mapping, num_best: int = 1) -> dict:
        if self.problem == "regression":
            return dict(answer)
        probabilities = np.asarray(answer["probabilities"]).tolist()
        ranked = sorted(zip(probabilities, self.labels, strict=True), key=lambda pair: -pair[0])
        given = {name: value for name, value in answer.items() if name != "probabilities"}
        if self.problem == "multi_label":
            num_best = max(num_best, len(answer["labels"]))
        elif num_best == 1:
            return given
        return {**given, "best": [{"label": name, "probability": value} for value, name in ranked[:num_best]]}

    def confusion(self, answers: Sequence[Mapping], examples: Sequence[TextExample]) -> np.ndarray:
        """Returns how often each class (row) was taken for each (column), `(C, C)`."""
        predicted = [self.labels.index(answer["label"]) for answer in answers]
        return classes.confusion_matrix(self._targets(examples), np.array(predicted), num_classes=len(self.labels))

    def _targets(self, examples: Sequence[TextExample]) -> np.ndarray:
        """Returns the labels as the loss wants them."""
        if self.problem == "regression":
            return np.array([example.label for example in examples], np.float32)
        if self.problem == "single_label":
            return encode_labels([example.label for example in examples], self.labels)
        targets = np.zeros((len(examples), len(self.labels)), np.float32)
        for row, example in zip(targets, examples, strict=True):
            row[encode_labels(example.label, self.labels)] = 1
        return targets


def _second_texts(examples: Sequence[TextExample]) -> list[str] | None:
    """Returns the second texts of pairs; None where the examples are single texts."""
    seconds = [example.second_text for example in examples]
    if (num_single := seconds.count(None)) == len(seconds):
        return None
    if num_single:
        raise InputError(
            f"{num_single} of {len(seconds)} examples are single texts, and the others are pairs; expected one kind: "
            "give each a second text, or none"
        )
    return seconds


def _means(values: np.ndarray, groups: np.ndarray, num_groups: int) -> np.ndarray:
    """Returns the means of the rows `(N, C)` of each group `(G, C)`."""
    sums = np.zeros((num_groups, values.shape[1]))
    np.add.at(sums, groups, values)
    return sums / np.bincount(groups, minlength=num_groups)[:, np.newaxis]
