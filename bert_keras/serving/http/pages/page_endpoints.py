"""Endpoints for the pages and the files that they load. They load nothing from other hosts."""

import functools
import pathlib

from bert_keras.serving.http.endpoint import Call, Endpoint, Reply, format_plain_error

_HERE = pathlib.Path(__file__).parent
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


def make_page_endpoints() -> list[Endpoint]:
    """Return the endpoints of the pages; they need no API key, because the pages ask for it."""
    paths = sorted(path for path in _HERE.iterdir() if path.suffix in _TYPES)
    return [_make_endpoint(path) for path in paths]


def _make_endpoint(path: pathlib.Path) -> Endpoint:
    reply = Reply(path.read_bytes(), content_type=f"{_TYPES[path.suffix]}; charset=utf-8", headers=_HEADERS)
    return Endpoint(
        "GET",
        _PAGES.get(path.name, f"/pages/{path.name}"),
        functools.partial(_get_file, reply),
        path.name,
        "pages",
        format_plain_error,
        is_open=True,
    )


async def _get_file(reply: Reply, call: Call) -> Reply:
    return reply
