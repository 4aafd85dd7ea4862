"""`Task`: what is read of an example, what a model learns of it, what it answers, and how good that is.

No TensorFlow here and in the tasks, so that a command can read its files, and refuse them, before it is loaded.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bert_keras.checks import check_integer, quote
from bert_keras.errors import InputError
from bert_keras.pipelines.batches.encoding import EncodedSequences

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledSequences:
    """Rows with what `make_task_batches` needs to know of them beside.

    Attributes:
        rows: N rows.
        labels: `(N, ...)`, or several such arrays by name.
        token_labels: a label for each token, -100: it does not count.
        weights: what each row counts.
        group_size: neighbouring rows that stay together.
    """

    rows: EncodedSequences
    labels: np.ndarray | Mapping[str, np.ndarray] | None = None
    token_labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    group_size: int = 1

    def batches(self, batch_size: int, **settings) -> tf.data.Dataset:
        """Returns batches of so many examples; `settings` are those of `make_task_batches`."""
        from bert_keras.pipelines.batches.task_batches import make_task_batches

        return make_task_batches(
            self.rows,
            self.labels,
            token_labels=self.token_labels,
            weights=self.weights,
            batch_size=batch_size * self.group_size,
            group_size=self.group_size,
            **settings,
        )

    def num_batches(self, batch_size: int) -> int:
        """Returns the batches of an epoch."""
        return -(-len(self.rows) // (batch_size * self.group_size))


@dataclasses.dataclass(frozen=True)
class Task(abc.ABC):
    """A task, with all that is stored of it beside the model.

    A task is a frozen dataclass whose fields are plain values: `settings` gives them, and they stand in the
    checkpoint's `config.json`.

    Args:
        max_sequence_length: the longest row in tokens, special tokens counted.
        window_overlap: None: longer texts are cut. A number: they are read in windows that share so many tokens.
    """

    max_sequence_length: int = 128
    window_overlap: int | None = None

    name: ClassVar[str]
    model_class: ClassVar[str]  # its name in bert_keras.modeling
    example_class: ClassVar[type]
    is_token_level: ClassVar[bool] = False  # whether the model gives something for each token, or for each row

    def __post_init__(self):
        object.__setattr__(self, "max_sequence_length", check_integer("max_sequence_length", self.max_sequence_length))
        if self.window_overlap is not None:
            object.__setattr__(self, "window_overlap", check_integer("window_overlap", self.window_overlap, 0))

    @property
    @abc.abstractmethod
    def main_score(self) -> str:
        """The score that tells which of two models is better; more is better."""

    @property
    def input_names(self) -> tuple[str, ...]:
        """What an artifact calls the texts that it takes."""
        return ("text",)

    @property
    def has_alternatives(self) -> bool:
        """Whether an answer is one of several that have probabilities."""
        return False

    @property
    def fills_batches(self) -> bool:
        """Whether the batch of an epoch that is not full may be filled with rows of weight 0, so that all have B rows.

        That changes nothing where each row has a loss of its own. A loss that compares the rows of a batch with each
        other would compare them with those that only fill it; and where a batch is cut for several replicas, only with
        those of the same replica.
        """
        return True

    @abc.abstractmethod
    def make_example(self, text: str, second_text: str | None = None, line: int | None = None):
        """Returns a text, or a pair of texts, as an example to be answered.

        Raises:
            InputError: the task reads single texts alone, or pairs alone, and this is the other.
        """

    def make_example_from_words(self, words: Sequence[str]):
        """Return words, as they are to be tagged, as an example to be answered.

        Raises:
            InputError: the task tags no words.
        """
        raise InputError(
            f"a list of words was given, {quote(words)}, and the task {self.name} tags none; expected a text, or a "
            "tuple of two texts: write ('...', '...') for a pair"
        )

    @abc.abstractmethod
    def encode(self, tokenizer, examples: Sequence) -> EncodedSequences:
        """Returns the rows of examples."""

    @abc.abstractmethod
    def add_labels(self, rows: EncodedSequences, examples: Sequence) -> LabelledSequences:
        """Returns rows with what they are to teach."""

    @abc.abstractmethod
    def decode(self, rows: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence) -> list[dict]:
        """Returns the model's answer to each example, in the terms of the task.

        Args:
            rows: what `encode` gave.
            outputs: what the model gave: `(N, ...)`, or `(P, ...)` where `of_tokens`.
            examples: the examples, for their texts; labels are not looked at.
        """

    @abc.abstractmethod
    def score(self, answers: Sequence[Mapping], examples: Sequence) -> dict[str, float]:
        """Returns how good answers are, by name."""

    def check_top(self, top: int, name: str = "top") -> int:
        """Return how many alternatives to list.

        Args:
            top: how many, the best one counted.
            name: what messages call it.

        Raises:
            InputError: it is no whole number from 1, or there are no alternatives.
        """
        top = check_integer(name, top)
        if top > 1 and not self.has_alternatives:
            kind = ", ".join([self.name, *([self.problem] if hasattr(self, "problem") else [])])
            raise InputError(f"{name} lists classes or answers, and the task is {kind}: leave it out")
        return top

    def to_json(self, answer: Mapping, num_best: int = 1) -> dict:
        """Returns an answer as JSON can hold it, with so many alternatives where the task has them."""
        del num_best
        return dict(answer)

    def head_arguments(self) -> dict:
        """Returns the arguments of the model's class beside the encoder."""
        return {}

    def loss(self):
        """Returns the loss to train with; "auto": the model's own."""
        return "auto"

    def calibrate(self, answers: Sequence[Mapping], examples: Sequence) -> Task:
        """Returns the task with what can be learned from the answers to held-out examples (a threshold)."""
        del answers, examples
        return self

    def apply_calibration(self, answers: Sequence[Mapping]) -> list[dict]:
        """Returns answers as this task, with what was fitted, gives them."""
        return list(answers)

    def with_length(self, length: int) -> Task:
        """Returns the task with rows of so many tokens; windows share as much of a shorter row as they did."""
        overlap = self.window_overlap
        if overlap is not None and length < self.max_sequence_length:
            overlap = overlap * length // self.max_sequence_length
        return dataclasses.replace(self, max_sequence_length=length, window_overlap=overlap)

    def settings(self) -> dict:
        """Returns what to store of the task, in plain values."""
        return {"name": self.name, **dataclasses.asdict(self)}


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raises `InputError` if a setting is none of its choices."""
    if value not in choices:
        raise InputError(f"{name} is {quote(value)}; expected one of {', '.join(choices)}")


def encode_labels(given: Sequence[str], labels: Sequence[str]) -> np.ndarray:
    """Returns the number of each given label among all labels, `(N,)` int32.

    Raises:
        InputError: one is none of them.
    """
    ids = {name: number for number, name in enumerate(labels)}
    if (unknown := next((name for name in given if name not in ids), None)) is not None:
        raise InputError(
            f"the label {unknown!r} is none of the task's, which are {listed(labels)}: correct one of them"
        )
    return np.array([ids[name] for name in given], np.int32)


def listed(labels: Sequence[str]) -> str:
    """Returns the first ten labels, for messages."""
    return (", ".join(labels[:10]) or "none") + (" ..." if len(labels) > 10 else "")


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns probabilities over the last axis, computed in float64."""
    logits = np.asarray(logits, np.float64)
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)
