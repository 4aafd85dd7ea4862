"""`SentenceEmbedding`: one vector per text, and the cosine similarity of pairs."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bert_keras.embedding_settings import check_pooling, check_prompts, get_prompt
from bert_keras.errors import InputError
from bert_keras.heads.classify.task import TextExample
from bert_keras.heads.embed import OBJECTIVES, EmbeddingObjective
from bert_keras.heads.head import import_part
from bert_keras.heads.signatures import Arrays, TensorSpec
from bert_keras.heads.task import LabelledSequences, Row, Task, check_choice
from bert_keras.metrics.regression import regression_scores
from bert_keras.pipelines.batches.encoding import EncodedSequences, encode

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer


@dataclasses.dataclass(frozen=True)
class SentenceEmbedding(Task):
    """Sentence vectors, trained on pairs (Reimers & Gurevych 2019) or on examples of other numbers of texts.

    Args:
        objective: "regression" trains the cosine of a pair to equal its score; "contrastive" trains each first text to
            match its own second text among those of the batch; or another one that is registered, see
            `EmbeddingObjective`.
        highest_score: the score of two texts with the same meaning; scores are divided by it.
        pooling: how the token vectors are pooled, see `BertEmbedder`.
        normalize: whether vectors have length 1.
        include_prompt: whether the tokens of the prompt are pooled too.
        prompts: texts to put before the input, keyed by name.
        default_prompt_name: the prompt used in training, in answers and in artifacts.
        prompt: a text to use instead of the default prompt; "": no prompt.

    Raises:
        InputError: a setting is out of range.
    """

    objective: str = "regression"
    highest_score: float = 1.0
    pooling: str | tuple[str, ...] = "mean"
    normalize: bool = True
    include_prompt: bool = True
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    default_prompt_name: str | None = None
    prompt: str | None = None

    name: ClassVar[str] = "embed"
    example_class: ClassVar[type] = TextExample
    makes_vectors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("objective", self.objective, tuple(OBJECTIVES))
        object.__setattr__(self, "pooling", check_pooling(self.pooling))
        object.__setattr__(self, "prompts", check_prompts(self.prompts, self.default_prompt_name))
        if self.window_overlap is not None:
            raise InputError("sentence vectors do not use windows; expected no window_overlap: leave it out")

    @property
    def main_score(self) -> str:
        """Spearman correlation with the scores of pairs."""
        return "spearman"

    @classmethod
    def name_fields(cls, settings: Mapping[str, object]) -> Sequence[str]:
        """Return the names of the texts, and of the score if the objective has scores."""
        objective = get_objective(settings)
        return (*objective.text_columns, "label") if objective.has_scores else objective.text_columns

    @property
    def num_texts(self) -> int:
        """The number of texts of an example."""
        return len(self._objective.text_columns)

    @property
    def fills_batches(self) -> bool:
        """False for "contrastive", which compares each pair with the others of its batch.

        The filling repeats the first pair, which would be compared with itself.
        """
        return not self._objective.compares_examples

    @property
    def _objective(self) -> EmbeddingObjective:
        return OBJECTIVES[self.objective]

    def head_arguments(self) -> dict:
        """Return the pooling and the prompts."""
        names = ("pooling", "normalize", "include_prompt", "prompts", "default_prompt_name")
        return {name: getattr(self, name) for name in names}

    @property
    def prompt_text(self) -> str:
        """The prompt before each text; "": none."""
        if self.prompt is not None:
            return self.prompt
        return "" if self.default_prompt_name is None else self.prompts[self.default_prompt_name]

    def with_prompt(self, name: str | None = None, text: str | None = None) -> "SentenceEmbedding":
        """Return the task with another prompt.

        Args:
            name: the name of a prompt of the model; "" means no prompt.
            text: a text to use as prompt, instead of a name.

        Raises:
            InputError: there is no prompt of that name, or both or neither of the arguments are given.
        """
        if (name is None) == (text is None):
            raise InputError("a prompt is either a name or a text; expected one of the two: leave the other out")
        prompt = get_prompt({"": "", **self.prompts}, name) if text is None else text
        return dataclasses.replace(self, prompt=prompt)

    def list_readings(self, texts: Sequence[str]) -> Iterator[str]:
        """Yield each text without a prompt and with each prompt."""
        prompts = dict.fromkeys(["", self.prompt_text, *self.prompts.values()])
        yield from (prompt + text for text in texts for prompt in prompts)

    def loss(self) -> dict:
        """Return the loss of the objective.

        Raises:
            InputError: the loss compares another number of texts than the objective has columns.
        """
        from bert_keras.architectures.losses import GlobalBatchMean

        loss = import_part(self._objective.loss)()
        if loss.num_columns != self.num_texts:
            raise InputError(
                f"the loss {loss.name} compares {loss.num_columns} texts, and the objective {self.objective!r} has "
                f"{self.num_texts} columns of texts; expected the same: set num_columns of the loss"
            )
        return {"embedding": GlobalBatchMean(loss, "embedding")}

    def make_example(self, text: str, second_text: str | None = None, line: int | None = None) -> TextExample:
        """Create an example from a text or a pair of texts."""
        return TextExample(text, second_text, None, line)

    def as_teacher(self) -> "SentenceEmbedding":
        """Return the task for pairs with scores, with which an embedder is scored, whatever it was trained on."""
        return dataclasses.replace(self, objective="regression")

    def fit_labels(self, examples: Sequence) -> "SentenceEmbedding":
        """Return the task with the highest score of labelled pairs."""
        scores = [example.label for example in examples if example.label is not None]
        return dataclasses.replace(self, highest_score=max(1.0, *scores)) if scores else self

    def encode(self, tokenizer: "BertTokenizer", examples: Sequence[TextExample]) -> EncodedSequences:
        """Tokenize each text, after the prompt, as one sequence; the texts of an example are consecutive."""
        prompt = self.prompt_text
        texts = [text for example in examples for text in example.texts]
        sequences = encode(tokenizer, [prompt + text for text in texts], max_sequence_length=self.max_sequence_length)
        if self.include_prompt or not prompt:
            return sequences
        lengths = np.full(len(sequences), count_prompt_tokens(tokenizer, prompt), np.int32)
        return dataclasses.replace(sequences, prompt_lengths=lengths)

    def count_inputs(self, example: TextExample) -> int:
        """Return the number of texts, which are encoded separately."""
        return len(example.texts)

    def describe_for_clients(self) -> dict[str, object]:
        """Return the length, the prompt and how vectors are compared."""
        settings = {"name": self.name, "max_sequence_length": self.max_sequence_length}
        return {**settings, "prompt": self.prompt_text, "similarity": "cosine"}

    def describe_signature(self, num_dimensions: int | None) -> list[TensorSpec]:
        """Return the vector of each text."""
        return [TensorSpec("embedding", "float32", (-1, num_dimensions or -1))]

    def describe_ids_signature(self, num_dimensions: int | None) -> list[TensorSpec]:
        """Return the vector of each sequence."""
        return [TensorSpec("sentence_embedding", "float32", (-1, num_dimensions or -1))]

    def compute_signature(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence
    ) -> Arrays:
        """Return the vector of each text."""
        return {"embedding": outputs["embedding"]}

    def add_labels(self, sequences: EncodedSequences, examples: Sequence[TextExample]) -> LabelledSequences:
        """Add the scores of examples, divided by the highest score."""
        num_texts, has_scores = self.num_texts, self._objective.has_scores
        if (num_others := sum(len(example.texts) != num_texts for example in examples)) > 0:
            raise InputError(
                f"{num_others} of {len(examples)} examples do not have {num_texts} texts; expected {num_texts} for the "
                f"objective {self.objective!r}: give each {num_texts} texts"
            )
        scores = np.array([example.label if has_scores else 0.0 for example in examples], np.float32)
        return LabelledSequences(sequences, np.repeat(scores / self.highest_score, num_texts), group_size=num_texts)

    def decode(
        self, sequences: EncodedSequences, outputs: Mapping[str, np.ndarray], examples: Sequence[TextExample]
    ) -> list[dict]:
        """Return the vector of each single text, and the cosine of the first two texts of each other example."""
        vectors = outputs["embedding"]
        sizes = [len(example.texts) for example in examples]
        answers = []
        for size, end in zip(sizes, np.cumsum(sizes), strict=True):
            texts = vectors[end - size : end]
            answers.append({"embedding": texts[0]} if size == 1 else {"cosine": _cosine(*texts[:2].astype(np.float64))})
        return answers

    def make_row(self, example: TextExample, answer: Mapping) -> Row:
        """Return the row of a pair in a table of answers."""
        expected, text = example.label / self.highest_score, f"{example.text} / {example.second_text}"
        return abs(answer["cosine"] - expected), [text, f"{expected:.3f}", f"{answer['cosine']:.3f}", ""]

    def to_json(self, answer: Mapping, num_best: int = 1) -> dict:
        """Convert an answer to JSON values."""
        return {name: np.asarray(value).tolist() if name == "embedding" else value for name, value in answer.items()}

    def score(self, answers: Sequence[Mapping], examples: Sequence[TextExample]) -> dict[str, float]:
        """Compute the correlations of cosines and scores."""
        truth = np.array([example.label for example in examples]) / self.highest_score
        return regression_scores(truth, np.array([answer["cosine"] for answer in answers]))


def get_objective(settings: Mapping[str, object]) -> EmbeddingObjective:
    """Return the objective in the settings of a task; if there is none, the default one.

    Raises:
        InputError: there is no objective of this name.
    """
    name = settings.get("objective", SentenceEmbedding.objective)
    check_choice("objective", name, tuple(OBJECTIVES))
    return OBJECTIVES[name]


def count_prompt_tokens(tokenizer: "BertTokenizer", prompt: str) -> int:
    """Return the number of tokens of a prompt, including [CLS], as in sentence-transformers."""
    return 1 + int(tokenizer.tokenize_to_arrays([prompt]).lengths[0])


def _cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second / max(np.linalg.norm(first) * np.linalg.norm(second), 1e-12))
