"""The OpenAPI description of all endpoints, and the page that shows it."""

import functools
import re
from collections.abc import Sequence
from typing import Any

import orjson
import pydantic

from bert_keras import __version__
from bert_keras.serving.http.endpoint import BINARY, JSON, Call, Endpoint, Reply, format_plain_error

_STATUSES = {
    200: "the answer",
    400: "the request is wrong; the body says what is valid",
    401: "the API key is missing or wrong",
    404: "there is no such model, version or label",
    408: "the body did not arrive in time",
    413: "the request is too large",
    422: "the request is wrong, or the model does another task",
    424: "the model does another task",
    429: "the server is overloaded; the header Retry-After says when to try again",
    500: "the server failed",
    503: "the model is not loaded",
    504: "the deadline passed",
}
_REFERENCE = "#/components/schemas/{model}"


def make_openapi_endpoint(endpoints: Sequence[Endpoint]) -> Endpoint:
    """Return the endpoint `/openapi.json`, which describes the others."""
    body = functools.cache(lambda: orjson.dumps(describe_api(endpoints)))

    async def get_description(call: Call) -> Reply:
        return Reply(body())

    return Endpoint(
        "GET", "/openapi.json", get_description, "this description", "operation", format_plain_error, answer=dict
    )


def describe_api(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI description of endpoints."""
    adapters = {}
    for endpoint in endpoints:
        for place, mode in (("body", "validation"), ("answer", "serialization")):
            if getattr(endpoint, place) is not None:
                adapters[endpoint, mode] = pydantic.TypeAdapter(getattr(endpoint, place))
    inputs = [(endpoint, mode, adapter) for (endpoint, mode), adapter in adapters.items()]
    schemas, definitions = pydantic.TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operation: dict[str, Any] = {
            "summary": endpoint.summary,
            "tags": [endpoint.tag],
            "operationId": f"{endpoint.method.lower()}{re.sub('[^a-z0-9]+', '_', endpoint.path)}",
            "responses": _describe_answers(endpoint, schemas),
        }
        if parameters := [_describe_parameter(name) for name in re.findall(r"{(\w+)}", endpoint.path)]:
            operation["parameters"] = parameters
        if endpoint.body is not None:
            content = {JSON: {"schema": schemas[endpoint, "validation"], "example": endpoint.example}}
            operation["requestBody"] = {"required": True, "content": content | _describe_binary(endpoint)}
        if not endpoint.is_open:
            operation["security"] = [{}, {"key": []}]
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "bert-keras serve",
            "version": __version__,
            "description": "Text in, labels, entities, answers and vectors out.",
        },
        "paths": paths,
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe_answers(endpoint: Endpoint, schemas: dict) -> dict[str, Any]:
    """Return the answers by status."""
    if endpoint.answer is None:
        content = {"text/plain": {"schema": {"type": "string"}}}
    else:
        content = {JSON: {"schema": schemas[endpoint, "serialization"]}, **_describe_binary(endpoint)}
    error = {JSON: {"schema": {"type": "object"}}}
    answers = {"200": {"description": _STATUSES[200], "content": content}}
    return answers | {str(one): {"description": _STATUSES[one], "content": error} for one in sorted(endpoint.statuses)}


def _describe_binary(endpoint: Endpoint) -> dict[str, Any]:
    return {BINARY: {"schema": {"type": "string", "format": "binary"}}} if endpoint.has_binary else {}


def _describe_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": "^[0-9]{1,18}$"} if name == "version" else {"type": "string"}
    return {"name": name, "in": "path", "required": True, "schema": schema}
