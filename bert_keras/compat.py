"""All internal names of other libraries that this package uses, each with its reason.

We use public APIs where they exist. Each entry says what the name is for, why no public API can replace it, and the
release in which it was last found. `tests/test_compat.py` uses every entry, so it fails with a release that lacks one.
"""

import dataclasses
import importlib
import importlib.metadata
import os
import sys
import types
from typing import Any


@dataclasses.dataclass(frozen=True)
class InternalName:
    """A name outside the public API of a library, imported on use.

    Attributes:
        library: the distribution on PyPI.
        module: the module.
        attribute: the name in the module; None: the module itself.
        last_seen: the newest release in which it was found.
        reason: what it is for, and why no public API can replace it.
    """

    library: str
    module: str
    attribute: str | None
    last_seen: str
    reason: str

    def get(self) -> Any:
        """Import the module or attribute.

        Raises:
            ImportError: the installed release does not have it.
        """
        try:
            module = importlib.import_module(self.module)
            return module if self.attribute is None else getattr(module, self.attribute)
        except (ImportError, AttributeError) as error:
            installed = importlib.metadata.version(self.library)
            raise ImportError(
                f"{self.library} {installed} has no {self}, which bert_keras.compat needs; it was last seen in "
                f"{self.library} {self.last_seen}: install that release, or correct the entry"
            ) from error

    def __str__(self) -> str:
        return self.module if self.attribute is None else f"{self.module}.{self.attribute}"


TFLITE_SCHEMA = InternalName(
    "tensorflow",
    "tensorflow.lite.python.schema_py_generated",
    None,
    "2.21.0",
    "The classes of TFLite's FlatBuffer schema, to read files and add metadata. tf.lite has no reader; the package "
    "tflite has one, which ends at the schema of 2.18.",
)
TFLITE_CONVERTER_ERROR = InternalName(
    "tensorflow",
    "tensorflow.lite.python.convert_phase",
    "ConverterError",
    "2.21.0",
    "tf.lite.TFLiteConverter.convert raises it for operators that TFLite lacks; its only base class is Exception.",
)


def import_onnxruntime() -> types.ModuleType:
    """Import onnxruntime without its usage data.

    From 1.29 on, the packages for Linux send usage data by default (onnxruntime's pull request 27379), and write it to
    `~/.cache/Microsoft` before. The variable is read when the first session is created.

    Raises:
        ImportError: onnxruntime is not installed.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


def import_huggingface_hub() -> types.ModuleType:
    """Import huggingface_hub without its usage data.

    Without the variable, which it reads when it is imported, every request names the versions of other installed
    packages and the coding assistant that runs the program (huggingface_hub 2.4.0, `utils/_headers.py`).
    A program that imported it before, or set the variable, keeps its choice.

    Raises:
        ImportError: huggingface_hub is not installed.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import huggingface_hub

    return huggingface_hub


def import_openvino() -> types.ModuleType:
    """Import openvino without its telemetry.

    `import openvino` (2026.4) imports `openvino_telemetry`, which is installed with it, and sends an event to Google
    Analytics. It has no public switch but an opt-out per user; without the package it uses an empty stub. So the
    package is hidden while openvino is imported. Nothing changes if the program has imported openvino before.

    Raises:
        ImportError: openvino is not installed.
    """
    if "openvino" in sys.modules:
        return sys.modules["openvino"]
    hidden = "openvino_telemetry"
    before = sys.modules.get(hidden)
    sys.modules[hidden] = None  # makes `import openvino_telemetry` raise ImportError
    try:
        return importlib.import_module("openvino")
    finally:
        del sys.modules[hidden]
        if before is not None:
            sys.modules[hidden] = before


INTERNAL_NAMES = (TFLITE_SCHEMA, TFLITE_CONVERTER_ERROR)
