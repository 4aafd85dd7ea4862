"""The load generator counts every request and every latency from its arrival; a tiny server misbehaves on purpose."""

import asyncio
import contextlib
import http.client
import io
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from benchmarks import serving_load
from benchmarks.http_connection import AnswerParser, InvalidAnswerError
from benchmarks.http_load import LoadSettings, make_arrivals, run_load
from benchmarks.load_result import LoadResult
from benchmarks.process_usage import ProcessUsage, list_family, read_processes

STALL_SECONDS = 1.0
NUM_BEFORE_STALL = 50


class Server:
    """An HTTP server in a thread that does what the body of a request says; it echoes other bodies.

    - "refuse": status 503
    - "drop": close the connection without an answer
    - "hang": no answer
    - "chunks": an answer in chunks
    - "last": an answer with "Connection: close"

    Args:
        stall_at: number of the request before which the server pauses for `STALL_SECONDS`.
        end_at: number of the request at which the server ends.
    """

    def __init__(self, stall_at: int = -1, end_at: int = -1):
        self.stall_at, self.end_at, self.num_requests = stall_at, end_at, 0
        self.loop = asyncio.new_event_loop()
        self.transports: set[asyncio.Transport] = set()

    def __enter__(self) -> "Server":
        self.listener = self.loop.run_until_complete(self.loop.create_server(lambda: Echo(self), "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.sockets[0].getsockname()[1]}/predict"
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.loop.call_soon_threadsafe(self.end)
        self.loop.call_soon_threadsafe(self.loop.call_later, 0.05, self.loop.stop)  # after the transports are closed
        self.thread.join()
        self.loop.close()

    def end(self) -> None:
        """Close the listener and all connections."""
        self.listener.close()
        for transport in tuple(self.transports):
            transport.abort()

    def answer(self, transport: asyncio.Transport, body: bytes) -> None:
        """Answer a request, or do not."""
        self.num_requests += 1
        if self.num_requests == self.stall_at:
            time.sleep(STALL_SECONDS)  # blocks the event loop, and so all connections
        if self.num_requests == self.end_at:
            self.end()
        elif body == b"drop":
            transport.close()
        elif body == b"chunks":
            transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nchunks\r\n0\r\n\r\n")
        elif body != b"hang":
            status = b"503 Service Unavailable" if body == b"refuse" else b"200 OK"
            more = b"Connection: close\r\n" if body == b"last" else b""
            transport.write(b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, more, len(body), body))


class Echo(asyncio.Protocol):
    """A connection of the server."""

    def __init__(self, server: Server):
        self.server, self.data = server, b""

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.server.transports.add(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.server.transports.discard(self.transport)

    def data_received(self, data: bytes) -> None:
        head, separator, body = (self.data + data).partition(b"\r\n\r\n")
        self.data += data
        if separator and len(body) == int(head.partition(b"Content-Length: ")[2]):
            self.data = b""
            self.server.answer(self.transport, body)


@contextlib.contextmanager
def load_on_server(server: Server, bodies=(b"a",), **settings):
    """Send a load to a new server, and return the result and the server."""
    with server:
        yield run_load(LoadSettings(server.url, bodies, **settings))


def count_slow(result: LoadResult, seconds: float) -> int:
    """Count the requests that took longer than some seconds."""
    return sum(latency > seconds for latency in result.latencies)


def test_an_open_loop_counts_a_stall_for_every_request_that_arrives_during_it():
    load = {"rate": 100, "duration_seconds": 2, "num_connections": 4}
    with load_on_server(Server(stall_at=NUM_BEFORE_STALL), **load) as result:
        assert result.statuses == {200: 200}
    # 100 requests arrive during the stall; their latencies fall from 1 s to 0, so 80 of them take over 0.2 s
    assert count_slow(result, 0.2) >= 60
    assert result.num_waited >= 50
    assert result.percentile(99) > 0.8 * STALL_SECONDS
    timeline = result.make_timeline()
    assert [line["requests"] for line in timeline[:2]] == [100, 100]
    assert max(line["p99_ms"] for line in timeline) > 800


def test_a_closed_loop_omits_the_requests_that_a_stall_holds_back():
    with load_on_server(Server(stall_at=NUM_BEFORE_STALL), num_clients=4, num_requests=1000) as result:
        assert 1 <= count_slow(result, 0.8 * STALL_SECONDS) <= 4


@pytest.mark.parametrize("loop", [{"rate": 2000}, {"rate": 2000, "arrivals": "poisson"}, {"num_clients": 3}])
def test_as_many_requests_are_sent_as_asked_for(loop):
    with load_on_server(server := Server(), num_requests=123, **loop) as result:
        assert server.num_requests == len(result.outcomes) == len(result.delays) == 123
    assert result.statuses == {200: 123}
    assert result.errors == {}
    assert 0 < max(result.due) <= result.seconds


def test_requests_of_the_warm_up_are_sent_and_not_counted():
    with load_on_server(server := Server(), rate=200, warmup_seconds=0.5, num_requests=20) as result:
        assert server.num_requests == 120
    assert len(result.outcomes) == 20
    assert min(result.due) == 0


@pytest.mark.parametrize("loop", [{"rate": 400, "num_connections": 3}, {"num_clients": 3}])
def test_answers_are_counted_by_status_and_dropped_connections_as_errors(loop):
    bodies = (b"a", b"refuse", b"drop", b"chunks", b"last")
    check = {"check_answer": lambda index, body: body == bodies[index]}
    with load_on_server(server := Server(), bodies, num_requests=50, **check, **loop) as result:
        assert server.num_requests == 50
    assert result.statuses == {200: 30, 503: 10}
    assert result.errors == {"closed": 10}
    summary = result.summarize()
    assert summary["requests_per_second"] == pytest.approx(30 / result.seconds)


def test_a_request_without_an_answer_is_a_timeout_also_if_it_was_never_sent():
    load = {"rate": 100, "num_requests": 6, "num_connections": 1, "timeout_seconds": 0.3}
    with load_on_server(server := Server(), [b"hang"], **load) as result:
        assert result.errors == {"timeout": 6}
        assert server.num_requests < 6
    assert result.num_waited == 5
    assert np.isnan(result.percentile(50))
    assert result.summarize()["latency_ms"]["p50"] is None


def test_a_server_that_ends_refuses_the_requests_after_it():
    with load_on_server(Server(end_at=10), rate=200, num_requests=60, num_connections=2) as result:
        pass
    assert result.statuses == {200: 9}
    assert result.errors["refused"] >= 40
    assert sum(result.errors.values()) == 51


def test_wrong_answers_are_errors():
    load = {"rate": 500, "num_requests": 10, "check_answer": lambda index, body: index == 1}
    with load_on_server(Server(), [b"a", b"b"], **load) as result:
        assert result.statuses == {200: 5}
        assert result.errors == {"wrong answer": 5}


def test_an_exception_ends_the_load():
    def check(index, body):
        raise KeyError(body)

    with Server() as server, pytest.raises(KeyError, match="aa"):
        run_load(LoadSettings(server.url, [b"aa"], rate=100, num_requests=1000, check_answer=check))


def test_a_server_that_is_not_there_is_reported():
    with Server() as server:
        pass
    with pytest.raises(OSError, match=r"refused|failed"):
        run_load(LoadSettings(server.url, [b"a"], num_clients=2, num_requests=1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_requests": 1}, "give one of them"),
        ({"rate": 1, "num_clients": 1, "num_requests": 1}, "give one of them"),
        ({"rate": 1}, "has no end"),
        ({"rate": 0, "num_requests": 1}, "rate is 0, but must be positive"),
        ({"rate": 1, "num_requests": 1, "arrivals": "uniform"}, "must be one of constant, poisson"),
        ({"rate": 1, "num_requests": 1, "bodies": []}, "0 bodies"),
        ({"rate": 1, "num_requests": 1, "url": "https://localhost"}, "http:// URL"),
    ],
)
def test_invalid_settings_are_reported(settings, message):
    with pytest.raises(ValueError, match=message):
        LoadSettings(**{"url": "http://localhost", "bodies": [b"a"], **settings})


def test_arrivals_have_the_rate_that_was_asked_for():
    settings = {"url": "http://localhost", "bodies": [b"a"], "rate": 1000, "duration_seconds": 10, "warmup_seconds": 1}
    constant = np.array(list(make_arrivals(LoadSettings(**settings))))
    np.testing.assert_allclose(constant, np.arange(-1000, 10000) / 1000, atol=1e-9)
    poisson = [np.array(list(make_arrivals(LoadSettings(**settings, arrivals="poisson")))) for _ in range(2)]
    np.testing.assert_array_equal(*poisson)  # one seed
    counts = np.bincount(poisson[0][poisson[0] >= 0].astype(int))
    assert abs(counts.sum() - 10000) < 500  # 5 standard deviations
    gaps = np.diff(poisson[0])
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.1)  # of an exponential distribution


ANSWERS = (
    b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 5\r\n\r\nhello",
    b"HTTP/1.1 404 Not Found\r\nContent-Length:0\r\nConnection: close\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;a=b\r\nhello\r\n00A\r\n01234\r\n789\r\n0\r\nTrailer: x\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n\n",
    b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
)


@pytest.mark.parametrize("content", ANSWERS)
def test_answers_are_those_that_http_client_reads(content):
    class Socket:
        def makefile(self, mode):
            return io.BytesIO(content)

    expected = http.client.HTTPResponse(Socket(), method="POST")
    expected.begin()
    will_close, body = expected.will_close, expected.read()
    parser = AnswerParser()
    for size in (len(content), 1, 3):  # one parser for all, as in a connection
        parts = [parser.feed(content[start : start + size]) for start in range(0, len(content), size)]
        parts.append(parser.end() if b"until" in content else None)
        (answer,) = [part for part in parts if part is not None]
        assert (answer.status, answer.body, answer.is_last) == (expected.status, body, will_close)


@pytest.mark.parametrize(
    "content",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nab",
    ],
)
def test_invalid_answers_are_refused(content):
    with pytest.raises(InvalidAnswerError):
        AnswerParser().feed(content)


