"""Requests that no client should send get a status 4xx with one sentence, and the server continues to answer."""

import contextlib
import gzip
import json
import re
import socket

import httpx
import pytest

from .test_faults import connect

POSTS = (
    "/classify",
    "/tag",
    "/answer",
    "/fill-mask",
    "/embed",
    "/predict",
    "/rerank",
    "/similarity",
    "/tokenize",
    "/v1/embeddings",
    "/v1/models/classifier:predict",
    "/v1/models/classifier:classify",
    "/v1/models/regression:regress",
    "/v2/models/classifier/infer",
)
BODY = b'{"text": "the cat"}'
NOT_JSON = {
    "empty": b"",
    "a form": b"text=a",
    "half of an object": b'{"text": "a"',
    "two objects": b'{"text": "a"} {"text": "b"}',
    "invalid UTF-8": b'{"text": "\xff\xfe"}',
    "UTF-16": '{"text": "a"}'.encode("utf-16"),
    "half of a surrogate pair": b'{"text": "\\ud83d", "inputs": "\\ud83d"}',
    "control characters": b'{"text": "\x00\x01"}',
    "nested lists": b"[" * 50_000 + b"]" * 50_000,
    "nested objects": b'{"inputs":' * 10_000 + b"1" + b"}" * 10_000,
    "zeros": bytes(100_000),
}
WRONG_JSON = {
    "a number": b"5",
    "a list": b"[]",
    "null": b"null",
    "no fields": b"{}",
    "huge numbers": b'{"text": 1e999, "inputs": ' + b"9" * 4000 + b"}",
    "NaN": b'{"text": NaN, "inputs": Infinity}',
    "many fields": json.dumps({f"field{n}": n for n in range(5000)}).encode(),
}


def find_sentence(answer):
    """Return the error of an answer in any protocol."""
    error = answer.json()["error"]
    return error["message"] if isinstance(error, dict) else error


def assert_refused(answer, *statuses):
    assert answer.status_code in (statuses or (400, 422)), answer.text
    assert answer.headers["content-type"] == "application/json"
    sentence = find_sentence(answer)
    assert 10 < len(sentence) < 400
    assert not re.search(r"[\n\0]|Traceback|pydantic|<class", sentence), sentence


@pytest.fixture(autouse=True)
def still_answers(server):
    """After each test the server answers with the worker processes that it had before."""
    workers = server.list_workers()
    yield
    assert server.post("/tag", {"text": "the cat"}).status_code == 200
    assert server.list_workers() == workers


@pytest.mark.parametrize("path", POSTS)
def test_bodies_that_are_not_requests(server, path):
    with httpx.Client(base_url=server.url, timeout=60, verify=False) as client:
        for kind, body in (NOT_JSON | WRONG_JSON).items():
            answer = client.post(path, content=body)
            assert_refused(answer)
            assert find_sentence(answer).startswith("the body is not JSON") == (kind in NOT_JSON), kind


@pytest.mark.parametrize("path", POSTS)
def test_large_bodies(server, path):
    text = json.dumps({"text": "a" * 10_000_000}).encode()
    assert_refused(server.request("POST", path, content=text), 413)

    def yield_chunks():  # without a Content-Length
        for start in range(0, len(text), 100_000):
            yield text[start : start + 100_000]

    try:
        answer = server.request("POST", path, content=yield_chunks())
    except (httpx.WriteError, httpx.RemoteProtocolError):  # the server closed the connection while it was sent
        return
    assert_refused(answer, 413)


