"""`Task`: encodes examples, labels them for training, and decodes and scores a model's outputs.

The tasks do not import TensorFlow, so a command can read and check its files before TensorFlow is loaded.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bert_keras.checks import check_integer, quote
from bert_keras.errors import InputError
from bert_keras.heads.head import Head
from bert_keras.heads.known_heads import get_task_head
from bert_keras.heads.signatures import Arrays, TensorSpec
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.readers.tables.raw_examples import quote_names

if TYPE_CHECKING:
    import tensorflow as tf

    from bert_keras.pipelines.text.tokenizer import BertTokenizer


Row = tuple[bool | float, list[str]]  # whether the answer is wrong, or the error of a number; and the cells


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledSequences:
    """Sequences with their labels: the arguments of `make_task_batches`.

    Attributes:
        sequences: N sequences of P tokens in total.
        labels: `(N, ...)`, or a dict of such arrays.
        token_labels: `(P,)`, one label per token; -100 = ignored.
        weights: `(N,)`, the weight of each sequence in the loss.
        group_size: number of consecutive sequences that stay together.
    """

    sequences: EncodedSequences
    labels: np.ndarray | Mapping[str, np.ndarray] | None = None
    token_labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    group_size: int = 1

    def batches(self, batch_size: int, **settings: object) -> tf.data.Dataset:
        """Return batches of `batch_size` examples; `settings` are those of `make_task_batches`."""
        from bert_keras.pipelines.batches.task_batches import make_task_batches

        return make_task_batches(
            self.sequences,
            self.labels,
            token_labels=self.token_labels,
            weights=self.weights,
            batch_size=batch_size * self.group_size,
            group_size=self.group_size,
            **settings,
        )

    def num_batches(self, batch_size: int) -> int:
        """Return the number of batches per epoch."""
        return -(-len(self.sequences) // (batch_size * self.group_size))


@dataclasses.dataclass(frozen=True)
class Task(abc.ABC):
    """Base class of tasks.

    A task is a frozen dataclass of plain values, which `settings` returns and a checkpoint's `config.json` stores.

    Args:
        max_sequence_length: maximum length of sequences in tokens, including special tokens.
        window_overlap: None: cut longer texts. A number: split them into windows that share this many tokens.

    Raises:
        InputError: a setting is out of range.
    """

    max_sequence_length: int = 128
    window_overlap: int | None = None

    name: ClassVar[str]
    example_class: ClassVar[type]
    is_token_level: ClassVar[bool] = False  # whether the model has one output per token, or one per sequence
    makes_vectors: ClassVar[bool] = False  # whether answers are sentence vectors
    has_default_length: ClassVar[bool] = False  # whether sequences without a stored length have the default one
    scores_in_percent: ClassVar[bool] = False  # whether scores are at most 100, or at most 1
    prompts: ClassVar[Mapping[str, str]] = {}  # texts to put before the input, keyed by name
    include_prompt: ClassVar[bool] = True  # whether the tokens of a prompt are pooled, too
    warm_up_word: ClassVar[str] = "weather"  # of the texts that a server answers before it is ready
    problem: ClassVar[str | None] = None  # one of `config.PROBLEMS` for text classification

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_sequence_length", check_integer("max_sequence_length", self.max_sequence_length))
        if self.window_overlap is not None:
            object.__setattr__(self, "window_overlap", check_integer("window_overlap", self.window_overlap, 0))

    @classmethod
    def derive_settings(cls, labels: Sequence[str] | None, vocabulary: Sequence[str]) -> dict[str, object]:
        """Return the settings that follow from a model's labels or vocabulary, if a checkpoint does not store them."""
        return {}

    @classmethod
    def name_fields(cls, settings: Mapping[str, object]) -> Sequence[str]:
        """Return the names of the values of a labelled example that is a tuple, given the settings of the task."""
        return "text", "label"

    @property
    @abc.abstractmethod
    def main_score(self) -> str:
        """Name of the score by which models are compared; higher is better."""

    @property
    def head(self) -> Head:
        """The record of the head whose models answer the task."""
        return get_task_head(self.name)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the text inputs of an exported artifact."""
        return ("text",)

    @property
    def prompt_text(self) -> str:
        """The prompt before each text; "": none."""
        return ""

    @property
    def has_alternatives(self) -> bool:
        """Whether answers come with ranked alternatives and their probabilities."""
        return False

    @property
    def has_confusion_matrix(self) -> bool:
        """Whether each example has exactly one class."""
        return self.problem == "single_label"

    @property
    def num_texts(self) -> int:
        """The number of texts of an example to train on; unlabelled single texts are joined to so many."""
        return 1

    @property
    def fills_batches(self) -> bool:
        """Whether an incomplete batch may be filled with sequences of weight 0.

        This changes nothing if each sequence has its own loss. It must be False for a loss that compares the examples
        of a batch with each other, because they would be compared with the filling too.
        """
        return True

    @abc.abstractmethod
    def make_example(self, text: str, second_text: str | None = None, line: int | None = None) -> object:
        """Create an example to answer from a text or a pair of texts.

        Raises:
            InputError: the task needs a single text and got a pair, or the reverse.
        """

    def list_labels(self, example: object) -> Sequence[str]:
        """Return the labels of a training example; none if it has numbers or other answers."""
        return ()

    def as_teacher(self) -> Task:
        """Return the task on whose examples a student of this model is trained."""
        return self

    def fit_labels(self, examples: Sequence) -> Task:
        """Return the task for labelled examples of another file."""
        return self

    def make_example_from_words(self, words: Sequence[str]) -> object:
        """Create an example to tag from words.

        Raises:
            InputError: the task does not tag words.
        """
        raise InputError(
            f"a list of words was given, {quote(words)}, but the task {self.name} does not tag words; expected a text, "
            "or a tuple of two texts: write ('...', '...') for a pair"
        )

    def list_texts(self, example: object) -> tuple[str, ...]:
        """Return the texts of an example: one, two of a pair, or more."""
        return example.texts

    def fill_label(self, example: object) -> object:
        """Return an example without a label with any valid label; `distill` marks it as unknown."""
        return example._replace(label=0.0)

    def list_readings(self, texts: Sequence[str]) -> Iterator[str]:
        """Yield the forms in which the task tokenizes texts, for choosing the tokens to keep."""
        yield from texts

    @abc.abstractmethod
    def encode(self, tokenizer: BertTokenizer, examples: Sequence) -> EncodedSequences:
        """Tokenize examples."""

    def encode_truncated(self, tokenizer: BertTokenizer, examples: Sequence) -> EncodedSequences:
        """Tokenize examples as SavedModels do, which accept all texts."""
        return self.encode(tokenizer, examples)

    def count_inputs(self, example: object) -> int:
        """Return the number of texts of an example that are encoded separately."""
        del example
        return 1

    @abc.abstractmethod
    def add_labels(self, sequences: EncodedSequences, examples: Sequence) -> LabelledSequences:
        """Add the labels of examples to their encoded sequences, for training."""

    @abc.abstractmethod
    def decode(self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence) -> list[dict]:
        """Convert a model's outputs to answers.

        Args:
            sequences: what `encode` returned.
            outputs: the model's outputs, `(N, ...)`, or `(P, ...)` if `is_token_level`.
            examples: the examples; their labels are not used.

        Returns:
            One answer per example.
        """

    @abc.abstractmethod
    def score(self, answers: Sequence[Mapping], examples: Sequence) -> dict[str, float]:
        """Compute the metrics of answers, keyed by name."""

    def make_row(self, example: object, answer: Mapping) -> Row:
        """Return the row of a labelled example in a table of answers: text, label, prediction, probability."""
        raise NotImplementedError

    @abc.abstractmethod
    def describe_signature(self, num_dimensions: int | None) -> list[TensorSpec]:
        """Return the outputs of the signature `serving_default`.

        Args:
            num_dimensions: the length of sentence vectors, if the model makes them.
        """

    def describe_ids_signature(self, num_dimensions: int | None) -> list[TensorSpec]:
        """Return the outputs of the signature `ids`. The argument is that of `describe_signature`."""
        del num_dimensions
        num_classes = len(getattr(self, "labels", ())) or 1
        return [TensorSpec("logits", "float32", (-1, *([-1] * self.is_token_level), num_classes))]

    @abc.abstractmethod
    def compute_signature(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
    ) -> Arrays:
        """Return the outputs of `serving_default` for B examples, `(B, ...)` each; strings are `str` objects."""

    def check_top(self, top: int, name: str = "top") -> int:
        """Return the number of alternatives to list, including the best one.

        Args:
            top: the number.
            name: its name in messages.

        Raises:
            InputError: it is not a positive integer, or the task has no alternatives.
        """
        top = check_integer(name, top)
        if top > 1 and not self.has_alternatives:
            kind = ", ".join(filter(None, [self.name, self.problem]))
            raise InputError(f"{name} lists classes or answers, and the task is {kind}: leave it out")
        return top

    def to_json(self, answer: Mapping, num_best: int = 1) -> dict:
        """Convert an answer to JSON values, with up to `num_best` alternatives if the task has them."""
        del num_best
        return dict(answer)

    def describe_for_clients(self) -> dict[str, object]:
        """Return the settings that programs need to decode outputs, for `model.json`: by default all."""
        return self.settings()

    def shorten_for_clients(self, answer: Mapping) -> dict[str, object]:
        """Return the parts of an answer that programs compare with their own, for `model.json`: by default all."""
        return dict(answer)

    def head_arguments(self) -> dict[str, object]:
        """Return the arguments of the model's class, except the encoder."""
        return {}

    def loss(self) -> object:
        """Return the training loss; "auto" is the model's default."""
        return "auto"

    def with_prompt(self, name: str | None = None, text: str | None = None) -> Task:
        """Return the task with another prompt; see `Predictor.with_prompt`."""
        del name, text
        raise InputError(f"a prompt was given, but the task is {self.name}; expected the task embed: leave it out")

    def calibrate(self, answers: Sequence[Mapping], examples: Sequence) -> Task:
        """Return the task with settings, such as a threshold, that are tuned on the answers to held-out examples."""
        del answers, examples
        return self

    def apply_calibration(self, answers: Sequence[Mapping]) -> list[dict]:
        """Return answers of the uncalibrated task as this task gives them."""
        return list(answers)

    def with_length(self, length: int) -> Task:
        """Return the task with another maximum length; the overlap of windows shrinks in proportion to it."""
        overlap = self.window_overlap
        if overlap is not None and length < self.max_sequence_length:
            overlap = overlap * length // self.max_sequence_length
        return dataclasses.replace(self, max_sequence_length=length, window_overlap=overlap)

    def settings(self) -> dict[str, object]:
        """Return the name and the fields of the task, as plain values."""
        return {"name": self.name, **dataclasses.asdict(self)}


