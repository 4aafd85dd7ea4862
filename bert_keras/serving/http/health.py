"""Endpoints for operators: `/health/live`, `/health/ready`, `/health` and `/metrics`."""

from bert_keras.serving.http.endpoint import Call, Endpoint, Reply, format_plain_error, make_json_reply
from bert_keras.serving.server_state import ServerState

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def make_health_endpoints(server: ServerState) -> list[Endpoint]:
    """Return the endpoints of health and metrics; they need no API key."""

    async def get_live(call: Call) -> Reply:
        return make_json_reply({"status": "live"})

    async def get_ready(call: Call) -> Reply:
        if server.is_ready:
            return make_json_reply({"status": "ready"})
        return make_json_reply({"status": "draining" if server.is_draining else "loading"}, 503)

    async def get_metrics(call: Call) -> Reply:
        return Reply(server.metrics.format(), content_type=_METRICS_TYPE)

    def get(path: str, handler: object, summary: str, *statuses: int, answer: object = dict) -> Endpoint:
        return Endpoint(
            "GET", path, handler, summary, "operation", format_plain_error, None, answer, statuses, is_open=True
        )

    return [
        get("/health/live", get_live, "whether the server runs"),
        get("/health/ready", get_ready, "whether every model answers", 503),
        get("/health", get_ready, "the same, as Text Embeddings Inference names it", 503),
        get("/metrics", get_metrics, "metrics in Prometheus' text format", answer=None),
    ]


def add_gauges(server: ServerState) -> None:
    """Add the metrics that are read from the server when Prometheus asks."""
    versions = server.repository.list_versions
    metrics = server.metrics
    metrics.add_gauge(
        "requests_in_progress",
        "requests to models that are answered now",
        lambda: [((), server.admission.num_requests)],
    )
    metrics.add_gauge(
        "estimated_wait_seconds",
        "estimated time until a new request is answered",
        lambda: [((), server.admission.estimate_wait())],
    )
    metrics.add_gauge(
        "jobs_in_progress",
        "jobs of a model without a result",
        lambda: [((one.name, str(one.number)), one.num_pending) for one in versions()],
        "model",
        "version",
    )
    metrics.add_gauge(
        "worker_restarts",
        "restarts of the worker process of a version after it ended unexpectedly",
        lambda: [((one.name, str(one.number)), one.num_restarts) for one in versions()],
        "model",
        "version",
    )
