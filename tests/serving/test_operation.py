"""What operators see: health, metrics, headers, the access log, the API key, TLS and traces."""

import datetime
import gzip
import http.server
import ipaddress
import re
import shutil
import ssl
import subprocess
import sys
import threading

import grpc
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bert_keras.serving.messages.definitions import MESSAGES
from tests.marks import slow

from .running_server import RunningServer
from .test_versions import TEXT

ONE = ("--threads", "1", "--instances", "1")


def test_health(server):
    assert server.get("/health/live").json() == {"status": "live"}
    assert server.get("/health/ready").json() == {"status": "ready"}
    assert check_health(grpc.insecure_channel(server.grpc_address)) == "SERVING"


def check_health(channel, metadata=()):
    with channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=MESSAGES.HealthCheckRequest.SerializeToString,
            response_deserializer=MESSAGES.HealthCheckResponse.FromString,
        )
        return {1: "SERVING", 2: "NOT_SERVING"}[
            check(MESSAGES.HealthCheckRequest(), timeout=30, metadata=metadata).status
        ]


def test_prometheus_reads_the_metrics(server):
    """The parser is Prometheus' own."""
    for _ in range(3):
        server.post("/classify", {"text": TEXT, "model": "classifier"})
    server.post("/classify", {})
    families = {one.name: one for one in text_string_to_metric_families(server.get("/metrics").text)}
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert samples["bert_keras_requests_total", "/classify", "200"] >= 3
    assert samples["bert_keras_requests_total", "/classify", "400"] >= 1
    assert samples["bert_keras_errors_total", "invalid"] >= 1
    for part in ("queue", "tokenization", "inference"):
        assert samples[f"bert_keras_{part}_seconds_count", "classifier"] >= 3
    assert samples["bert_keras_batch_tokens_sum", "classifier"] >= samples["bert_keras_tokens_total", "classifier"] > 0
    assert samples[("bert_keras_requests_in_progress",)] == 0
    assert samples["bert_keras_worker_restarts", "1", "classifier"] == 0
    assert families["bert_keras_request_seconds"].type == "histogram"


def test_headers_say_where_the_time_went(server):
    answer = server.post("/classify", {"text": TEXT, "model": "classifier"}, **{"x-request-id": "mine"})
    assert answer.headers["x-request-id"] == "mine"
    names = ("x-queue-time", "x-tokenization-time", "x-inference-time")
    parts = [float(answer.headers[name]) for name in names]
    assert 0 < sum(parts) <= float(answer.headers["x-total-time"])
    assert int(answer.headers["x-compute-tokens"]) == len(TEXT.split()) + 2
    ids = {server.post("/classify", {"text": TEXT, "model": "classifier"}).headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = tmp_path_factory.mktemp("certificate")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(*pem))
    return folder / "certificate.pem", folder / "key.pem"


class Collector(http.server.BaseHTTPRequestHandler):
    """Keeps the bodies of all requests."""

    bodies: list[bytes]

    def do_POST(self):
        self.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_tls_api_key_cross_origin_access_log_and_traces(artifacts, certificate, tmp_path):
    """One server with everything, because a start takes seconds."""
    (tmp_path / "key.txt").write_text("secret\n")
    Collector.bodies = []
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    options = ["--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1]), "--cors", "https://page.example"]
    options += ["--api-key-file", str(tmp_path / "key.txt"), "--access-log"]
    options += ["--otlp", f"http://127.0.0.1:{collector.server_port}/v1/traces"]
    context = ssl.create_default_context(cafile=certificate[0])
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"authorization": "Bearer secret", "origin": "https://page.example", "x-request-id": "id-7"}
    headers["traceparent"] = f"00-{trace}-b7ad6b7169203331-01"
    with RunningServer({"model": artifacts["classifier"]}, *ONE, *options) as server:
        with httpx.Client(verify=context, base_url=server.url, timeout=60) as client:
            assert client.get("/health/ready").status_code == 200
            assert client.get("/metrics").status_code == 200
            for wrong in ({}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}):
                refused = client.post("/classify", json={"text": TEXT}, headers=wrong)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
                assert "Authorization: Bearer KEY" in refused.json()["error"]
            answer = client.post("/classify", json={"text": TEXT}, headers=headers)
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == "https://page.example"
        credentials = grpc.ssl_channel_credentials(certificate[0].read_bytes())
        assert check_health(grpc.secure_channel(server.grpc_address, credentials)) == "SERVING"
        assert server.stop() == 0
        log = server.read_log()
    collector.shutdown()
    collector.server_close()
    assert re.search(r"id-7 127\.0\.0\.1 POST /classify 200 [\d.]+ ms", log)
    assert "secret" not in log
    spans = read_spans(Collector.bodies)
    assert spans["POST /classify"].trace_id.hex() == trace
    attributes = {one.key: one.value for one in spans["POST /classify"].attributes}
    assert attributes["bert_keras.model"].string_value == "model"
    assert attributes["bert_keras.inference_seconds"].double_value > 0


def read_spans(bodies):
    """Return the last span of each name, read with OpenTelemetry's own messages."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans = {}
    for body in bodies:
        content = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
        for resource in ExportTraceServiceRequest.FromString(content).resource_spans:
            for scope in resource.scope_spans:
                spans |= {span.name: span for span in scope.spans}
    return spans


@pytest.mark.parametrize("option", ["--port", *slow("--grpc-port")])
def test_taken_port_is_reported(server, artifacts, option):
    taken = {"--port": server.url, "--grpc-port": server.grpc_address}[option].rpartition(":")[2]
    ports = {"--port": "0", "--grpc-port": "0", option: taken}
    command = [sys.executable, "-m", "bert_keras.cli.main", "serve", str(artifacts["classifier"])]
    command += [word for pair in ports.items() for word in pair]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(f"bert-keras serve: 127.0.0.1:{taken} cannot be opened ")
    assert f"choose another one with {option}" in done.stderr
    assert "Task was destroyed" not in done.stderr


def test_a_model_that_cannot_be_loaded_is_reported_in_one_sentence(artifacts, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(artifacts["classifier"], folder)
    [file] = folder.rglob("model.onnx")
    file.write_bytes(file.read_bytes()[:1000])
    command = [sys.executable, "-m", "bert_keras.cli.main", "serve", str(folder), "--port", "0", "--no-grpc"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(r"bert-keras serve: model cannot be loaded: .* is not a complete", done.stderr.splitlines()[-1])
