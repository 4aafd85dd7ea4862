"""Our own endpoints: `/classify`, `/tag`, `/answer` and `/fill-mask`, text in, `Predictor`'s answers out.

The record of each head names its endpoint. `/embed` is in `text_embeddings_inference.py`.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pydantic

from bert_keras.heads.known_heads import HEADS
from bert_keras.pipelines.readers.words.tagged_sentences import split_words
from bert_keras.serving.http.endpoint import Call, Protocol, Reply, check_number_of_texts, make_json_reply
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
        """Return what `Predictor` accepts: a text, or a pair."""
        return self.text if self.second_text is None else (self.text, self.second_text)


class QuestionInput(_Body):
    """A question and the text that contains its answer."""

    question: str
    context: str

    def to_example(self) -> object:
        """Return what `Predictor` accepts: a pair."""
        return self.question, self.context


class SingleText(_Body):
    """A text."""

    text: str

    def to_example(self) -> object:
        """Return what `Predictor` accepts: a text."""
        return self.text


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

    async def handle(self, task: str, call: Call) -> Reply:
        """Answer a call of the endpoint with the model of a task."""
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


def make_task_protocol() -> Protocol:
    """Return the protocol with the endpoints of all heads."""
    protocol = Protocol("tasks")
    for head in HEADS:
        if head.task is not None and head.endpoint is not None:
            own: TaskEndpoint = head.load("endpoint")
            fields = {"body": own.body, "summary": own.summary, "example": own.example}
            handler = functools.partial(own.handle, head.name)
            protocol.post(f"/{head.name}", answer=own.answer | Answers, **fields)(handler)
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


def _make_bodies(name: str, form: type[_Body], one: str, many: str, top: str | None = None) -> Any:
    """Return the type of bodies: an example of a form, described by `one`, or many, with the description of `top`."""
    fields = {} if top is None else {"top": (Top | None, pydantic.Field(None, description=top))}
    single = pydantic.create_model(f"{name}One", __base__=(form, _Request), __doc__=one, **fields)
    fields = {"examples": (ListOf[form], ...), **fields}
    return single | pydantic.create_model(f"{name}Many", __base__=_Request, __doc__=many, **fields)


_CLASSIFY = _make_bodies(
    "Classify",
    TextInput,
    "A text or a pair of texts to classify.",
    "Texts or pairs of texts to classify.",
    "number of best classes to list",
)
_TAG = _make_bodies("Tag", SingleText, "A text to tag.", "Texts to tag.")
_ANSWER = _make_bodies(
    "Answer",
    QuestionInput,
    "A question and the text that contains its answer.",
    "Questions, each with the text that contains its answer.",
    "number of best answers to list",
)
_FILL_MASK = _make_bodies(
    "FillMask",
    SingleText,
    "A text with [MASK] in it.",
    "Texts with [MASK] in them.",
    "number of tokens per mask, at most 5; all without it",
)
_FILM, _ROME = {"text": "a fine film"}, {"text": "Ann lives in Rome."}
_QUESTION = {"question": "Who wrote it?", "context": "It was written by Jane Austen."}
_MASKED = {"text": "Paris is the [MASK] of France."}
TEXTS = TaskEndpoint(_CLASSIFY, AnyAnswer, "answers to texts or pairs of texts", _FILM)
CLASSES = TaskEndpoint(_CLASSIFY, ClassAnswer, "class, classes or value of texts", _FILM)
TAGS = TaskEndpoint(_TAG, TagAnswer, "tags and entities of the words of texts", _ROME, finish=_add_words)
SPANS = TaskEndpoint(_ANSWER, SpanAnswer, "answers to questions, found in a text", _QUESTION)
FILLINGS = TaskEndpoint(_FILL_MASK, FillMaskAnswer, "most probable tokens for each [MASK]", _MASKED, num_best=5)
