"""Our own endpoints: `/classify`, `/tag`, `/answer` and `/fill-mask`, text in, `Predictor`'s answers out.

The record of each head names its endpoint. `/embed` is in `text_embeddings_inference.py`.
"""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pydantic

from bert_keras.heads.known_heads import HEADS
from bert_keras.pipelines.readers.words.tagged_sentences import split_words
from bert_keras.serving.http.endpoint import Call, Handler, Protocol, Reply, check_number_of_texts, make_json_reply
from bert_keras.serving.http.request_bodies import Body, ListOf
from bert_keras.serving.protocols.model_calls import select_version
from bert_keras.serving.worker.jobs import ANSWERS

Top = Annotated[int, pydantic.Field(ge=1, le=10_000)]


class _Body(Body):
    """Base class of the bodies of our endpoints; an unknown field is an error, because it is a misspelled one."""

    model_config = pydantic.ConfigDict(extra="forbid")


class _Request(_Body):
    model: str | None = pydantic.Field(None, description="name of the model; needed if several do this task")


class TextInput(_Body):
    """A text, or a pair of texts."""

    text: str
    second_text: str | None = None

    def to_example(self) -> object:
        """Return what `Predictor` accepts."""
        return self.text if self.second_text is None else (self.text, self.second_text)


class QuestionInput(_Body):
    """A question and the text that contains its answer."""

    question: str
    context: str

    def to_example(self) -> object:
        """Return what `Predictor` accepts."""
        return self.question, self.context


class ClassifyOne(TextInput, _Request):
    """A text or a pair of texts to classify."""

    top: Top | None = pydantic.Field(None, description="number of best classes to list")


class ClassifyMany(_Request):
    """Texts or pairs of texts to classify."""

    examples: ListOf[TextInput]
    top: Top | None = pydantic.Field(None, description="number of best classes to list")


class SingleText(_Body):
    """A text."""

    text: str

    def to_example(self) -> object:
        """Return what `Predictor` accepts."""
        return self.text


class TagOne(SingleText, _Request):
    """A text to tag."""


class TagMany(_Request):
    """Texts to tag."""

    examples: ListOf[SingleText]


class AnswerOne(QuestionInput, _Request):
    """A question and the text that contains its answer."""

    top: Top | None = pydantic.Field(None, description="number of best answers to list")


class AnswerMany(_Request):
    """Questions, each with the text that contains its answer."""

    examples: ListOf[QuestionInput]
    top: Top | None = pydantic.Field(None, description="number of best answers to list")


class ClassAnswer(pydantic.BaseModel):
    """The class, the classes or the value of a text."""

    label: str | None = None
    probability: float | None = None
    labels: list[str] | None = None
    value: float | None = None
    best: list[dict[str, Any]] | None = None


class Span(pydantic.BaseModel):
    """An entity or a word, with its range of characters (Unicode code points)."""

    label: str
    text: str
    start: int
    end: int
    probability: float


class Word(pydantic.BaseModel):
    """A word and its tag."""

    tag: str
    text: str
    start: int
    end: int


class TagAnswer(pydantic.BaseModel):
    """The tags of the words of a text, and its entities."""

    tags: list[str]
    entities: list[Span] | None = None
    words: list[Span | Word] | None = None


class SpanAnswer(pydantic.BaseModel):
    """The answer to a question, with its range of characters in the context; "" and null for no answer."""

    answer: str
    score: float
    start: int | None
    end: int | None
    probability: float | None
    null_score: float
    best: list[dict[str, Any]] | None = None


class FillMaskOne(SingleText, _Request):
    """A text with [MASK] in it."""

    top: Top | None = pydantic.Field(None, description="number of tokens per mask, at most 5; all without it")


class FillMaskMany(_Request):
    """Texts with [MASK] in them."""

    examples: ListOf[SingleText]
    top: Top | None = pydantic.Field(None, description="number of tokens per mask, at most 5; all without it")


class Filling(pydantic.BaseModel):
    """A token for a [MASK], and the text with it."""

    token: str
    token_id: int
    probability: float
    text: str