def test_figures_are_those_of_answers_with_status_200():
    result = LoadResult(num_texts=2, seconds=2.0, num_waited=1)
    for number in range(100):
        result.add(number / 100, (number + 1) / 1000, 200)
    result.add(1.5, 9.0, "timeout")
    result.add(1.6, 8.0, 503)
    summary = result.summarize()
    assert summary["latency_ms"] == {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 100.0, "max": 100.0}
    assert (summary["requests"], summary["requests_per_second"], summary["texts_per_second"]) == (102, 50, 100)
    first, second = result.make_timeline()
    assert first == {"second": 0, "requests": 100, "ok": 100, "errors": 0, "p50_ms": 50.0, "p99_ms": 99.0}
    assert second == {"second": 1, "requests": 2, "ok": 0, "errors": 2, "p50_ms": None, "p99_ms": None}


@pytest.mark.skipif(not pathlib.Path("/proc/self/stat").exists(), reason="this system has no /proc")
def test_cpu_time_and_memory_include_those_of_children():
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(1, flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    command = [sys.executable, "-c", parent]
    with (
        ProcessUsage([os.getpid()], interval_seconds=0.05) as usage,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
    ):
        process.stdout.readline()
        usages, children = read_processes()
        family = list_family(process.pid, children)
        assert len(family) == 2
        assert usages[family[1]].cpu_seconds >= 0.2
        process.communicate(b"\n")
    (server,) = usage.summarize()
    assert server["cpu_seconds"] >= 0.2  # the child ended, and its parent, which waited for it
    assert server["rss_max_bytes"] >= server["rss_begin_bytes"]


def test_a_process_that_does_not_exist_is_reported():
    with Server() as server, pytest.raises(ValueError, match="no process has the number 999999999"):
        run_load(LoadSettings(server.url, [b"a"], rate=100, num_requests=1, pids=[999999999]))


@pytest.mark.parametrize("data", [serving_load.SHARED_DATA, pathlib.Path("nowhere")])
def test_texts_have_3_to_60_words_and_a_seed(data):
    texts = serving_load.make_texts(500, seed=1, data=data)
    lengths = [len(text.split()) for text in texts]
    assert len(set(texts)) > 450
    assert min(lengths) >= 3
    assert max(lengths) <= 60
    assert texts == serving_load.make_texts(500, seed=1, data=data)
    assert texts != serving_load.make_texts(500, seed=2, data=data)


def test_bodies_follow_the_protocol():
    bodies = {name: serving_load.make_bodies(name, ["a", 'b"', "c"], num_texts=2) for name in serving_load.PROTOCOLS}
    assert {name: [json.loads(body) for body in values] for name, values in bodies.items()} == {
        "tasks": [{"examples": [{"text": "a"}, {"text": 'b"'}]}],
        "tfserving": [{"instances": [{"text": "a"}, {"text": 'b"'}]}],
        "tei": [{"inputs": ["a", 'b"']}],
        "tei-predict": [{"inputs": [["a"], ['b"']]}],
        "openai": [{"input": ["a", 'b"'], "model": "bert"}],
        "oip": [{"inputs": [{"name": "text", "shape": [2, 1], "datatype": "BYTES", "data": ["a", 'b"']}]}],
    }
    assert json.loads(serving_load.make_bodies("tei", ["a"])[0]) == {"inputs": "a"}
    template = '{"x": {text}, "all": {texts}}'
    assert serving_load.make_bodies("tei", ["{texts}"], template=template) == [b'{"x": "{texts}", "all": ["{texts}"]}']


def test_the_command_prints_the_report_and_writes_the_timeline(tmp_path, capsys):
    (tmp_path / "texts").write_text("one\ntwo\n")
    with Server() as server:
        options = ["--url", server.url, "--texts", f"{tmp_path}/texts", "--pid", str(os.getpid())]
        options += ["--header", "Authorization: Bearer KEY", "--timeout", "20", "--timeline", f"{tmp_path}/seconds.csv"]
        assert serving_load.main([*options, "--rate", "200", "--requests", "30"]) == 0
        printed = capsys.readouterr().out
        assert "| answers per status | 200: 30 |" in printed
        assert f"| {os.getpid()} | " in printed
        assert serving_load.main([*options, "--clients", "2", "--requests", "30", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["statuses"] == {"200": 30}
        assert serving_load.main([*options, "--body-template", "refuse", "--clients", "1", "--requests", "1"]) == 1
    assert (tmp_path / "seconds.csv").read_text().startswith("second,requests,ok,errors,p50_ms,p99_ms\n0,1,0,1,,")
