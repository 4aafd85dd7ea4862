"""OpenAI's `/v1/embeddings` and `/v1/models`.

https://platform.openai.com/docs/api-reference/embeddings
"""

import base64
from typing import Annotated, Literal

import pydantic

from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.http.endpoint import Call, Protocol, Reply, make_json_reply
from bert_keras.serving.http.request_bodies import Body, ListOf
from bert_keras.serving.protocols.model_calls import EMBEDDERS, embed, select_version

_CODES = {  # type, code
    Reason.UNAUTHORIZED: ("authentication_error", "invalid_api_key"),
    Reason.NOT_FOUND: ("invalid_request_error", "model_not_found"),
    Reason.OVERLOADED: ("rate_limit_error", "rate_limit_exceeded"),
    **dict.fromkeys((Reason.UNAVAILABLE, Reason.EXPIRED, Reason.FAILED), ("server_error", None)),
}

_Ids = Annotated[ListOf[pydantic.NonNegativeInt], pydantic.Field(min_length=1)]
_Texts = Annotated[ListOf[str], pydantic.Field(min_length=1)]
_ListsOfIds = Annotated[ListOf[_Ids], pydantic.Field(min_length=1)]


class EmbeddingsRequest(Body):
    """Texts, or token ids, to turn into vectors."""

    input: str | _Texts | _Ids | _ListsOfIds
    model: str
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: pydantic.PositiveInt | None = None
    user: str | None = None


class Embedding(pydantic.BaseModel):
    """A vector: numbers, or little-endian float32 in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(pydantic.BaseModel):
    """The number of tokens of the texts."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(pydantic.BaseModel):
    """The vectors of the texts, in their order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class ModelDescription(pydantic.BaseModel):
    """A model of this server."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(pydantic.BaseModel):
    """The models of this server."""

    object: Literal["list"]
    data: list[ModelDescription]


def format_error(error: ServingError) -> tuple[int, object]:
    """Return the status and the body of an error."""
    kind, code = _CODES.get(error.reason, ("invalid_request_error", None))
    status = 400 if error.reason is Reason.UNSUPPORTED else error.reason.value
    return status, {"error": {"message": str(error), "type": kind, "param": None, "code": code}}


OPENAI = Protocol("OpenAI", format_error, (400, 401, 404, 408, 413, 429, 500, 503, 504))


@OPENAI.post(
    "/v1/embeddings",
    body=EmbeddingsRequest,
    answer=EmbeddingsAnswer,
    summary="vectors of texts",
    example={"input": ["a fine film"], "model": "NAME"},
)
async def _embed(call: Call) -> Reply:
    request = call.parse(EmbeddingsRequest)
    version = select_version(call.repository, EMBEDDERS, request.model)
    given = request.input
    is_one = isinstance(given, str) or isinstance(given[0], int)
    # OpenAI's vectors have length 1
    values = await embed(call, version, [given] if is_one else given, truncate=True, dimensions=request.dimensions)
    if request.encoding_format == "base64":
        values = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in values]
    data = [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(values)]
    tokens = call.timings.num_tokens
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return make_json_reply({"object": "list", "data": data, "model": version.name, "usage": usage})


@OPENAI.get("/v1/models", summary="the models of the server", answer=ModelList, statuses=(401,))
async def _list_models(call: Call) -> Reply:
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "bert-keras"} for name in call.repository.names]
    return make_json_reply({"object": "list", "data": data})
