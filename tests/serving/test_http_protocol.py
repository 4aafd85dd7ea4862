"""`http_protocol.py`: what a connection receives, in particular from a full server; and how processes share cores."""

import contextlib
import json
import os
import socket
import struct
import time

import pytest

from .running_server import RunningServer
from .test_faults import ONE, connect, encode_request, read_metric
from .test_versions import TEXT, wait_until

REQUEST = {"text": TEXT}
TIMEOUT = 2


@pytest.fixture(scope="module")
def server(artifacts):
    """A server that answers one request at a time; tests leave it as it is."""
    options = (*ONE, "--max-requests", "1", "--timeout", str(TIMEOUT))
    with RunningServer({"model": artifacts["classifier"]}, *options) as running:
        yield running


@contextlib.contextmanager
def fill(server):
    """Fill the server with an unfinished request."""
    with connect(server) as client:
        client.sendall(encode_request(REQUEST, announced=1000))
        wait_until(lambda: read_metric(server, "bert_keras_requests_in_progress") == 1, "the unfinished request")
        yield
    wait_until(lambda: read_metric(server, "bert_keras_requests_in_progress") == 0, "its end")


def read_answer(reader):
    """Return the status, the headers and the JSON body of the next answer; None at the end of the connection."""
    status = reader.readline()
    if not status:
        return None
    headers = dict(line.decode().strip().split(": ", 1) for line in iter(reader.readline, b"\r\n"))
    return int(status.split()[1]), headers, json.loads(reader.read(int(headers["content-length"])))


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="the system does not count packets")
def test_head_and_body_of_an_answer_are_one_packet(server):
    with connect(server) as client, client.makefile("rb") as reader:
        client.sendall(encode_request(REQUEST))
        assert read_answer(reader)[2]["label"]
        info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
        assert struct.unpack_from("I", info, 152) == (1,), "tcpi_data_segs_in of Linux"


def test_a_refused_client_can_ask_again_on_the_same_connection(server):
    with connect(server) as client, client.makefile("rb") as reader:
        with fill(server):
            client.sendall(encode_request(REQUEST))
            status, headers, body = read_answer(reader)
            assert (status, headers["retry-after"]) == (429, "1")
            assert "the server has 1 requests to answer" in body["error"]
            client.sendall(encode_request(REQUEST) * 3)
            assert [read_answer(reader)[0] for _ in range(3)] == [429] * 3
        client.sendall(encode_request(REQUEST))
        assert read_answer(reader)[0] == 200


def test_refusal_follows_the_whole_request(server):
    request = encode_request(REQUEST)
    with fill(server), connect(server) as client:
        for byte in request[:-1]:
            client.sendall(bytes([byte]))
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(30)
        client.sendall(request[-1:])
        assert client.recv(10_000).startswith(b"HTTP/1.1 429 Too Many Requests\r\n")


def test_refused_request_that_never_ends_loses_its_connection(server):
    with fill(server), connect(server) as client:
        client.sendall(encode_request(REQUEST, announced=1000))
        assert client.recv(10_000) == b""


def test_client_that_waits_for_permission_to_send_its_body_is_refused_at_once(server):
    head, _ = encode_request(REQUEST).replace(b"Host: a", b"Host: a\r\nExpect: 100-continue").split(b"\r\n\r\n")
    with fill(server), connect(server) as client, client.makefile("rb") as reader:
        client.sendall(head + b"\r\n\r\n")
        assert read_answer(reader)[0] == 429


def test_head_without_an_end_is_limited_in_size_and_time(server):
    with connect(server) as client, client.makefile("rb") as reader:
        client.sendall(b"POST /classify HTTP/1.1\r\nX-Long: ")
        time.sleep(0.1)
        client.sendall(b"a" * 70_000)
        status, headers, body = read_answer(reader)
        assert (status, headers["connection"]) == (431, "close")
        assert body == {"error": "the headers have more than 65,536 bytes; send fewer"}
    with connect(server) as client:
        client.sendall(b"POST /classify HTTP/1.1\r\nX-Slow: ")
        assert client.recv(1) == b""
    assert server.post("/classify", REQUEST).status_code == 200


def test_refusal_closes_the_connection_if_the_client_wants_it(server):
    request = encode_request(REQUEST).replace(b"Host: a", b"Host: a\r\nConnection: close")
    with fill(server), connect(server) as client, client.makefile("rb") as reader:
        client.sendall(request)
        assert read_answer(reader)[1]["connection"] == "close"
        assert read_answer(reader) is None


def test_refusals_have_the_form_of_each_protocol_and_are_counted(server):
    before = read_metric(server, 'bert_keras_requests_total{endpoint="refused",status="429"}')
    with fill(server):
        openai = server.post("/v1/embeddings", {"input": TEXT, "model": "model"})
        tei = server.post("/embed", {"inputs": TEXT})
        unknown = server.post("/no/such/path", {})
        assert server.get("/health/live").status_code == 200
    assert [answer.status_code for answer in (openai, tei, unknown)] == [429] * 3
    assert openai.json()["error"]["type"] == "rate_limit_error"
    assert tei.json()["error_type"] == "Overloaded"
    assert unknown.json()["error"].startswith("the server has 1 requests to answer")
    assert read_metric(server, 'bert_keras_requests_total{endpoint="refused",status="429"}') == before + 3


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="the system has no policy for batches")
def test_the_server_does_not_interrupt_its_workers(server):
    policies = {os.sched_getscheduler(worker) for worker in server.list_workers()}
    assert (os.sched_getscheduler(server.process.pid), policies) == (os.SCHED_BATCH, {os.SCHED_OTHER})
