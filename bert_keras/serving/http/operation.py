"""Endpoints for operators and people: health, metrics, the OpenAPI description, and the pages.

The pages load nothing from other hosts.
"""

import functools
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import orjson
import pydantic

from bert_keras import __version__
from bert_keras.serving.http.endpoint import BINARY, JSON, Call, Endpoint, Protocol, Reply, make_json_reply

OPERATION, PAGES = Protocol("operation"), Protocol("pages")

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

_FOLDER = pathlib.Path(__file__).with_name("pages")
_PAGES = {"try.html": "/", "docs.html": "/docs"}  # the paths of the other files are /pages/NAME
_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),  # the files change with the version of the server
)


@OPERATION.get("/health/live", summary="whether the server runs", is_open=True)
async def _get_live(call: Call) -> Reply:
    return make_json_reply({"status": "live"})


@OPERATION.get("/health", summary="the same, as Text Embeddings Inference names it", statuses=(503,), is_open=True)
@OPERATION.get("/health/ready", summary="whether every model answers", statuses=(503,), is_open=True)
async def _get_ready(call: Call) -> Reply:
    if call.server.is_ready:
        return make_json_reply({"status": "ready"})
    return make_json_reply({"status": "draining" if call.server.is_draining else "loading"}, 503)


@OPERATION.get("/metrics", summary="metrics in Prometheus' text format", answer=None, is_open=True)
async def _get_metrics(call: Call) -> Reply:
    return Reply(call.server.metrics.format(), content_type="text/plain; version=0.0.4; charset=utf-8")


def make_openapi_endpoint(endpoints: Sequence[Endpoint]) -> Endpoint:
    """Return the endpoint `/openapi.json`, which describes the others."""
    describe = functools.cache(lambda: orjson.dumps(_describe_api(endpoints)))

    async def get_description(call: Call) -> Reply:
        return Reply(describe())

    return Endpoint("GET", "/openapi.json", get_description, "this description", OPERATION)


def make_page_endpoints() -> list[Endpoint]:
    """Return the endpoints of the pages and their files; they need no API key, because the pages ask for it."""
    return [_make_page_endpoint(path) for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES]


def _make_page_endpoint(file: pathlib.Path) -> Endpoint:
    reply = Reply(file.read_bytes(), content_type=f"{_TYPES[file.suffix]}; charset=utf-8", headers=_HEADERS)

    async def get_file(call: Call) -> Reply:
        return reply

    path = _PAGES.get(file.name, f"/pages/{file.name}")
    return Endpoint("GET", path, get_file, file.name, PAGES, is_open=True)


def _describe_api(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI description of endpoints."""
    adapted = [(one, "validation", one.body) for one in endpoints if one.body is not None]
    adapted += [(one, "serialization", one.answer) for one in endpoints if one.answer is not None]
    inputs = [(endpoint, mode, pydantic.TypeAdapter(form)) for endpoint, mode, form in adapted]
    schemas, definitions = pydantic.TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _describe_endpoint(endpoint, schemas)
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


def _describe_endpoint(endpoint: Endpoint, schemas: dict) -> dict[str, Any]:
    """Return an operation, in the words of OpenAPI."""
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "tags": [endpoint.protocol.tag],
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
    return operation


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
