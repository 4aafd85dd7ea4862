"""`TextClassification`: one class, several classes or a number for a text or a pair of texts."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from bert_keras.errors import InputError
from bert_keras.heads.signatures import Arrays, TensorSpec, make_specs, make_strings, pad_rows
from bert_keras.heads.task import LabelledSequences, Row, Task, check_choice, encode_labels, softmax
from bert_keras.metrics import classes, regression
from bert_keras.pipelines.batches.encoding import EncodedSequences, encode

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

CLASS_WEIGHTS = ("equal", "balanced")
THRESHOLD = 0.5  # a label of a "multi_label" problem is chosen from this probability on
_MAIN_SCORES = {"single_label": "accuracy", "multi_label": "micro_f1", "regression": "pearson"}


class TextExample(NamedTuple):
    """A text, a pair of texts, or more texts.

    Attributes:
        text: the text.
        second_text: the second text of a pair; None: a single text.
        label: the name of a class, a list of names, or a number; None: unknown.
        line: its line in the file.
        more_texts: the texts after the second one.
    """

    text: str
    second_text: str | None = None
    label: str | Sequence[str] | float | None = None
    line: int | None = None
    more_texts: tuple[str, ...] = ()

    @classmethod
    def of_texts(
        cls, texts: Sequence[str], label: str | Sequence[str] | float | None = None, line: int | None = None
    ) -> "TextExample":
        """Create an example of one or more texts."""
        return cls(texts[0], texts[1] if len(texts) > 1 else None, label, line, tuple(texts[2:]))

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts, in order."""
        return (self.text,) if self.second_text is None else (self.text, self.second_text, *self.more_texts)

    def __repr__(self) -> str:
        # without an empty `more_texts`: backups of version 0.2 have digests of this form
        more = f", more_texts={self.more_texts!r}" if self.more_texts else ""
        start = f"TextExample(text={self.text!r}, second_text={self.second_text!r}, label={self.label!r}"
        return f"{start}, line={self.line!r}{more})"


