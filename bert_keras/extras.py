"""Packages that not every installation has: looked for before the work begins, and without importing them."""

import importlib.util
import os
import sys

from bert_keras.errors import InputError, MissingExtraError

_BACKENDS = ("tensorflow", "jax")
# what writing and checking an artifact imports: packages, and the extra that brings them
_OF_ARTIFACTS = {"tflite": ("ai-edge-litert",), "onnx": ("tf2onnx", "onnx", "onnxruntime")}


def is_installed(package: str) -> bool:
    """Return whether a package can be imported, by the name under which it is installed."""
    try:
        return importlib.util.find_spec(package.replace("-", "_")) is not None
    except ModuleNotFoundError:
        return False


def check_installed(feature: str, package: str, extra: str) -> None:
    """Raise `MissingExtraError` unless a package is installed.

    Args:
        feature: what needs it, for the message.
        package: its name.
        extra: the extra of bert-keras that brings it.
    """
    if not is_installed(package):
        raise MissingExtraError(feature, package, extra)


def check_can_export(kind: str) -> None:
    """Raise `MissingExtraError` unless the packages are there that write and check an artifact of a kind.

    Args:
        kind: "saved_model", "tflite" or "onnx".
    """
    for package in _OF_ARTIFACTS.get(kind, ()):
        check_installed(f"--to {kind}", package, kind)


def check_can_run(kind: str) -> None:
    """Raise `MissingExtraError` unless the runtime of artifacts of a kind is installed."""
    for package in _OF_ARTIFACTS.get(kind, ()):
        if package != "tf2onnx":
            check_installed(f"checking a file of {kind}", package, kind)


def check_tensorflow_backend(feature: str) -> None:
    """Raise `InputError` if Keras runs on another backend than TensorFlow.

    Args:
        feature: what works with TensorFlow alone, for the message.
    """
    named = os.environ.get("KERAS_BACKEND")
    keras = sys.modules.get("keras")  # where it is loaded, it also knows what keras.json says
    backend = named or "tensorflow" if keras is None else keras.backend.backend()
    if backend != "tensorflow":
        found = f"KERAS_BACKEND is {backend!r}: unset it" if named else f"Keras runs on {backend}: correct keras.json"
        raise InputError(f"{feature} needs the TensorFlow backend, and {found}")


def check_backend() -> None:
    """Raise `InputError` if `KERAS_BACKEND` names a backend that is not supported or not installed."""
    backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
    if backend not in _BACKENDS:
        raise InputError(
            f"KERAS_BACKEND is {backend!r}; expected {' or '.join(_BACKENDS)}: set it to one of them, or unset it"
        )
    if backend == "jax":
        check_installed("KERAS_BACKEND=jax", "jax", "jax")
