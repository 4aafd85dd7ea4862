"""Write an ONNX file weight by weight, without a copy of all weights in memory.

A protobuf message is a sequence of fields, and a field that contains a message or bytes is a tag, a length and the
content. So the weights can follow a graph that was serialized without them, as long as the length before it includes
them. For base, 438 MB, this takes 0.2 GB of memory; `ModelProto.SerializeToString` and its copies took 1.9 GB.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import keras

if TYPE_CHECKING:
    import onnx

_LENGTH_DELIMITED = 2  # the wire type of a message or bytes


def write_onnx_file(path: str | os.PathLike, model: onnx.ModelProto, weights: Mapping[str, keras.Variable]) -> None:
    """Write a model with float32 variables as initializers of its graph.

    Args:
        path: the file.
        model: the model without its weights.
        weights: the variables, keyed by initializer name.
    """
    import onnx

    frame, graph = onnx.ModelProto(), model.graph.SerializeToString()
    frame.CopyFrom(model)
    frame.ClearField("graph")
    heads = {name: _encode_head(name, variable.shape) for name, variable in weights.items()}
    sizes = [len(heads[name]) + _count_bytes(variable.shape) for name, variable in weights.items()]
    with open(path, "wb") as file:
        file.write(frame.SerializeToString())
        file.write(_encode_field(onnx.ModelProto.GRAPH_FIELD_NUMBER, len(graph) + sum(sizes)) + graph)
        for name, variable in weights.items():
            file.write(heads[name] + keras.ops.convert_to_numpy(variable).astype("<f4").tobytes())


def _encode_head(name: str, shape: tuple[int, ...]) -> bytes:
    """Return the part of an initializer that precedes its values."""
    import onnx

    tensor = onnx.TensorProto(name=name, dims=shape, data_type=onnx.TensorProto.FLOAT)
    tensor_head = tensor.SerializeToString() + _encode_field(
        onnx.TensorProto.RAW_DATA_FIELD_NUMBER, _count_bytes(shape)
    )
    return _encode_field(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, len(tensor_head) + _count_bytes(shape)) + tensor_head


def _count_bytes(shape: tuple[int, ...]) -> int:
    return 4 * math.prod(shape)


def _encode_field(number: int, length: int) -> bytes:
    """Return the tag and the length at the start of a field."""
    return _encode_varint(number << 3 | _LENGTH_DELIMITED) + _encode_varint(length)


def _encode_varint(value: int) -> bytes:
    """Encode an integer in groups of 7 bits, lowest first; the high bit of a byte means that more follow."""
    groups = [value >> shift & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])
