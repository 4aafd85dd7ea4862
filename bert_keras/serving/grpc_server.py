"""Start the gRPC server: TensorFlow Serving's services, the Open Inference Protocol, and the health protocol.

Load balancers and Kubernetes ask the health protocol whether a server is ready. Source:
https://github.com/grpc/grpc/blob/master/doc/health-checking.md, without the method `Watch`. A client that gets
UNIMPLEMENTED for `Watch` assumes that the server is healthy.
"""

import grpc
from google.protobuf.message import Message

from bert_keras.errors import InputError
from bert_keras.message_builder import build_messages, pair_messages
from bert_keras.serving.messages import open_inference as triton
from bert_keras.serving.messages import tensorflow_serving as tensorflow
from bert_keras.serving.protocols.grpc_call import make_generic_handler
from bert_keras.serving.protocols.open_inference_grpc import InferenceService
from bert_keras.serving.protocols.tensorflow_serving_grpc import ModelService, PredictionService
from bert_keras.serving.server_state import ServerState

_HEALTH = {
    "HealthCheckRequest": {"service": (1, "string")},
    "HealthCheckResponse": {"status": (1, "HealthCheckResponse.ServingStatus")},
    "HealthCheckResponse.ServingStatus": {"UNKNOWN": 0, "SERVING": 1, "NOT_SERVING": 2, "SERVICE_UNKNOWN": 3},
}
HEALTH_SERVICE = "grpc.health.v1.Health"
HEALTH_METHODS = pair_messages(build_messages("grpc.health.v1", _HEALTH), {"Check": "HealthCheck"})
HealthCheckRequest, HealthCheckResponse = HEALTH_METHODS["Check"]


class _Health:
    """Implementation of grpc.health.v1.Health."""

    def __init__(self, server: ServerState):
        self._server = server

    async def check(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return whether the server answers, whatever service is asked for."""
        is_ready = self._server.is_ready
        return HealthCheckResponse(status=HealthCheckResponse.SERVING if is_ready else HealthCheckResponse.NOT_SERVING)


async def start_grpc_server(server: ServerState) -> tuple[grpc.aio.Server, int]:
    """Start the server and return it with its port.

    Raises:
        InputError: the port is taken.
    """
    settings = server.settings
    options = [
        ("grpc.max_receive_message_length", settings.max_payload),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
    ]
    running = grpc.aio.server(options=options)
    services = (
        (tensorflow.PREDICTION_SERVICE, tensorflow.PREDICTION_METHODS, PredictionService),
        (tensorflow.MODEL_SERVICE, tensorflow.MODEL_METHODS, ModelService),
        (triton.INFERENCE_SERVICE, triton.INFERENCE_METHODS, InferenceService),
        (HEALTH_SERVICE, HEALTH_METHODS, _Health),
    )
    running.add_generic_rpc_handlers(
        [make_generic_handler(name, methods, make(server)) for name, methods, make in services]
    )
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"{host}:{settings.grpc_port}"
    try:
        if settings.tls_certificate is None:
            port = running.add_insecure_port(address)
        else:
            pair = settings.tls_key.read_bytes(), settings.tls_certificate.read_bytes()
            port = running.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except RuntimeError:
        raise InputError(
            f"{address} cannot be opened for gRPC; expected a free port of this machine: choose another one with "
            "--grpc-port"
        ) from None
    await running.start()
    return running, port
