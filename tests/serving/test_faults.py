"""What can happen to a server: killed processes, signals, clients that leave, are slow or too many."""

import concurrent.futures
import json
import os
import re
import signal
import socket
import time

import grpc
import httpx
import pytest
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelReadyRequest
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from benchmarks.http_load import LoadSettings, run_load
from tests.marks import slow

from .running_server import RunningServer
from .test_versions import TEXT, wait_until

ONE = ("--threads", "1", "--instances", "1", "--no-grpc")


def read_metric(server, pattern):
    """Return the sum of the metrics whose line matches."""
    lines = server.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if re.match(pattern, line))


def connect(server):
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def encode_request(body, announced=None, path="/classify"):
    """Return the bytes of an HTTP request."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {announced or len(content)}\r\n\r\n"
    return head.encode() + content


def kill_worker(server):
    """Kill the only worker and wait until another one answers."""
    [worker] = server.list_workers()
    os.kill(worker, signal.SIGKILL)
    wait_until(
        lambda: server.list_workers() not in ([], [worker]) and server.get("/health/ready").status_code == 200,
        "another worker",
    )


@pytest.fixture(scope="module")
def classifier(artifacts):
    """A server with one model; tests leave it as it is."""
    with RunningServer({"model": artifacts["classifier"]}, *ONE, "--timeout", "20") as running:
        yield running


def test_killed_worker_is_replaced_without_a_failed_request(classifier):
    url, body = f"{classifier.url}/classify", json.dumps({"text": TEXT}).encode()
    before = read_metric(classifier, "bert_keras_worker_restarts")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        load = pool.submit(run_load, LoadSettings(url, [body], num_clients=4, duration_seconds=2))
        time.sleep(0.5)
        kill_worker(classifier)
        assert set(load.result().outcomes) == {200}
    assert read_metric(classifier, "bert_keras_worker_restarts") == before + 1
    assert "answers again" in classifier.read_log()


def test_a_request_that_ends_the_worker_twice_fails_alone(classifier):
    body = {"examples": [{"text": TEXT}] * 1000}
    before = read_metric(classifier, "bert_keras_worker_restarts")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(classifier.post, "/classify", body)
        for _ in range(2):
            wait_until(lambda: read_metric(classifier, "bert_keras_jobs_in_progress") or answer.done(), "the request")
            kill_worker(classifier)
    assert answer.result().status_code in (200, 500)  # 200 if it was answered before the signal
    assert read_metric(classifier, "bert_keras_worker_restarts") == before + 2
    assert classifier.post("/classify", {"text": TEXT}).status_code == 200


def test_workers_end_with_the_server(artifacts):
    with RunningServer({"model": artifacts["classifier"]}, *ONE) as server:
        workers = server.list_workers()
        server.process.kill()
        server.process.wait()
        for worker in workers:
            wait_until(lambda worker=worker: not os.path.exists(f"/proc/{worker}"), "the end of the worker")


@pytest.mark.parametrize("number", [signal.SIGTERM, *slow(signal.SIGINT)])
def test_signal_finishes_running_requests(artifacts, number):
    with RunningServer({"model": artifacts["classifier"]}, *ONE) as server:
        workers = server.list_workers()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(server.post, "/classify", {"examples": [{"text": TEXT}] * 1000})
            wait_until(lambda: read_metric(server, "bert_keras_jobs_in_progress") or answer.done(), "the request")
            assert server.stop(number) == 0
            assert len(answer.result().json()["answers"]) == 1000
        with pytest.raises(httpx.ConnectError):
            server.get("/health/live")
        assert not any(os.path.exists(f"/proc/{worker}") for worker in workers)
        assert server.read_log().splitlines()[-1] == "stopped"


def test_no_work_for_clients_that_left(classifier):
    for _ in range(20):
        with connect(classifier) as client:
            client.sendall(encode_request({"examples": [{"text": TEXT}] * 1000}))
    wait_until(lambda: not read_metric(classifier, "bert_keras_jobs_in_progress"), "the end of all jobs")
    assert read_metric(classifier, 'bert_keras_errors_total{reason="client left"}') > 0
    assert read_metric(classifier, "bert_keras_requests_in_progress") == 0


@pytest.mark.parametrize("is_closed", [False, *slow(True)])  # by the server, 5 s after its answer
def test_slow_client_gets_an_error_and_delays_nobody(artifacts, is_closed):
    with RunningServer({"model": artifacts["classifier"]}, *ONE, "--timeout", "2") as server:
        with connect(server) as client:
            client.sendall(encode_request({"text": TEXT}, announced=1000))
            assert server.post("/classify", {"text": TEXT}).status_code == 200
            answer = ""
            while (is_closed or not answer.endswith("}")) and (part := client.recv(10_000)):
                answer += part.decode()
        assert answer.startswith("HTTP/1.1 408")
        assert "did not arrive within 2 s" in answer


def test_too_many_requests_get_429_and_the_rest_an_answer(artifacts):
    with RunningServer({"model": artifacts["classifier"]}, *ONE, "--max-requests", "4") as server:
        body = json.dumps({"examples": [{"text": TEXT}] * 50}).encode()
        result = run_load(LoadSettings(f"{server.url}/classify", [body], num_clients=32, num_requests=400))
        assert set(result.outcomes) == {200, 429}
        many = {"examples": [{"text": TEXT}] * 1000}
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            answers = list(pool.map(lambda _: server.post("/classify", many), range(5)))
        [refused] = [answer for answer in answers if answer.status_code != 200]
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert "the server has 4 requests to answer" in refused.json()["error"]
        assert read_metric(server, "bert_keras_requests_in_progress") == 0


def test_a_full_server_answers_operators_and_lets_web_pages_read_refusals(artifacts):
    options = ("--threads", "1", "--instances", "1", "--max-requests", "1", "--cors", "*")
    with RunningServer({"model": artifacts["classifier"]}, *options) as server, connect(server) as client:
        client.sendall(encode_request({"text": TEXT}, announced=1000))  # an unfinished request fills the server
        wait_until(lambda: read_metric(server, "bert_keras_requests_in_progress") == 1, "the slow request")
        refused = server.post("/classify", {"text": TEXT}, origin="https://page.example")
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (429, "*")
        assert server.get("/v1/models/model").status_code == 200
        with grpc.insecure_channel(server.grpc_address) as channel:
            stub = GRPCInferenceServiceStub(channel)
            assert stub.ModelReady(ModelReadyRequest(name="model"), timeout=30).ready
            with pytest.raises(grpc.RpcError, match="the server has 1 requests to answer"):
                stub.ModelInfer(ModelInferRequest(model_name="model"), timeout=30)


def test_requests_whose_deadline_has_passed_are_not_answered(classifier):
    many = {"examples": [{"text": TEXT}] * 1000}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(classifier.post, "/classify", many) for _ in range(3)]
        late = classifier.post("/classify", {"text": TEXT}, **{"x-request-timeout": "0.000001"})
        assert {answer.result().status_code for answer in answers} == {200}
    assert late.status_code in (429, 504)
    assert "error" in late.json()


@pytest.mark.slow
def test_ten_thousand_connections(classifier):
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = min(10_000, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, number + 200), hard))
    clients = [connect(classifier) for _ in range(number)]
    try:
        assert classifier.post("/classify", {"text": TEXT}).status_code == 200
        for client in clients[::100]:
            client.sendall(encode_request({"text": TEXT}))
        answers = [client.recv(10_000) for client in clients[::100]]
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    finally:
        for client in clients:
            client.close()
    assert classifier.post("/classify", {"text": TEXT}).status_code == 200
