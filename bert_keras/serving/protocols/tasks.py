"""Our own endpoints: `/classify`, `/tag`, `/answer`, `/fill-mask` and `/embed`, text in, `Predictor`'s answers out.

`/embed` also accepts the requests of Text Embeddings Inference, see `text_embeddings_inference.py`.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import numpy as np
import pydantic

from bert_keras.pipelines.readers.words.tagged_sentences import split_words
from bert_keras.serving.http.endpoint import (
    Call,
    Endpoint,
    Reply,
    check_number_of_texts,
    format_plain_error,
    make_json_reply,
)
from bert_keras.serving.http.json_errors import ListOf
from bert_keras.serving.protocols.selection import select_version
from bert_keras.serving.worker.jobs import ANSWERS

STATUSES = (400, 401, 404, 408, 413, 422, 429, 500, 503, 504)
_TAG = "tasks"
_DEFAULT_TOPS = {"fill-mask": 5}
Top = Annotated[int, pydantic.Field(ge=1, le=10_000)]


class Body(pydantic.BaseModel):
    """Base class of the bodies of our endpoints; an unknown field is an error, because it is a misspelled one."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


class _Request(Body):
    model: str | None = pydantic.Field(None, description="name of the model; needed if several do this task")


class TextInput(Body):
    """A text, or a pair of texts."""

    text: str
    second_text: str | None = None

    def to_example(self) -> object:
        """Return what `Predictor` accepts."""
        return self.text if self.second_text is None else (self.text, self.second_text)


class QuestionInput(Body):
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


class SingleText(Body):
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


class Answers(pydantic.BaseModel):
    """The answers to examples, in their order."""

    answers: list[ClassAnswer | TagAnswer | SpanAnswer | FillMaskAnswer]


def make_task_endpoints() -> list[Endpoint]:
    """Return our own endpoints."""
    return [
        _make_endpoint(
            "classify",
            ClassifyOne | ClassifyMany,
            ClassAnswer,
            "class, classes or value of texts",
            {"text": "a fine film"},
        ),
        _make_endpoint(
            "tag",
            TagOne | TagMany,
            TagAnswer,
            "tags and entities of the words of texts",
            {"text": "Ann lives in Rome."},
        ),
        _make_endpoint(
            "answer",
            AnswerOne | AnswerMany,
            SpanAnswer,
            "answers to questions, found in a text",
            {"question": "Who wrote it?", "context": "It was written by Jane Austen."},
        ),
        _make_endpoint(
            "fill-mask",
            FillMaskOne | FillMaskMany,
            FillMaskAnswer,
            "most probable tokens for each [MASK]",
            {"text": "Paris is the [MASK] of France."},
        ),
    ]


def _make_endpoint(task: str, body: Any, answer: Any, summary: str, example: dict) -> Endpoint:
    return Endpoint(
        "POST",
        f"/{task}",
        _make_handler(task, pydantic.TypeAdapter(body)),
        summary,
        _TAG,
        format_plain_error,
        body=body,
        answer=answer | Answers,
        statuses=STATUSES,
        example=example,
    )


def _make_handler(task: str, adapter: pydantic.TypeAdapter) -> Callable[[Call], Awaitable[Reply]]:
    async def handle(call: Call) -> Reply:
        request = call.parse(adapter)
        version = select_version(call.repository, {task}, request.model)
        given = getattr(request, "examples", None)
        inputs = [one.to_example() for one in ([request] if given is None else given)]
        check_number_of_texts(len(inputs), call.settings.max_texts)
        if not inputs:
            return make_json_reply({"answers": []})
        top = getattr(request, "top", None) or _DEFAULT_TOPS.get(task, 1)
        result = await call.run(version, ANSWERS, inputs, top=top)
        answers = [_simplify(answer) for answer in result.value]
        if task == "tag":
            answers = [_add_words(text, answer) for text, answer in zip(inputs, answers, strict=True)]
        return make_json_reply(answers[0] if given is None else {"answers": answers})

    return handle


def _add_words(text: str, answer: dict) -> dict:
    """Add the words of a text with their character ranges to its answer, which has one tag for each of them."""
    if "words" in answer:  # a scheme without entities
        return answer
    words = [
        {"tag": tag, "text": text[start:end], "start": start, "end": end}
        for tag, (start, end) in zip(answer["tags"], split_words(text), strict=True)
    ]
    return {**answer, "words": words}


def _simplify(answer: dict) -> dict:
    """Return an answer without what only Python needs."""
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in answer.items()}
