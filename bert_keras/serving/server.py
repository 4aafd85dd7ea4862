"""`serve`: run the server until it is stopped."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator, Sequence

import uvicorn

from bert_keras.errors import InputError
from bert_keras.serving.http.application import make_application
from bert_keras.serving.http.endpoint import Endpoint
from bert_keras.serving.http.http_protocol import make_http_protocol
from bert_keras.serving.http.operation import OPERATION, make_openapi_endpoint, make_page_endpoints
from bert_keras.serving.protocols.open_inference_rest import OPEN_INFERENCE
from bert_keras.serving.protocols.openai_embeddings import OPENAI
from bert_keras.serving.protocols.tasks import make_task_protocol
from bert_keras.serving.protocols.tensorflow_serving_rest import TENSORFLOW_SERVING
from bert_keras.serving.protocols.text_embeddings_inference import TEI
from bert_keras.serving.repository import ModelRepository, ModelSettings
from bert_keras.serving.scheduling import rest_garbage_collector, yield_to_computations
from bert_keras.serving.server_state import ServerState
from bert_keras.serving.settings import ServerSettings

_BACKLOG = 4096  # connections that wait to be accepted
_OnReady = Callable[[dict[str, int | None]], None]


def serve(
    models: Sequence[ModelSettings],
    settings: ServerSettings,
    *,
    log: Callable[[str], None],
    on_ready: _OnReady = lambda ports: None,
) -> None:
    """Load models and answer requests until SIGTERM or Ctrl-C; then finish the running requests and return.

    Args:
        models: the models.
        settings: the settings.
        log: called with a sentence about each event.
        on_ready: called with the ports, `http` and `grpc`, when the server answers.

    Raises:
        InputError: a model cannot be loaded, or a port is taken.
        MissingExtraError: a package is missing.
    """
    yield_to_computations()
    try:
        import uvloop
    except ImportError:  # not on Windows
        loop = asyncio.new_event_loop()
    else:
        loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(_serve(models, settings, log, on_ready))
    finally:
        loop.close()


def make_endpoints() -> list[Endpoint]:
    """Return everything that clients can call over HTTP, the most frequent first."""
    protocols = (make_task_protocol(), TEI, OPENAI, TENSORFLOW_SERVING, OPEN_INFERENCE, OPERATION)
    endpoints = [endpoint for protocol in protocols for endpoint in protocol.endpoints]
    return [*endpoints, make_openapi_endpoint(endpoints), *make_page_endpoints()]


async def _serve(
    models: Sequence[ModelSettings], settings: ServerSettings, log: Callable[[str], None], on_ready: _OnReady
) -> None:
    _raise_file_limit()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    repository = ModelRepository(list(models), log)
    server = ServerState(repository, settings, log)
    listener = _listen(settings)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        loading = asyncio.ensure_future(repository.load())
        await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
            return
        loading.result()
        rest_garbage_collector()
        server.admission.num_instances = sum(one.description["instances"] for one in repository.list_versions())
        await _answer(server, listener, stop, on_ready)
    finally:
        stopping.cancel()
        listener.close()
        if server.tracer is not None:
            await loop.run_in_executor(None, server.tracer.close)
        await repository.close()


async def _answer(server: ServerState, listener: socket.socket, stop: asyncio.Event, on_ready: _OnReady) -> None:
    """Answer requests until `stop` is set, then finish those that run."""
    settings = server.settings
    endpoints = make_endpoints()
    http = _HttpServer(
        uvicorn.Config(
            make_application(server, endpoints),
            http=make_http_protocol(server, endpoints),
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=settings.drain_seconds,
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
            backlog=_BACKLOG,
        )
    )
    grpc_server, grpc_port = None, None
    if settings.grpc_port is not None:  # first, because its port may be taken
        from bert_keras.serving.grpc_server import start_grpc_server

        grpc_server, grpc_port = await start_grpc_server(server)
    answering = asyncio.ensure_future(http.serve(sockets=[listener]))
    watching = asyncio.ensure_future(server.repository.watch(settings.poll_seconds))
    on_ready({"http": listener.getsockname()[1], "grpc": grpc_port})
    await stop.wait()
    server.log("stopping: no new requests; those that run are finished")
    server.is_draining = True
    watching.cancel()
    http.should_exit = True
    if grpc_server is not None:
        await grpc_server.stop(settings.drain_seconds)
    await asyncio.gather(answering, watching, return_exceptions=True)


class _HttpServer(uvicorn.Server):
    """Uvicorn's server without its signal handlers: this module stops it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


def _listen(settings: ServerSettings) -> socket.socket:
    """Return a listening socket.

    Raises:
        InputError: the address is in use or not this machine's.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise InputError(
            f"{settings.host}:{settings.port} cannot be opened ({error.strerror}); expected a free port of this "
            "machine: choose another one with --port"
        ) from None
    listener.set_inheritable(False)
    return listener


def _raise_file_limit() -> None:
    """Allow as many connections as the system lets this process have; the usual limit is 1,024 files."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
