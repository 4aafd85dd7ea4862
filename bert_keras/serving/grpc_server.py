"""Start the gRPC server: TensorFlow Serving's services, the Open Inference Protocol, and the health protocol."""

import grpc
from google.protobuf.message import Message

from bert_keras.errors import InputError
from bert_keras.serving.messages.health import HEALTH_METHODS, HEALTH_SERVICE, HealthCheckResponse
from bert_keras.serving.messages.open_inference import INFERENCE_METHODS, INFERENCE_SERVICE
from bert_keras.serving.messages.services import make_generic_handler
from bert_keras.serving.messages.tensorflow_serving import (
    MODEL_METHODS,
    MODEL_SERVICE,
    PREDICTION_METHODS,
    PREDICTION_SERVICE,
)
from bert_keras.serving.protocols.open_inference_grpc import InferenceService
from bert_keras.serving.protocols.tensorflow_serving_grpc import ModelService, PredictionService
from bert_keras.serving.server_state import ServerState

_SERVING, _NOT_SERVING = 1, 2


class _Health:
    """Implementation of grpc.health.v1.Health."""

    def __init__(self, server: ServerState):
        self._server = server

    async def check(self, request: Message, context: grpc.aio.ServicerContext) -> Message:
        """Return whether the server answers, whatever service is asked for."""
        return HealthCheckResponse(status=_SERVING if self._server.is_ready else _NOT_SERVING)


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
    running.add_generic_rpc_handlers(
        [
            make_generic_handler(PREDICTION_SERVICE, PREDICTION_METHODS, PredictionService(server)),
            make_generic_handler(MODEL_SERVICE, MODEL_METHODS, ModelService(server)),
            make_generic_handler(INFERENCE_SERVICE, INFERENCE_METHODS, InferenceService(server)),
            make_generic_handler(HEALTH_SERVICE, HEALTH_METHODS, _Health(server)),
        ]
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
