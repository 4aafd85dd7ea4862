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

_REFERENCE = "#/components/schemas/{model}"

_FRAME = pathlib.Path(__file__).with_name("openapi.json")  # the words of the description that no endpoint has
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
    endpoints = []
    for file in sorted(path for path in _FOLDER.iterdir() if path.suffix in _TYPES):
        reply = Reply(file.read_bytes(), content_type=f"{_TYPES[file.suffix]}; charset=utf-8", headers=_HEADERS)
        path = _PAGES.get(file.name, f"/pages/{file.name}")
        endpoints.append(Endpoint("GET", path, functools.partial(_get_file, reply), file.name, PAGES, is_open=True))
    return endpoints


async def _get_file(reply: Reply, call: Call) -> Reply:
    return reply


def _describe_api(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI description of endpoints."""
    adapted = [(one, "validation", one.body) for one in endpoints if one.body is not None]
    adapted += [(one, "serialization", one.answer) for one in endpoints if one.answer is not None]
    inputs = [(endpoint, mode, pydantic.TypeAdapter(form)) for endpoint, mode, form in adapted]
    schemas, definitions = pydantic.TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)
    frame = orjson.loads(_FRAME.read_bytes())
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _describe_endpoint(
            endpoint, schemas, frame["statuses"]
        )
    description = frame["description"]
    description["info"]["version"], description["paths"] = __version__, paths
    description["components"]["schemas"] = definitions.get("$defs", {})
    return description


def _describe_endpoint(endpoint: Endpoint, schemas: dict, statuses: dict) -> dict[str, Any]:
    """Return an operation, in the words of OpenAPI."""
    binary = {BINARY: {"schema": {"type": "string", "format": "binary"}}} if endpoint.has_binary else {}
    answer = {"text/plain": {"schema": {"type": "string"}}}
    if endpoint.answer is not None:
        answer = {JSON: {"schema": schemas[endpoint, "serialization"]}, **binary}
    error = {JSON: {"schema": {"type": "object"}}}
    contents = {"200": answer} | {str(status): error for status in sorted(endpoint.statuses)}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "tags": [endpoint.protocol.tag],
        "operationId": f"{endpoint.method.lower()}{re.sub('[^a-z0-9]+', '_', endpoint.path)}",
        "responses": {
            status: {"description": statuses[status], "content": content} for status, content in contents.items()
        },
    }
    if names := re.findall(r"{(\w+)}", endpoint.path):
        schemas_of_names = {"version": {"type": "string", "pattern": "^[0-9]{1,18}$"}}
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": schemas_of_names.get(name, {"type": "string"})}
            for name in names
        ]
    if endpoint.body is not None:
        content = {JSON: {"schema": schemas[endpoint, "validation"], "example": endpoint.example}}
        operation["requestBody"] = {"required": True, "content": content | binary}
    if not endpoint.is_open:
        operation["security"] = [{}, {"key": []}]
    return operation
