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
import dataclasses
import os
import pathlib
import re
from typing import TYPE_CHECKING

from bert_keras.checks import quote
from bert_keras.cli.console import print_json, print_line, print_settings
from bert_keras.cli.options.argument_checks import check_all, check_exists
from bert_keras.cli.options.declaring import (
    Options,
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
from bert_keras.serving.settings import ServerSettings

if TYPE_CHECKING:
    from bert_keras.serving.repository import ModelSettings

_PACKAGES = {"starlette": "starlette", "uvicorn": "uvicorn", "httptools": "httptools", "orjson": "orjson"}
_PACKAGES |= {"prometheus_client": "prometheus-client", "grpc": "grpcio"}  # module: package
_KEY_VARIABLE = "BERT_KERAS_API_KEY"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_model("artifacts", "folder of the model", nargs="?")
    options.add_repeatable("--model", "NAME=FOLDER", "a model and its name in URLs")
    group = options.add_group("models")
    engines = ("onnxruntime", "openvino", "tensorflow", "keras")
    group.add_option("--engine", engines, "runtime; keras runs checkpoints (default: onnxruntime for an ONNX file)")
    group.add_flag("--quantized", "run the 8-bit ONNX file of each folder")
    group.add_option("--threads", positive_integer, "threads per instance (default: 1, or all cores with one instance)")
    group.add_option("--instances", positive_integer, "batches at the same time (default: one per core; TensorFlow: 1)")
    group.add_option("--versions", positive_integer, "number of newest versions to serve", 1)
    group.add_repeatable("--label", "[NAME/]LABEL=N", "label of version N")
    group.add_setting(ServerSettings, "poll_seconds", positive_number, "--poll")
    group = options.add_group("network")
    group.add_setting(ServerSettings, "host", str, metavar="HOST")
    group.add_setting(ServerSettings, "port", non_negative_integer)
    group.add_setting(ServerSettings, "grpc_port", non_negative_integer)
    group.add_flag("--no-grpc", "HTTP only")
    group.add_option("--tls-cert", pathlib.Path, "certificate for TLS, PEM", dest="tls_certificate")
    group.add_option("--tls-key", pathlib.Path, "key of the certificate, PEM")
    group.add_option("--api-key-file", pathlib.Path, "file with the key that clients must send")
    group.add_repeatable("--cors", "ORIGIN", "web page that may call; * for all")
    group = options.add_group("limits")
    group.add_setting(ServerSettings, "timeout", positive_number)
    for name in ("max_requests", "max_texts", "max_payload"):
        group.add_setting(ServerSettings, name, positive_integer)
    group.add_setting(ServerSettings, "drain_seconds", non_negative_number, "--drain")
    options.add_flag("--access-log", "print a line per request")
    text = "send traces to this OpenTelemetry collector (OTLP over HTTP)"
    options.add_option("--otlp", str, text, metavar="URL", dest="otlp_endpoint")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    for module, package in _PACKAGES.items():
        if not is_installed(module):
            raise MissingExtraError("bert-keras serve", package, "serve")
    models, settings = check_all(lambda: _read_models(arguments), lambda: _read_settings(arguments))
    print_settings("serve", _describe(models, settings))
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
    names = [field.name for field in dataclasses.fields(ServerSettings)]
    given = {name: value for name in names if (value := getattr(arguments, name, None)) is not None}
    if arguments.no_grpc:
        given["grpc_port"] = None
    return ServerSettings(**given, api_key=_read_key(arguments.api_key_file), cors_origins=tuple(arguments.cors))


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
