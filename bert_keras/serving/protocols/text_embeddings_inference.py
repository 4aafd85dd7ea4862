"""The endpoints of Text Embeddings Inference (TEI), with its requests, answers, error bodies and status codes.

https://huggingface.github.io/text-embeddings-inference/
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import pydantic

from bert_keras import __version__
from bert_keras.embedding_settings import get_prompt
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import list_finetuned_heads
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.http.endpoint import Call, Protocol, Reply, check_number_of_texts, make_json_reply
from bert_keras.serving.http.request_bodies import Body, ListOf
from bert_keras.serving.protocols.model_calls import EMBEDDERS, SCORERS, embed, select_version
from bert_keras.serving.served_version import ServedVersion
from bert_keras.serving.worker.jobs import SIGNATURE, TOKENS

_STATUSES = {reason: reason.value for reason in Reason} | {Reason.INVALID: 422, Reason.UNSUPPORTED: 424}
_TYPES = dict.fromkeys((Reason.UNSUPPORTED, Reason.EXPIRED, Reason.FAILED), "Backend")
_TYPES |= {Reason.OVERLOADED: "Overloaded", Reason.UNAVAILABLE: "Unhealthy"}
_EMPTY = (400, "Empty")

Text = str | Annotated[ListOf[pydantic.NonNegativeInt], pydantic.Field(min_length=1)]  # a text, or token ids


class EmptyBatchError(ServingError):
    """A request has no texts."""

    def __init__(self, name: str):
        super().__init__(Reason.INVALID, f"`{name}` is empty; expected at least one text: add it")


class _Request(Body):
    model: str | None = pydantic.Field(None, description="name of the model; needed if several can answer")


class _Truncation(Body):
    truncate: bool | None = pydantic.Field(None, description="whether longer texts are cut; otherwise an error")
    truncation_direction: Literal["right", "Right"] | None = None


class EmbedRequest(_Request, _Truncation):
    """Texts to turn into vectors."""

    inputs: Text | ListOf[Text]
    normalize: bool = True
    prompt_name: str | None = None
    dimensions: pydantic.PositiveInt | None = None


class PredictRequest(_Request, _Truncation):
    """A text, a pair of texts as a list of two, or a list of such lists."""

    inputs: str | ListOf[str] | ListOf[ListOf[str]]
    raw_scores: bool = False


class RerankRequest(_Request, _Truncation):
    """A query and the texts to sort by how well they fit."""

    query: str
    texts: ListOf[str]
    raw_scores: bool = False
    return_text: bool = False


class SimilarityInputs(Body):
    """A text, and the texts to compare it with."""

    source_sentence: str
    sentences: ListOf[str]


class SimilarityParameters(_Truncation):
    """How the texts are turned into vectors."""

    prompt_name: str | None = None


class SimilarityRequest(_Request):
    """Texts to compare."""

    inputs: SimilarityInputs
    parameters: SimilarityParameters | None = None


class TokenizeRequest(_Request):
    """Texts to tokenize."""

    inputs: str | ListOf[str]
    add_special_tokens: bool = True
    prompt_name: str | None = None


class Score(pydantic.BaseModel):
    """A class and its score."""

    label: str
    score: float


class Rank(pydantic.BaseModel):
    """The place of a text in the request, and its score."""

    index: int
    score: float
    text: str | None = None


class TokenDescription(pydantic.BaseModel):
    """A token: its characters in the text, from `start` to `stop`, or its name if it is special."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


def format_error(error: ServingError) -> tuple[int, object]:
    """Return the status and the body of an error."""
    usual = _STATUSES[error.reason], _TYPES.get(error.reason, "Validation")
    status, kind = _EMPTY if isinstance(error, EmptyBatchError) else usual
    return status, {"error": str(error), "error_type": kind}


TEI = Protocol("Text Embeddings Inference", format_error, tuple(sorted({_EMPTY[0], *_STATUSES.values()})))


@TEI.post(
    "/embed", body=EmbedRequest, answer=list[list[float]], summary="vectors of texts", example={"inputs": "a fine film"}
)
async def _embed(call: Call) -> Reply:
    request = call.parse(EmbedRequest)
    inputs = request.inputs
    is_one = isinstance(inputs, str) or bool(inputs and isinstance(inputs[0], int))  # a list of numbers is one text
    inputs = [inputs] if is_one else inputs
    _check_number(call, "inputs", inputs)
    version = select_version(call.repository, EMBEDDERS, request.model)
    fields = {name: getattr(request, name) for name in ("truncate", "prompt_name", "dimensions", "normalize")}
    return make_json_reply(await embed(call, version, inputs, **fields))


@TEI.post(
    "/predict",
    body=PredictRequest,
    answer=list[Score] | list[list[Score]],
    summary="scores of the classes of texts",
    example={"inputs": "a fine film"},
)
async def _predict(call: Call) -> Reply:
    request = call.parse(PredictRequest)
    inputs = request.inputs
    is_one = isinstance(inputs, str) or not inputs or isinstance(inputs[0], str)
    texts = [_make_text(one) for one in ([inputs] if is_one else inputs)]
    _check_number(call, "inputs", texts)
    version = select_version(call.repository, SCORERS, request.model)
    scores = await _compute_scores(call, version, texts, request)
    labels = version.description["labels"] or ["LABEL_0"]
    ranked = [
        [{"label": labels[place], "score": row[place]} for place in np.argsort(-row, kind="stable")] for row in scores
    ]
    return make_json_reply(ranked[0] if is_one else ranked)