TEXTS = ["\0", "\ud7ff\ufffe\uffff", "\U0010ffff" * 50, "a" * 50_000, "\u202e\u0300" * 500, "\n" * 1000, "[SEP][CLS]"]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_texts_with_any_characters_are_answered(server, text):
    assert server.post("/tag", {"text": text}).status_code == 200
    assert server.post("/fill-mask", {"text": f"[MASK]{text[:10]}"}).status_code == 200
    assert server.post("/embed", {"inputs": text, "truncate": True}).status_code == 200
    assert server.post("/answer", {"question": text, "context": text}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/a%00b",
        "/v1/models/%ff",
        "/v1/models/classifier%2Fversions",
        "/v1/models/classifier/versions/%D9%A1",
        "/v1/models/classifier/versions/-1",
        "/v1/models/classifier/versions/1e3",
        "/v1/models/classifier/labels/%20",
        "/v2/models/..%2F..%2Fetc/ready",
        "/v2/models/" + "a" * 5000,
        "/nothing/at/all",
        "//",
        "/%2e%2e/%2e%2e/etc/passwd",
    ],
)
def test_paths(server, path):
    answer = server.get(path)
    assert answer.status_code in (400, 404)
    assert isinstance(answer.json()["error"], str)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "x" * 1000, "", "a\tb"])
def test_content_type_is_ignored(server, content_type):
    """`curl -d` sends a form's type unless told otherwise, and TensorFlow Serving's documentation uses it so."""
    headers = {"content-type": content_type}
    answer = server.request("POST", "/tag", content=b'{"text": "the cat"}', headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("encoding", "body", "status", "message"),
    [
        ("gzip", BODY, 400, "the body is not complete gzip"),
        ("gzip", gzip.compress(BODY)[:-9], 400, "the body is not complete gzip"),
        ("gzip", b"", 400, "the body is not complete gzip"),
        ("br", BODY, 400, "content-encoding is 'br'; expected gzip, deflate, or no such header"),
        ("gzip", gzip.compress(bytes(50_000_000)), 413, "has more than 200,000 bytes"),  # 49 kB that become 50 MB
        ("gzip", gzip.compress(b"{}"), 400, "text is missing"),
    ],
    ids=["not compressed", "cut", "empty", "another encoding", "a bomb", "wrong content"],
)
def test_compressed_bodies(server, encoding, body, status, message):
    answer = server.request("POST", "/tag", content=body, headers={"content-encoding": encoding})
    assert_refused(answer, status)
    assert message in find_sentence(answer)


def test_wrong_methods(server):
    for path, method in (("/classify", "GET"), ("/v1/models/classifier:predict", "PUT"), ("/health", "POST")):
        answer = server.request(method, path)
        assert answer.status_code == 405
        assert answer.headers["allow"]
        assert f"cannot be called with {method}" in answer.json()["error"]


def send(server, data):
    """Send bytes and return what the server answers before it closes the connection."""
    with connect(server) as client:
        client.sendall(data)
        with contextlib.suppress(OSError):  # the server may have answered and closed already
            client.shutdown(socket.SHUT_WR)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := client.recv(1 << 16):
                received += chunk
        return received


@pytest.mark.parametrize(
    "data",
    [
        b"POST /tag HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n" + BODY,  # cut, then no request
        b"POST /tag HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n" + BODY,
        b"POST /tag HTTP/1.1\r\nHost: a\r\nContent-Length: abc\r\n\r\n" + BODY,
        b"POST /tag HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n" + BODY,
        b"POST /tag HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n" + BODY,
        b"POST /tag HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"POST /tag HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the begin of TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0" * 1000,
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_broken_http(server, data):
    received = send(server, data)
    assert received.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")) or not received, received[:200]


def test_content_length_longer_than_the_body(server):
    """The client closes its side before the announced end, so nobody waits for an answer."""
    received = send(server, b"POST /tag HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + BODY)
    assert received == b""


@pytest.mark.parametrize("value", ["0", "-1", "nan", "x", "1e999", "9" * 5000])
def test_wrong_timeouts_are_ignored(server, value):
    answer = server.post("/tag", {"text": "the cat"}, **{"x-request-timeout": value})
    assert answer.status_code == 200


def test_wrong_request_ids_come_back_shortened(server):
    headers = {b"x-request-id": b"\xff" + b"a" * 500}
    answer = server.request("POST", "/tag", json={"text": "the cat"}, headers=headers)
    assert answer.status_code == 200
    assert len(answer.headers["x-request-id"]) == 128