class FillMaskAnswer(pydantic.BaseModel):
    """The most probable tokens for each [MASK]."""

    masks: list[list[Filling]]


class AnyAnswer(pydantic.BaseModel):
    """The answer of a task to a text, as `Predictor` returns it."""

    model_config = pydantic.ConfigDict(extra="allow")


class Answers(pydantic.BaseModel):
    """The answers to examples, in their order."""

    answers: list[ClassAnswer | TagAnswer | SpanAnswer | FillMaskAnswer]


@dataclasses.dataclass(frozen=True)
class TaskEndpoint:
    """The endpoint of a task; its path is the name of the task.

    Attributes:
        body: the pydantic type of the JSON body: one example, or a form with the field `examples`. Examples have a
            method `to_example`, which returns what `Predictor` accepts.
        answer: the pydantic model of an answer.
        summary: one line for the page of the API.
        example: a body, for the page.
        num_best: number of best answers without the field `top`.
        finish: completes the answer to an example.
    """

    body: Any
    answer: Any
    summary: str
    example: dict[str, str]
    num_best: int = 1
    finish: Callable[[Any, dict], dict] = lambda given, answer: answer

    def make_handler(self, task: str) -> Handler:
        """Return the function that answers calls of the endpoint."""

        async def handle(call: Call) -> Reply:
            request = call.parse(self.body)
            version = select_version(call.repository, {task}, request.model)
            given = getattr(request, "examples", None)
            inputs = [one.to_example() for one in ([request] if given is None else given)]
            check_number_of_texts(len(inputs), call.settings.max_texts)
            if not inputs:
                return make_json_reply({"answers": []})
            result = await call.run(version, ANSWERS, inputs, top=getattr(request, "top", None) or self.num_best)
            pairs = zip(inputs, map(_simplify, result.value), strict=True)
            answers = [self.finish(one, answer) for one, answer in pairs]
            return make_json_reply(answers[0] if given is None else {"answers": answers})

        return handle


def make_task_protocol() -> Protocol:
    """Return the protocol with the endpoints of all heads."""
    protocol = Protocol("tasks")
    for head in HEADS:
        if head.task is not None and head.endpoint is not None:
            own: TaskEndpoint = head.load("endpoint")
            fields = {"body": own.body, "summary": own.summary, "example": own.example}
            protocol.post(f"/{head.name}", answer=own.answer | Answers, **fields)(own.make_handler(head.name))
    return protocol


def _add_words(text: str, answer: dict) -> dict:
    """Add the words of a text with their character ranges to its answer, which has one tag for each of them."""
    if "words" in answer:  # a scheme without entities
        return answer
    words = [
        dict(zip(Word.model_fields, (tag, text[start:end], start, end), strict=True))
        for tag, (start, end) in zip(answer["tags"], split_words(text), strict=True)
    ]
    return {**answer, "words": words}


def _simplify(answer: dict) -> dict:
    """Return an answer without what only Python needs."""
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in answer.items()}


TEXTS = TaskEndpoint(
    ClassifyOne | ClassifyMany, AnyAnswer, "answers to texts or pairs of texts", {"text": "a fine film"}
)
CLASSES = TaskEndpoint(
    ClassifyOne | ClassifyMany, ClassAnswer, "class, classes or value of texts", {"text": "a fine film"}
)
TAGS = TaskEndpoint(
    TagOne | TagMany,
    TagAnswer,
    "tags and entities of the words of texts",
    {"text": "Ann lives in Rome."},
    finish=_add_words,
)
SPANS = TaskEndpoint(
    AnswerOne | AnswerMany,
    SpanAnswer,
    "answers to questions, found in a text",
    {"question": "Who wrote it?", "context": "It was written by Jane Austen."},
)
FILLINGS = TaskEndpoint(
    FillMaskOne | FillMaskMany,
    FillMaskAnswer,
    "most probable tokens for each [MASK]",
    {"text": "Paris is the [MASK] of France."},
    num_best=5,
)