@TEI.post(
    "/rerank",
    body=RerankRequest,
    answer=list[Rank],
    summary="texts in the order in which they fit a query",
    example={"query": "What is a film?", "texts": ["A film is a movie.", "Rome is a city."]},
)
async def _rerank(call: Call) -> Reply:
    request = call.parse(RerankRequest)
    _check_number(call, "texts", request.texts)
    version = select_version(call.repository, SCORERS, request.model)
    if len(version.description["labels"]) > 1:
        raise ServingError(
            Reason.UNSUPPORTED,
            f"{version.name} has {len(version.description['labels'])} classes; expected one, a score: call /predict",
        )
    scores = await _compute_scores(call, version, [(request.query, text) for text in request.texts], request)
    order = np.argsort(-scores[:, 0], kind="stable").tolist()
    texts = [{"text": request.texts[place]} if request.return_text else {} for place in order]
    return make_json_reply(
        [{"index": place, "score": scores[place, 0], **text} for place, text in zip(order, texts, strict=True)]
    )


async def _compute_scores(
    call: Call, version: ServedVersion, texts: Sequence, request: PredictRequest | RerankRequest
) -> np.ndarray:
    """Return the scores `(B, C)`: logits if the request wants raw scores, otherwise probabilities."""
    scores = {}
    for is_single in (True, False):  # a job has texts or pairs; a request can have both
        places = [place for place, text in enumerate(texts) if isinstance(text, str) == is_single]
        if places:
            inputs = [texts[place] for place in places]
            result = await call.run(version, SIGNATURE, inputs, truncate=request.truncate or False)
            found = result.value["scores"]
            if not request.raw_scores:  # of a single class the sigmoid, as TEI
                found = result.value["probabilities"] if "probabilities" in result.value else 1 / (1 + np.exp(-found))
            scores |= zip(places, found, strict=True)
    return np.stack([scores[place] for place in range(len(texts))])


@TEI.post(
    "/similarity",
    body=SimilarityRequest,
    answer=list[float],
    summary="cosines of texts with a text",
    example={"inputs": {"source_sentence": "a fine film", "sentences": ["a good movie", "a city"]}},
)
async def _compare(call: Call) -> Reply:
    request = call.parse(SimilarityRequest)
    if not request.inputs.sentences:
        raise EmptyBatchError("inputs.sentences")
    texts = [request.inputs.source_sentence, *request.inputs.sentences]
    version = select_version(call.repository, EMBEDDERS, request.model)
    parameters = request.parameters or SimilarityParameters()
    vectors = await embed(call, version, texts, truncate=parameters.truncate, prompt_name=parameters.prompt_name)
    return make_json_reply(vectors[1:] @ vectors[0])


@TEI.post(
    "/tokenize",
    body=TokenizeRequest,
    answer=list[list[TokenDescription]],
    summary="tokens of texts",
    example={"inputs": "a fine film"},
)
async def _tokenize(call: Call) -> Reply:
    request = call.parse(TokenizeRequest)
    texts = [request.inputs] if isinstance(request.inputs, str) else request.inputs
    _check_number(call, "inputs", texts)
    version = select_version(call.repository, {head.name for head in list_finetuned_heads()}, request.model)
    if request.prompt_name is not None:
        prompt = get_prompt(version.description["prompts"], request.prompt_name)
        texts = [prompt + text for text in texts]
    result = await call.run(version, TOKENS, texts, add_special_tokens=request.add_special_tokens)
    call.model_name = None  # the model did not run
    names = ("id", "text", "special", "start", "stop")
    return make_json_reply([[dict(zip(names, token, strict=True)) for token in tokens] for tokens in result.value])


@TEI.get("/info", summary="the models and limits of the server")
async def _describe(call: Call) -> Reply:
    models = [_describe_version(version) for version in call.repository.list_versions()]
    limits = {
        "max_concurrent_requests": call.settings.max_requests,
        "max_client_batch_size": call.settings.max_texts,
        "auto_truncate": False,
        "version": __version__,
    }
    first = next((model for model in models if model["task"] in EMBEDDERS | SCORERS), {})  # TEI has one model
    return make_json_reply({**first, **limits, "models": models})


def _describe_version(version: ServedVersion) -> dict[str, object]:
    facts = version.description
    kind = facts["task"]
    names = facts["labels"] or ["LABEL_0"]
    details = {"id2label": {str(number): label for number, label in enumerate(names)}}
    details["label2id"] = {label: number for number, label in enumerate(names)}
    if kind in EMBEDDERS:
        kind, details = "embedding", {"pooling": facts["pooling"], "dimensions": facts["dimensions"]}
    elif kind in SCORERS:
        kind = "classifier" if len(names) > 1 else "reranker"
    return {
        "model_id": version.name,
        "model_sha": None,
        "version": version.number,
        "model_dtype": "int8" if facts["is_quantized"] else "float32",
        "model_type": {kind: details},
        "task": facts["task"],
        "input_names": facts["input_names"],
        "engine": facts["engine"],
        "max_input_length": facts["max_sequence_length"],
        "max_batch_tokens": facts["tokens_per_batch"],
        "tokenization_workers": facts["instances"],
        "prompts": facts["prompts"],
    }


def _make_text(given: str | list[str]) -> object:
    """Return what `Predictor` accepts: a text, or a pair."""
    if isinstance(given, str):
        return given
    if len(given) not in (1, 2):
        raise InputError(f"a list has {len(given)} texts; expected one, or two for a pair")
    return given[0] if len(given) == 1 else tuple(given)


def _check_number(call: Call, name: str, texts: Sequence) -> None:
    if not len(texts):
        raise EmptyBatchError(name)
    check_number_of_texts(len(texts), call.settings.max_texts)