def convert_to_example(task: Task, given: object) -> object:
    """Return an example of a task to answer.

    Args:
        task: the task.
        given: a text, a tuple of two texts, a list of words, or an example, which is returned as it is.

    Raises:
        InputError: the value is none of these, or not what the task needs.
    """
    if isinstance(given, task.example_class):
        return given
    texts = (given,) if isinstance(given, str) else given
    is_of_texts = isinstance(texts, tuple | list) and all(isinstance(text, str) for text in texts)
    if is_of_texts and isinstance(texts, list):
        return task.make_example_from_words(texts)
    if not is_of_texts or len(texts) not in (1, 2):
        kind = task.example_class.__name__
        raise InputError(
            f"an example is {quote(given)}; expected a text, a tuple of two texts, a list of words, or a {kind}"
        )
    return task.make_example(*texts)


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise `InputError` unless the setting `name` is one of its choices."""
    if value not in choices:
        raise InputError(f"{name} is {quote(value)}; expected one of {', '.join(choices)}")


def encode_labels(given: Sequence[str], labels: Sequence[str]) -> np.ndarray:
    """Return the index of each given label in `labels`, `(N,)` int32.

    Raises:
        InputError: a label is not in `labels`.
    """
    ids = {name: number for number, name in enumerate(labels)}
    if (unknown := next((name for name in given if name not in ids), None)) is not None:
        raise InputError(
            f"the label {unknown!r} is not one of the task's, which are {quote_names(labels)}: correct one of them"
        )
    return np.array([ids[name] for name in given], np.int32)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis, computed in float64."""
    logits = np.asarray(logits, np.float64)
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)
