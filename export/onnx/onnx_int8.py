"""The parts of an ONNX graph with 8-bit weights that need no measured ranges: tables, and products of 7-bit kernels.

Their operators and numbers are those of `onnxruntime.quantization.quantize_dynamic`, whose loop over columns takes 11 s
of processor time for base; this takes 2 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bert_keras.export.onnx.onnx_patterns import Found, Graph

if TYPE_CHECKING:
    from onnx import NodeProto

_FLOAT = 1  # onnx.TensorProto.FLOAT
_MAX_INT8, _MAX_INT7 = 127, 64


def gather_quantized(graph: Graph, found: Found) -> tuple | None:
    """Gather the rows of an 8-bit table and their scales."""
    if found["table"] not in graph.constants:
        return None
    rows, scales = _quantize_table(graph, found["table"])
    axis = {"axis": 0}
    return ("Mul", ("Cast", ("Gather", rows, "ids", axis), {"to": _FLOAT}), ("Gather", scales, "ids", axis))


def multiply_by_quantized_table(graph: Graph, found: Found) -> tuple | None:
    """Multiply by a transposed 8-bit table, whose rows have become columns."""
    if found["table"] not in graph.constants:
        return None
    rows, scales = _quantize_table(graph, found["table"])
    return ("Mul", ("MatMul", "x", ("Cast", ("Transpose", rows), {"to": _FLOAT})), ("Transpose", scales))


def multiply_integers(graph: Graph, node: NodeProto) -> list[NodeProto] | None:
    """Return nodes that multiply activations (..., K), quantized at run time, by a 7-bit kernel (K, N)."""
    from onnx import helper

    x, kernel = node.input
    if kernel not in graph.constants:
        return None
    quantized, scale, zero = (f"{x}_{part}" for part in ("quantized", "scale", "zero_point"))
    values, scales, zeros = _quantize_kernel(graph, kernel)
    name = node.output[0]
    nodes = [
        helper.make_node("MatMulInteger", [quantized, values, zero, zeros], [f"{name}_sums"]),
        helper.make_node("Cast", [f"{name}_sums"], [f"{name}_cast"], to=_FLOAT),
        helper.make_node("Mul", [scale, scales], [f"{name}_scales"]),
        helper.make_node("Mul", [f"{name}_cast", f"{name}_scales"], [name]),
    ]
    if graph.computes(quantized):  # the query, key and value projections share their input
        return nodes
    return [helper.make_node("DynamicQuantizeLinear", [x], [quantized, scale, zero]), *nodes]


def _quantize_kernel(graph: Graph, kernel: str) -> tuple[str, str, str]:
    """Return the names of a kernel (K, N) in 7 bits, of its column scales (N,), and of their zero points."""
    names = f"{kernel}_7_bits", f"{kernel}_scales", f"{kernel}_zero_points"
    if names[0] not in graph.constants:
        values = graph.constants[kernel]
        scales = np.abs(values).max(axis=0) / _MAX_INT7
        scales[scales < np.finfo("float32").tiny] = 1  # a column of zeros
        rounded = np.rint(values / scales).astype("int8")
        graph.constants |= dict(zip(names, (rounded, scales, np.zeros(len(scales), "int8")), strict=True))
    return names


def _quantize_table(graph: Graph, table: str) -> tuple[str, str]:
    """Return the names of a table (V, D) in 8 bits and of its row scales (V, 1)."""
    values = graph.constants[table]
    scales = np.maximum(np.abs(values).max(axis=1, keepdims=True) / _MAX_INT8, np.finfo("float32").tiny)
    names = f"{table}_8_bits", f"{table}_scales"
    graph.constants |= {names[0]: np.rint(values / scales).astype("int8"), names[1]: scales}
    return names