@dataclasses.dataclass(frozen=True)
class TextClassification(Task):
    """Classification or regression of texts or pairs of texts (Devlin et al. 2018, 4.1).

    The logits of a text in several windows are averaged; in training each text has the same total weight.

    Args:
        problem: "single_label", "multi_label" or "regression".
        labels: names of the classes; empty for "regression".
        has_pairs: whether the training examples are pairs. The task answers both, but an exported artifact accepts
            only what it was trained on.
        class_weights: "equal", or "balanced" to weight each class in training as if all had the same number of texts
            (scikit-learn's formula).

    Raises:
        InputError: a setting is out of range.
    """

    problem: str = "single_label"
    labels: tuple[str, ...] = ()
    has_pairs: bool = False
    class_weights: str = "equal"

    name: ClassVar[str] = "classify"
    example_class: ClassVar[type] = TextExample

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "labels", tuple(self.labels))
        check_choice("problem", self.problem, tuple(_MAIN_SCORES))
        check_choice("class_weights", self.class_weights, CLASS_WEIGHTS)
        if self.class_weights == "balanced" and self.problem != "single_label":
            raise InputError(f"class weights are for single_label, and the problem is {self.problem}: leave them out")

    @property
    def main_score(self) -> str:
        """Accuracy, micro F1 or Pearson correlation, depending on the problem."""
        return _MAIN_SCORES[self.problem]

    @property
    def has_alternatives(self) -> bool:
        """Whether there are classes to rank."""
        return self.problem != "regression"

    @property
    def input_names(self) -> tuple[str, ...]:
        """One text, or a pair of texts."""
        return ("text", "second_text") if self.has_pairs else ("text",)

    def head_arguments(self) -> dict:
        """Return the number and names of the classes, and the problem."""
        labels = None if self.problem == "regression" else list(self.labels)
        return {"num_classes": len(self.labels) or 1, "problem": self.problem, "labels": labels}

    def make_example(self, text: str, second_text: str | None = None, line: int | None = None) -> TextExample:
        """Create an example from a text or a pair of texts."""
        return TextExample(text, second_text, None, line)

    def list_labels(self, example: TextExample) -> Sequence[str]:
        """Return the classes of a text."""
        return () if self.problem == "regression" else get_labels(example)

    def fill_label(self, example: TextExample) -> TextExample:
        """Return an example with the first class, no class or 0."""
        labels = {"single_label": next(iter(self.labels), None), "multi_label": [], "regression": 0.0}
        return example._replace(label=labels[self.problem])

    def encode(self, tokenizer: "BertTokenizer", examples: Sequence[TextExample]) -> EncodedSequences:
        """Tokenize texts or pairs of texts."""
        return encode(
            tokenizer,
            [example.text for example in examples],
            _get_second_texts(examples),
            max_sequence_length=self.max_sequence_length,
            window_overlap=self.window_overlap,
        )

    def add_labels(self, sequences: EncodedSequences, examples: Sequence[TextExample]) -> LabelledSequences:
        """Add the labels of texts to their windows, with weights."""
        targets = self._encode_targets(examples)
        weights = 1.0 / np.bincount(sequences.examples)[sequences.examples]  # the windows of a text share its weight
        if self.class_weights == "balanced":
            weights = weights * compute_balanced_weights(targets, len(self.labels))[sequences.examples]
        weights = None if (weights == 1).all() else weights.astype(np.float32)
        return LabelledSequences(sequences, targets[sequences.examples], weights=weights)

    def decode(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence[TextExample]
    ) -> list[dict]:
        """Return the predicted class, classes or value of each text."""
        logits = self.average_logits(sequences, outputs, len(examples))
        if self.problem == "regression":
            return [{"value": float(value)} for value in logits[:, 0]]
        if self.problem == "multi_label":
            probabilities = 1 / (1 + np.exp(-logits))
            chosen = probabilities >= THRESHOLD
            return [
                {"labels": list(itertools.compress(self.labels, choice)), "probabilities": text}
                for choice, text in zip(chosen, probabilities, strict=True)
            ]
        return [
            {"label": self.labels[text.argmax()], "probability": float(text.max()), "probabilities": text}
            for text in softmax(logits)
        ]

    def average_logits(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], num_texts: int
    ) -> np.ndarray:
        """Return the logits of each text `(N, C)` float64, averaged over its windows."""
        return _average(outputs["logits"].astype(np.float64), sequences.examples, num_texts)

    def score(self, answers: Sequence[Mapping], examples: Sequence[TextExample]) -> dict[str, float]:
        """Compute the scores of the problem."""
        targets = self._encode_targets(examples)
        if self.problem == "regression":
            return regression.regression_scores(targets, np.array([answer["value"] for answer in answers]))
        probabilities = np.stack([answer["probabilities"] for answer in answers])
        if self.problem == "multi_label":
            return classes.multi_label_scores(targets.astype(int), (probabilities >= THRESHOLD).astype(int))
        true_probabilities = probabilities[np.arange(len(targets)), targets]
        loss = {"loss": float(-np.log(np.maximum(true_probabilities, 1e-30)).mean())}
        scores = classes.class_scores(targets, probabilities.argmax(axis=1), num_classes=len(self.labels))
        return scores | loss

    def make_row(self, example: TextExample, answer: Mapping) -> Row:
        """Return the row of a labelled text in a table of answers."""
        text = " / ".join(filter(None, (example.text, example.second_text)))
        if self.problem == "regression":
            return abs(answer["value"] - example.label), [text, f"{example.label:.3f}", f"{answer['value']:.3f}", ""]
        if self.problem == "multi_label":
            probability = f"{max(answer['probabilities']):.3f}"
            is_wrong = set(answer["labels"]) != set(example.label)
            return is_wrong, [text, ", ".join(example.label), ", ".join(answer["labels"]), probability]
        return answer["label"] != example.label, [text, example.label, answer["label"], f"{answer['probability']:.3f}"]

    def to_json(self, answer: Mapping, num_best: int = 1) -> dict:
        """Convert an answer to JSON values, with the `num_best` most probable classes."""
        given = {name: value for name, value in answer.items() if name != "probabilities"}
        if self.problem == "multi_label":
            num_best = max(num_best, len(answer["labels"]))
        elif num_best == 1 or self.problem == "regression":
            return given
        probabilities = np.asarray(answer["probabilities"]).tolist()
        ranked = sorted(zip(probabilities, self.labels, strict=True), key=lambda pair: -pair[0])
        return {**given, "best": [{"label": name, "probability": value} for value, name in ranked[:num_best]]}

    def describe_for_clients(self) -> dict[str, object]:
        """Return the labels, the problem, the lengths and the threshold."""
        names = ("problem", "has_pairs", "labels", "max_sequence_length", "window_overlap")
        return {"name": self.name, **{name: getattr(self, name) for name in names}, "threshold": THRESHOLD}

    def shorten_for_clients(self, answer: Mapping) -> dict[str, object]:
        """Return an answer with the probabilities of all labels if any number of them can be chosen."""
        if self.problem == "multi_label":
            return {**answer, "probabilities": np.asarray(answer["probabilities"]).tolist()}
        return {name: value for name, value in answer.items() if name != "probabilities"}

    def describe_signature(self, num_dimensions: int | None) -> list[TensorSpec]:
        """Return the scores, and the outputs of the problem."""
        if self.problem == "regression":
            return [TensorSpec("scores", "float32", (-1, 1)), *make_specs({"value": "float32"})]
        specs = make_specs({"scores": "float32", "probabilities": "float32"}, (-1, len(self.labels)))
        if self.problem == "multi_label":
            return [*specs, TensorSpec("labels", "string", (-1, -1)), *make_specs({"num_labels": "int32"})]
        return [*specs, *make_specs({"label": "string", "label_id": "int32"})]

    def compute_signature(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
    ) -> Arrays:
        """Return the scores, and the outputs of the problem."""
        scores = {"scores": self.average_logits(sequences, outputs, len(examples)).astype(np.float32)}
        answers = self.decode(sequences, outputs, examples)
        if self.problem == "regression":
            return scores | {"value": scores["scores"][:, 0]}
        probabilities = [answer["probabilities"] for answer in answers]
        scores["probabilities"] = np.array(probabilities, np.float32).reshape(-1, len(self.labels))
        if self.problem == "multi_label":
            labels = [answer["labels"] for answer in answers]
            num_labels = np.array([*map(len, labels)], np.int32)
            return scores | {"labels": pad_rows(labels, "", object), "num_labels": num_labels}
        labels = [answer["label"] for answer in answers]
        label_ids = np.array([self.labels.index(label) for label in labels], np.int32)
        return scores | {"label": make_strings(labels), "label_id": label_ids}

    def compute_confusion_matrix(self, answers: Sequence[Mapping], examples: Sequence[TextExample]) -> np.ndarray:
        """Return the confusion matrix `(C, C)`, true classes on axis 0 and predicted ones on axis 1."""
        predicted = encode_labels([answer["label"] for answer in answers], self.labels)
        return classes.confusion_matrix(self._encode_targets(examples), predicted, num_classes=len(self.labels))

    def _encode_targets(self, examples: Sequence[TextExample]) -> np.ndarray:
        """Return the labels as numbers: `(N,)` class ids, `(N, C)` of 0 and 1, or `(N,)` floats."""
        if self.problem == "regression":
            return np.array([example.label for example in examples], np.float32)
        if self.problem == "single_label":
            return encode_labels([example.label for example in examples], self.labels)
        targets = np.zeros((len(examples), len(self.labels)), np.float32)
        for target, example in zip(targets, examples, strict=True):
            target[encode_labels(example.label, self.labels)] = 1
        return targets


