"""Replacement for the module `triton_python_backend_utils`, which exists only inside Triton's Python process."""

import dataclasses
import importlib.util
import pathlib
import sys
from collections.abc import Mapping, Sequence

import numpy as np
from google.protobuf import json_format
from tritonclient.grpc.model_config_pb2 import ModelConfig


@dataclasses.dataclass
class Tensor:
    """An input or output."""

    name: str
    values: np.ndarray

    def as_numpy(self) -> np.ndarray:
        return self.values


class TritonError:
    """An error with a code."""

    INVALID_ARG, INTERNAL = "invalid", "internal"

    def __init__(self, message: str, code: str):
        assert isinstance(message, str)
        self.message, self.code = message, code


class InferenceResponse:
    """The outputs of a request, or its error."""

    def __init__(self, output_tensors: Sequence[Tensor] = (), error: TritonError | None = None):
        self.outputs = {tensor.name: tensor.values for tensor in output_tensors}
        self.error = error


def get_input_tensor_by_name(request: Mapping[str, Tensor], name: str) -> Tensor:
    """Return an input of a request."""
    return request[name]


def make_request(**texts: Sequence[bytes]) -> dict[str, Tensor]:
    """Return a request as Triton passes it: an array `(B, 1)` of bytes for each input."""
    return {name: Tensor(name, np.array(column, object)[:, None]) for name, column in texts.items()}


def open_model(folder: pathlib.Path, monkeypatch, config: ModelConfig, **parameters: str) -> object:
    """Return the initialized `TritonPythonModel` of a model folder.

    Args:
        folder: contains `1/model.py`.
        monkeypatch: pytest's fixture.
        config: its `config.pbtxt`.
        **parameters: replace those of the configuration.
    """
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", sys.modules[__name__])
    for name, value in {"TOKENIZERS_PARALLELISM": "false", "ORT_DISABLE_TELEMETRY": "1"}.items():
        monkeypatch.setenv(name, value)  # as the model does, but restored at the end
    spec = importlib.util.spec_from_file_location("triton_model", folder / "1/model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.TritonPythonModel()
    for name, value in parameters.items():
        config.parameters[name].string_value = value
    text = json_format.MessageToJson(config, preserving_proto_field_name=True)
    model.initialize({"model_config": text, "model_repository": str(folder)})
    return model
