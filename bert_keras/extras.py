"""The environment, checked before work starts: optional packages, plug-ins, the Keras backend, the processor.

Nothing heavy is imported.
"""

import dataclasses
import importlib
import importlib.util
import json
import os
import pathlib
import platform
import subprocess
import sys
from collections.abc import Mapping

from bert_keras.checks import check_value, quote, read_field
from bert_keras.errors import InputError, MissingExtraError
from bert_keras.files import parse_json

BACKENDS = ("tensorflow", "jax")  # the Keras backends that the models are tested on
# packages that write and check an artifact, by the extra that installs them
_ARTIFACT_PACKAGES = {"tflite": ("ai-edge-litert",), "onnx": ("tf2onnx", "onnx", "onnxruntime")}
_RUN_MODULE = (
    "import json, runpy, sys; path, name = sys.argv[1:3]; del sys.argv[1:3]; sys.path[:] = json.loads(path); "
    "runpy.run_module(name, run_name='__main__', alter_sys=True)"
)
_CPUINFO = pathlib.Path("/proc/cpuinfo")
_FEATURES = {  # name: flags of Linux, any of which means the feature
    "AVX2": ("avx2",),
    "AVX-512": ("avx512f",),
    "VNNI": ("avx512_vnni", "avx_vnni"),
    "BF16": ("avx512_bf16",),
    "AMX": ("amx_int8", "amx_bf16", "amx_tile"),
    "NEON": ("neon", "asimd"),
}
PLUGINS_VARIABLE = "BERT_KERAS_PLUGINS"


def load_plugins() -> None:
    """Import the modules in `BERT_KERAS_PLUGINS`, separated by commas; worker processes inherit the variable.

    Each module calls `register_head` of `bert_keras.heads.known_heads`, `register_architecture` of
    `bert_keras.architectures.known_architectures` or `register_objective` of `bert_keras.heads.embed`.

    Raises:
        InputError: a module cannot be imported.
    """
    for name in filter(None, map(str.strip, os.environ.get(PLUGINS_VARIABLE, "").split(","))):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise InputError(
                f"{PLUGINS_VARIABLE} names the module {name}, which cannot be imported ({error}); expected modules, "
                "separated by commas: correct the variable, or unset it"
            ) from None


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


def check_tf_config() -> None:
    """Raise `InputError` unless the environment variable `TF_CONFIG` lists the workers and the index of this one."""
    source, value = "TF_CONFIG", os.environ.get("TF_CONFIG")
    expected = (
        'expected {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}, '
        "with a different index on each machine: set it, or start several workers on this machine with --workers"
    )
    if value is None:
        raise InputError(f"TF_CONFIG is not set; {expected}")
    try:
        config = parse_json(value, source)
        task, cluster = (read_field(config, name, dict, source=source) for name in ("task", "cluster"))
        addresses = read_field(cluster, read_field(task, "type", str, source=source), list[str], source=source)
        index = int(task["index"])  # some cluster managers write it as a string
        check_value(index, int, name="index", source=source, minimum=0, maximum=len(addresses) - 1)
    except (ValueError, KeyError, TypeError, OverflowError):
        raise InputError(f"TF_CONFIG is {quote(value)}; {expected}") from None


@dataclasses.dataclass(frozen=True)
class Processor:
    """A processor.

    Attributes:
        model: its name.
        features: those of AVX2, AVX-512, VNNI, BF16, AMX and NEON that it has.
    """

    model: str
    features: tuple[str, ...]


def read_processor(cpuinfo: pathlib.Path = _CPUINFO) -> Processor:
    """Return the processor of this machine. Without `/proc/cpuinfo` its features are unknown, so empty.

    Args:
        cpuinfo: the file in which Linux describes the processor.
    """
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        features = ("NEON",) if platform.machine() in ("arm64", "aarch64") else ()
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]  # of macOS
        try:
            model = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            model = ""
        return Processor(model or platform.processor() or platform.machine(), features)
    pairs = [line.partition(":") for line in lines]
    values = {name.strip(): value.strip() for name, _, value in reversed(pairs)}  # of the first core
    flags = set(values.get("flags", values.get("Features", "")).split())
    features = tuple(name for name, names in _FEATURES.items() if flags.intersection(names))
    return Processor(values.get("model name") or platform.machine(), features)