def compute_balanced_weights(targets: np.ndarray, num_classes: int) -> np.ndarray:
    """Return the weight of each text `(N,)` that gives every class the same total, from class ids `(N,)`."""
    counts = np.bincount(targets, minlength=num_classes)
    return (len(targets) / (num_classes * np.maximum(counts, 1)))[targets]


def _get_second_texts(examples: Sequence[TextExample]) -> list[str] | None:
    """Return the second texts of pairs; None for single texts."""
    seconds = [example.second_text for example in examples]
    if (num_single := seconds.count(None)) == len(seconds):
        return None
    if num_single:
        raise InputError(
            f"{num_single} of {len(seconds)} examples are single texts, and the others are pairs; expected one kind: "
            "give each example a second text, or none"
        )
    return seconds


def _average(values: np.ndarray, groups: np.ndarray, num_groups: int) -> np.ndarray:
    """Return the means `(G, C)` over the values `(N, C)` of each group."""
    sums = np.zeros((num_groups, values.shape[1]))
    np.add.at(sums, groups, values)
    return sums / np.bincount(groups, minlength=num_groups)[:, np.newaxis]


def get_labels(example: TextExample) -> Sequence[str]:
    """Return the classes of a text."""
    return [example.label] if isinstance(example.label, str) else example.label
