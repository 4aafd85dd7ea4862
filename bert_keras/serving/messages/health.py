"""Messages and methods of `grpc.health.v1.Health`, which load balancers and Kubernetes ask whether a server is ready.

Source: https://github.com/grpc/grpc/blob/master/doc/health-checking.md, without the method `Watch`. A client that gets
UNIMPLEMENTED for `Watch` assumes that the server is healthy.
"""

from bert_keras.serving.messages.message_builder import build_messages

_HEALTH = {
    "HealthCheckRequest": {"service": (1, "string")},
    "HealthCheckResponse": {"status": (1, "HealthCheckResponse.ServingStatus")},
    "HealthCheckResponse.ServingStatus": {"UNKNOWN": 0, "SERVING": 1, "NOT_SERVING": 2, "SERVICE_UNKNOWN": 3},
}

_health = build_messages("grpc.health.v1", _HEALTH)

HealthCheckRequest = _health["HealthCheckRequest"]
HealthCheckResponse = _health["HealthCheckResponse"]

# the classes of a request and a response, keyed by method
HEALTH_SERVICE = "grpc.health.v1.Health"
HEALTH_METHODS = {"Check": (HealthCheckRequest, HealthCheckResponse)}
