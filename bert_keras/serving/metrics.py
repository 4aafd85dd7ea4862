"""`ServerMetrics`: what Prometheus reads at `/metrics`; `Tracer`: a span of OpenTelemetry for each request."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from bert_keras import __version__
from bert_keras.errors import MissingExtraError
from bert_keras.serving.worker.jobs import Timings

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_PARTS = {  # of the time of a job
    "queue": "time of requests waiting",
    "tokenization": "time of requests tokenizing, together with other requests",
    "inference": "time of requests computing, together with other requests",
}
_TOKENS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class ServerMetrics:
    """The metrics of the server; all names begin with `bert_keras_`."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ["endpoint", "status"]
        self._requests = Counter("bert_keras_requests", "requests by endpoint and status", labels, registry=registry)
        self._errors = Counter("bert_keras_errors", "requests that got an error", ["reason"], registry=registry)
        self._seconds = self._add_histogram("request_seconds", "time of requests", "endpoint")
        self._parts = {part: self._add_histogram(f"{part}_seconds", text) for part, text in _PARTS.items()}
        self._batch_tokens = self._add_histogram("batch_tokens", "tokens of the batches of requests", buckets=_TOKENS)
        self._tokens = Counter("bert_keras_tokens", "tokens of requests", ["model"], registry=registry)
        started = Gauge("bert_keras_start_time_seconds", "start of the server, Unix time", registry=registry)
        started.set(time.time())
        self._gauges: list[tuple[Gauge, bool, Callable]] = []
        self._children: dict[object, object] = {}  # metrics by their labels, because `labels()` checks them each time

    def add_gauge(
        self, name: str, text: str, read: Callable[[], Iterable[tuple[tuple[str, ...], float]]], *labels: str
    ) -> None:
        """Add a gauge that is read when Prometheus asks: `read` returns values with their labels."""
        self._gauges.append((Gauge(f"bert_keras_{name}", text, labels, registry=self.registry), bool(labels), read))

    def _add_histogram(
        self, name: str, text: str, label: str = "model", buckets: tuple[float, ...] = _SECONDS
    ) -> Histogram:
        return Histogram(f"bert_keras_{name}", text, [label], buckets=buckets, registry=self.registry)

    def count_request(self, endpoint: str, status: int, seconds: float | None = None) -> None:
        """Count a finished request, and its time if it is given."""
        self._get(self._requests, endpoint, str(status)).inc()
        if seconds is not None:
            self._get(self._seconds, endpoint).observe(seconds)

    def count_error(self, reason: str) -> None:
        """Count an error."""
        self._get(self._errors, reason).inc()

    def observe_job(self, model: str, timings: Timings) -> None:
        """Record where the time of a job went."""
        for name, histogram in self._parts.items():
            self._get(histogram, model).observe(getattr(timings, name))
        self._get(self._batch_tokens, model).observe(timings.batch_tokens)
        self._get(self._tokens, model).inc(timings.num_tokens)

    def format(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        for gauge, has_labels, read in self._gauges:
            if has_labels:
                gauge.clear()  # of versions that are not served any more
            for labels, value in read():
                (gauge.labels(*labels) if labels else gauge).set(value)
        return generate_latest(self.registry)

    def _get(self, metric: Counter | Histogram, *labels: str) -> Counter | Histogram:
        key = (metric, *labels)
        if key not in self._children:
            self._children[key] = metric.labels(*labels)
        return self._children[key]


class Tracer:
    """Record a span per request, as a child of the client's span if the request has the header `traceparent`.

    Args:
        endpoint: URL of the collector, such as `http://localhost:4318/v1/traces` (OTLP over HTTP).

    Raises:
        MissingExtraError: OpenTelemetry is not installed.
    """

    def __init__(self, endpoint: str):
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise MissingExtraError(f"tracing to {endpoint}", "opentelemetry-sdk", "tracing") from None
        resource = Resource.create({"service.name": "bert-keras", "service.version": __version__})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
        self._tracer = self._provider.get_tracer("bert_keras.serving")

    def record(
        self, name: str, begin: float, status: int, headers: Mapping[str, str], model: str | None, timings: Timings
    ) -> None:
        """Record a finished request.

        Args:
            name: method and path.
            begin: when it began, of `time.time`.
            status: the HTTP status.
            headers: those of the request that name the client's span, `traceparent` and `tracestate`.
            model: the model that answered; None: none did.
            timings: where the time of its job went.
        """
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = TraceContextTextMapPropagator().extract(headers)
        attributes: dict[str, Any] = {"http.response.status_code": status}
        if model is not None:
            attributes |= {"bert_keras.model": model, "bert_keras.tokens": timings.num_tokens}
            attributes |= {f"bert_keras.{part}_seconds": getattr(timings, part) for part in _PARTS}
        span = self._tracer.start_span(
            name, context, SpanKind.SERVER, attributes=attributes, start_time=int(begin * 1e9)
        )
        if status >= 500:
            span.set_status(StatusCode.ERROR)
        span.end(int(time.time() * 1e9))

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()
