"""Start the gRPC server: TensorFlow Serving's services, the Open Inference Protocol, and the health protocol.

Load balancers and Kubernetes ask the health protocol whether a server is ready.
"""

import grpc
from google.protobuf.message import Message

from bert_keras.errors import InputError
from bert_keras.serving.messages.definitions import MESSAGES
from bert_keras.serving.protocols.grpc_service import GrpcCall, GrpcService
from bert_keras.serving.protocols.open_inference_grpc import INFERENCE
from bert_keras.serving.protocols.tensorflow_serving_grpc import MODEL, PREDICTION
from bert_keras.serving.server_state import ServerState

_HEALTH = GrpcService("grpc.health.v1.Health")
SERVICES = (PREDICTION, MODEL, INFERENCE, _HEALTH)


@_HEALTH.method("Check", is_open=True)
async def _check_health(call: GrpcCall, request: Message) -> Message:
    """Return whether the server answers, whatever service is asked for."""
    return MESSAGES.HealthCheckResponse(status="SERVING" if call.server.is_ready else "NOT_SERVING")


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
    running.add_generic_rpc_handlers([service.make_handler(server) for service in SERVICES])
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
