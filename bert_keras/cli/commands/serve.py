"""Serve models over HTTP and gRPC, in the protocols of TensorFlow Serving, KServe, OpenAI and others.

    bert-keras serve artifacts
    bert-keras serve --model reviews=artifacts --model search=minilm --quantized

ARTIFACTS is an output folder of export, an artifact in it, a checkpoint folder, or a folder of such folders whose names
are version numbers. A new version is loaded and warmed up while the old one answers, then takes over without a failed
request. http://localhost:8501/docs lists everything that clients can call. SIGTERM and Ctrl-C finish running requests.
The API key, if one is required, comes from --api-key-file or the environment variable BERT_KERAS_API_KEY.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
from typing import TYPE_CHECKING

from bert_keras.checks import quote
from bert_keras.cli.console import print_json, print_line, print_settings
from bert_keras.cli.options.argument_checks import (
    add_flag,
    add_model,
    add_option,
    add_repeatable,
    check_all,
    check_exists,
    non_negative_integer,
    non_negative_number,
    positive_integer,
    positive_number,
)
from bert_keras.errors import InputError, MissingExtraError
from bert_keras.extras import is_installed
from bert_keras.files import format_json
from bert_keras.hub.downloading import ONNX_FLOAT32, ONNX_INT8, download_folder
from bert_keras.hub.names import is_hub_name, parse_hub_name

if TYPE_CHECKING:
    from bert_keras.serving.repository import ModelSettings
    from bert_keras.serving.settings import ServerSettings

_PACKAGES = {"starlette": "starlette", "uvicorn": "uvicorn", "httptools": "httptools", "orjson": "orjson"}
_PACKAGES |= {"prometheus_client": "prometheus-client", "grpc": "grpcio"}  # module: package
_KEY_VARIABLE = "BERT_KERAS_API_KEY"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model(parser, "artifacts", "folder of the model", nargs="?")
    add_repeatable(parser, "--model", "NAME=FOLDER", "a model and its name in URLs")
    group = parser.add_argument_group("models")
    engines = ("onnxruntime", "openvino", "tensorflow", "keras")
    add_option(group, "--engine", engines, "runtime; keras runs checkpoints (default: onnxruntime for an ONNX file)")
    add_flag(group, "--quantized", "run the 8-bit ONNX file of each folder")
    add_option(
        group, "--threads", positive_integer, "threads per instance (default: 1, or all cores with one instance)"
    )
    add_option(
        group, "--instances", positive_integer, "batches at the same time (default: one per core; TensorFlow: 1)"
    )
    add_option(group, "--versions", positive_integer, "number of newest versions to serve", 1)
    add_repeatable(group, "--label", "[NAME/]LABEL=N", "label of version N")
    add_option(group, "--poll", positive_number, "seconds between two looks for new versions", 1.0)
    group = parser.add_argument_group("network")
    group.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 for all (default 127.0.0.1)")
    add_option(group, "--port", non_negative_integer, "port of HTTP; 0 for any free one", 8501)
    add_option(group, "--grpc-port", non_negative_integer, "port of gRPC; 0 for any free one", 8500)
    add_flag(group, "--no-grpc", "HTTP only")
    add_option(group, "--tls-cert", pathlib.Path, "certificate for TLS, PEM")
    add_option(group, "--tls-key", pathlib.Path, "key of the certificate, PEM")
    add_option(group, "--api-key-file", pathlib.Path, "file with the key that clients must send")
    add_repeatable(group, "--cors", "ORIGIN", "web page that may call; * for all")
    group = parser.add_argument_group("limits")
    add_option(group, "--timeout", positive_number, "seconds that a request may take", 30.0)
    add_option(group, "--max-requests", positive_integer, "requests at the same time; more get status 429", 512)
    add_option(group, "--max-texts", positive_integer, "texts per request", 1024)
    add_option(group, "--max-payload", positive_integer, "bytes per request", 4_000_000)
    add_option(group, "--drain", non_negative_number, "seconds that running requests have after SIGTERM", 30.0)
    add_flag(parser, "--access-log", "print a line per request")
    parser.add_argument("--otlp", metavar="URL", help="send traces to this OpenTelemetry collector (OTLP over HTTP)")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    for module, package in _PACKAGES.items():
        if not is_installed(module):
            raise MissingExtraError("bert-keras serve", package, "serve")
    models, settings = check_all(lambda: _read_models(arguments), lambda: _read_settings(arguments))
    print_settings("serve", _describe(models, settings))
    _start(models, settings, arguments)


def _start(models: list[ModelSettings], settings: ServerSettings, arguments: argparse.Namespace) -> None:
    """Serve until the server is stopped."""
    from bert_keras.serving.server import serve

    def report(ports: dict[str, int | None]) -> None:
        if arguments.json:
            print_json(format_json(ports))
        scheme = "http" if settings.tls_certificate is None else "https"
        grpc = "" if ports["grpc"] is None else f", gRPC on {settings.host}:{ports['grpc']}"
        print_line(f"  ready: {scheme}://{settings.host}:{ports['http']}/{grpc}")

    serve(models, settings, log=lambda line: print_line(f"  {line}"), on_ready=report)
    print_line("stopped")


def _read_models(arguments: argparse.Namespace) -> list[ModelSettings]:
    """Return the models of the command line."""
    from bert_keras.serving.model_folders import check_model, name_model
    from bert_keras.serving.repository import ModelSettings

    folders = {}
    if arguments.artifacts is not None:
        given = arguments.artifacts
        named = parse_hub_name(given).repository if is_hub_name(given) else given
        folders[name_model(pathlib.Path(named))] = _find_folder(given, arguments)
    for given in arguments.model:
        name, equals, folder = given.partition("=")
        if not equals or not _NAME.fullmatch(name) or not folder:
            raise InputError(f"--model is {quote(given)}; expected NAME=FOLDER, the name of letters, digits and ._-")
        if name in folders:
            raise InputError(f"there are two models {name}; expected different names: rename one with --model")
        folders[name] = _find_folder(folder, arguments)
    if not folders:
        raise InputError("there is no model to serve; expected the folder of one: bert-keras serve ARTIFACTS")
    for folder in folders.values():
        check_model(folder, arguments.engine, quantized=arguments.quantized)
    labels = _read_labels(arguments.label, list(folders))
    same = {name: getattr(arguments, name) for name in ("engine", "quantized", "threads", "instances")}
    same["num_versions"] = arguments.versions
    return [ModelSettings(name, folder, labels=labels[name], **same) for name, folder in folders.items()]


def _find_folder(given: pathlib.Path | str, arguments: argparse.Namespace) -> pathlib.Path:
    """Return the folder of a model after checking that it exists; a model of the Hub is downloaded."""
    if is_hub_name(given):
        runs_onnx = arguments.quantized or arguments.engine in ("onnxruntime", "openvino")
        onnx = (ONNX_INT8 if arguments.quantized else ONNX_FLOAT32) if runs_onnx else None
        with_weights = not runs_onnx and arguments.engine != "tensorflow"
        return download_folder(str(given), with_weights=with_weights, onnx=onnx, report=print_line)
    check_exists(pathlib.Path(given), "a folder that export wrote")
    return pathlib.Path(given)


def _read_labels(given: list[str], names: list[str]) -> dict[str, dict[str, int]]:
    """Return the version of each label, keyed by model."""
    labels: dict[str, dict[str, int]] = {name: {} for name in names}
    for text in given:
        place, equals, number = text.partition("=")
        name, slash, label = place.rpartition("/")
        if not slash and len(names) == 1:
            name = names[0]
        if not equals or not label or not number.isdecimal() or name not in labels:
            raise InputError(
                f"--label is {quote(text)}; expected NAME/LABEL=VERSION with one of the models {', '.join(names)}"
            )
        labels[name][label] = int(number)
    return labels


def _read_settings(arguments: argparse.Namespace) -> ServerSettings:
    from bert_keras.serving.settings import ServerSettings

    return ServerSettings(
        host=arguments.host,
        port=arguments.port,
        grpc_port=None if arguments.no_grpc else arguments.grpc_port,
        timeout=arguments.timeout,
        max_requests=arguments.max_requests,
        max_texts=arguments.max_texts,
        max_payload=arguments.max_payload,
        poll_seconds=arguments.poll,
        drain_seconds=arguments.drain,
        api_key=_read_key(arguments.api_key_file),
        tls_certificate=arguments.tls_cert,
        tls_key=arguments.tls_key,
        cors_origins=tuple(arguments.cors),
        access_log=arguments.access_log,
        otlp_endpoint=arguments.otlp,
    )


def _read_key(path: pathlib.Path | None) -> str | None:
    """Return the API key from the file or the environment; None: no key is required."""
    if path is None:
        return os.environ.get(_KEY_VARIABLE) or None
    check_exists(path, "a file with the API key")
    key = path.read_text(encoding="utf-8").strip()
    if not key:
        raise InputError(f"{path} is empty; expected the API key: write it to the file")
    return key


def _describe(models: list[ModelSettings], settings: ServerSettings) -> dict[str, object]:
    return {
        **{f"model {model.name}": f"{model.folder}{', 8 bits' * model.quantized}" for model in models},
        "engine": models[0].engine or "onnxruntime for an ONNX file, otherwise tensorflow or keras",
        "http": f"{settings.host}:{settings.port}",
        "grpc": "off" if settings.grpc_port is None else f"{settings.host}:{settings.grpc_port}",
        "API key": "required" if settings.api_key else "none",
        "limits": f"{settings.timeout:g} s, {settings.max_requests:,} requests at the same time, "
        f"{settings.max_texts:,} texts and {settings.max_payload:,} bytes per request",
    }
