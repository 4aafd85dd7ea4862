"""Check for optional packages before work starts, without importing them; run our modules with the same packages."""

import importlib.util
import json
import os
import sys
from collections.abc import Mapping

from bert_keras.errors import InputError, MissingExtraError

BACKENDS = ("tensorflow", "jax")  # the Keras backends that the models are tested on
# packages that write and check an artifact, by the extra that installs them
_ARTIFACT_PACKAGES = {"tflite": ("ai-edge-litert",), "onnx": ("tf2onnx", "onnx", "onnxruntime")}


_RUN_MODULE = (
    "import json, runpy, sys; path, name = sys.argv[1:3]; del sys.argv[1:3]; sys.path[:] = json.loads(path); "
    "runpy.run_module(name, run_name='__main__', alter_sys=True)"
)


def make_python_command(module: str) -> list[str]:
    """Return a command that runs one of our modules in another process, where it finds the packages of this one.

    `python -m MODULE` searches the current folder first. In a clone that is a folder `bert_keras` without `pipelines`
    and `export`, which an installed package contains.
    """
    return [sys.executable, "-c", _RUN_MODULE, json.dumps(sys.path), module]


def is_installed(package: str) -> bool:
    """Whether a package, named as on PyPI, can be imported."""
    try:
        return importlib.util.find_spec(package.replace("-", "_")) is not None
    except ModuleNotFoundError:
        return False


def check_installed(feature: str, package: str, extra: str) -> None:
    """Raise `MissingExtraError` unless a package is installed.

    Args:
        feature: the feature that needs it, for the message.
        package: the package's name on PyPI.
        extra: the extra of bert-keras that installs it.
    """
    if not is_installed(package):
        raise MissingExtraError(feature, package, extra)


def check_can_export(kind: str) -> None:
    """Raise `MissingExtraError` unless the packages that write and check a kind of artifact are installed.

    Args:
        kind: "saved_model", "tflite" or "onnx".
    """
    for package in _ARTIFACT_PACKAGES.get(kind, ()):
        check_installed(f"--to {kind}", package, kind)


def check_can_run(kind: str) -> None:
    """Raise `MissingExtraError` unless the runtime of a kind of artifact is installed."""
    for package in _ARTIFACT_PACKAGES.get(kind, ()):
        if package != "tf2onnx":
            check_installed(f"checking a {kind} file", package, kind)


def check_tensorflow_backend(feature: str) -> None:
    """Raise `InputError` if the Keras backend is not TensorFlow.

    Args:
        feature: the feature that needs TensorFlow, for the message.
    """
    named = os.environ.get("KERAS_BACKEND")
    keras = sys.modules.get("keras")  # once imported, it has also read keras.json
    backend = named or "tensorflow" if keras is None else keras.backend.backend()
    if backend != "tensorflow":
        found = f"KERAS_BACKEND is {backend!r}: unset it" if named else f"Keras runs on {backend}: correct keras.json"
        raise InputError(f"{feature} needs the TensorFlow backend, and {found}")


def check_backend(variables: Mapping[str, str] = os.environ) -> None:
    """Raise `InputError` if `KERAS_BACKEND` names a backend that is not supported or not installed.

    Args:
        variables: the environment variables.
    """
    backend = variables.get("KERAS_BACKEND") or "tensorflow"
    if backend not in BACKENDS:
        raise InputError(
            f"KERAS_BACKEND is {backend!r}; expected {' or '.join(BACKENDS)}: set it to one of them, or unset it"
        )
    if backend == "jax":
        check_installed("KERAS_BACKEND=jax", "jax", "jax")
