"""`Tracer`: a span of OpenTelemetry for each request, sent to a collector; without the package nothing is imported."""

import time
from collections.abc import Mapping
from typing import Any

from bert_keras import __version__
from bert_keras.errors import MissingExtraError
from bert_keras.serving.worker.jobs import Timings


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
            names = ("queue", "tokenization", "inference")
            attributes |= {f"bert_keras.{part}_seconds": getattr(timings, part) for part in names}
        span = self._tracer.start_span(
            name, context, SpanKind.SERVER, attributes=attributes, start_time=int(begin * 1e9)
        )
        if status >= 500:
            span.set_status(StatusCode.ERROR)
        span.end(int(time.time() * 1e9))

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()
