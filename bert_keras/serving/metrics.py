"""`ServerMetrics`: what Prometheus reads at `/metrics`."""

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from bert_keras.serving.worker.jobs import Timings

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_TOKENS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class ServerMetrics:
    """The metrics of the server; all names begin with `bert_keras_`."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ["endpoint", "status"]
        self._requests = Counter("bert_keras_requests", "requests by endpoint and status", labels, registry=registry)
        self._errors = Counter("bert_keras_errors", "requests that got an error", ["reason"], registry=registry)
        self._seconds = _histogram("bert_keras_request_seconds", "time of requests", _SECONDS, registry, ["endpoint"])
        names = ("queue", "tokenization", "inference")
        descriptions = (
            "waiting",
            "tokenizing, together with other requests",
            "computing, together with other requests",
        )
        self._parts = {
            name: _histogram(f"bert_keras_{name}_seconds", f"time of requests {text}", _SECONDS, registry, ["model"])
            for name, text in zip(names, descriptions, strict=True)
        }
        self._batch_tokens = _histogram(
            "bert_keras_batch_tokens", "tokens of the batches of requests", _TOKENS, registry, ["model"]
        )
        self._tokens = Counter("bert_keras_tokens", "tokens of requests", ["model"], registry=registry)
        self._started = Gauge("bert_keras_start_time_seconds", "start of the server, Unix time", registry=registry)
        self._started.set(time.time())
        self._children: dict[object, object] = {}  # metrics by their labels, because `labels()` checks them each time

    def add_gauge(
        self, name: str, text: str, read: Callable[[], Iterable[tuple[tuple[str, ...], float]]], *labels: str
    ) -> None:
        """Add a gauge that is read when Prometheus asks: `read` returns values with their labels."""
        self.registry.register(_ReadGauge(f"bert_keras_{name}", text, labels, read))

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
        return generate_latest(self.registry)

    def _get(self, metric: Counter | Histogram, *labels: str) -> Counter | Histogram:
        key = (metric, *labels)
        if key not in self._children:
            self._children[key] = metric.labels(*labels)
        return self._children[key]


class _ReadGauge:
    """A collector of Prometheus' client that calls a function."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...], read: Callable):
        self._name, self._text, self._labels, self._read = name, text, labels, read

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield the current values."""
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in self._read():
            family.add_metric(labels, value)
        yield family


def _histogram(
    name: str, text: str, buckets: tuple[float, ...], registry: CollectorRegistry, labels: list[str]
) -> Histogram:
    return Histogram(name, text, labels, buckets=buckets, registry=registry)
