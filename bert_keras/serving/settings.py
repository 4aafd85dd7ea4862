"""`ServerSettings`: what one can choose about the server, apart from its models."""

import dataclasses
import hmac
import pathlib

from bert_keras.errors import InputError
from bert_keras.serving.errors import Reason, ServingError


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """Settings of the server; their texts are also the help of the options. If `grpc_port` is None, there is no gRPC.

    Attributes:
        host: address to listen on; 0.0.0.0 for all.
        port: port of HTTP; 0 for any free one.
        grpc_port: port of gRPC; 0 for any free one.
        timeout: seconds that a request may take, unless it asks for less.
        max_requests: requests at the same time, answered or waiting; more get status 429.
        max_texts: texts or pairs per request.
        max_payload: bytes per request.
        poll_seconds: seconds between two looks for new versions.
        drain_seconds: seconds that running requests have after SIGTERM.
        api_key: required as `Authorization: Bearer KEY`; None: everyone may call.
        tls_certificate, tls_key: PEM files; None: no TLS.
        cors_origins: web pages whose scripts may call; "*": all.
        access_log: whether each request is a line on standard error.
        otlp_endpoint: URL of an OpenTelemetry collector; None: no traces.

    Raises:
        InputError: TLS needs both files, or one does not exist.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int | None = 8500
    timeout: float = 30.0
    max_requests: int = 512
    max_texts: int = 1024
    max_payload: int = 4_000_000
    poll_seconds: float = 1.0
    drain_seconds: float = 30.0
    api_key: str | None = None
    tls_certificate: pathlib.Path | None = None
    tls_key: pathlib.Path | None = None
    cors_origins: tuple[str, ...] = ()
    access_log: bool = False
    otlp_endpoint: str | None = None

    def __post_init__(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise InputError("TLS needs a certificate and a key; expected both files: give --tls-cert and --tls-key")
        for path in (self.tls_certificate, self.tls_key):
            if path is not None and not path.is_file():
                raise InputError(f"{path} does not exist; expected a PEM file: check the path")

    def check_key(self, authorization: str | None) -> None:
        """Raise `ServingError` unless a request with this header `Authorization` may be answered."""
        if self.api_key is None:
            return
        given, expected = (authorization or "").encode("utf-8", "replace"), f"Bearer {self.api_key}".encode()
        if not hmac.compare_digest(given, expected):
            raise ServingError(
                Reason.UNAUTHORIZED, "the API key is missing or wrong; send the header  Authorization: Bearer KEY"
            )
