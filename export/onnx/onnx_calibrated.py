"""Quantize an ONNX file with measured ranges of activations: the schemes "smoothed", "static" and "per_token".

BERT's activations have a few channels with values ten times those of the others. With one scale per tensor they leave
only four bits for the rest. SmoothQuant (https://arxiv.org/abs/2211.10438) divides such channels and multiplies the
matrix's rows. "static" covers most channels with one fixed scale, and splits a channel beyond it into pieces:

    x = clip(x, -r, r) + (x - r when x > r) = piece_0 + piece_1 + ...

Each piece fits into 8 bits, is multiplied by the same row of the matrix, and loses nothing. 16 more rows of 384
suffice. Tables, and products without a measured range, need none.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_keras.errors import MissingExtraError
from bert_keras.export.onnx.onnx_calibration import Range
from bert_keras.export.onnx.onnx_patterns import Found, Graph
from bert_keras.publishing import publish_file

if TYPE_CHECKING:
    from onnx import NodeProto


_STEPS = 255
_MARGIN = 1.1  # texts that are not in the calibration have larger values
_ROWS_PER_PIECE = 24  # at most K / 24 additional rows, a multiple of 16: 16 for 384, 64 for 1,536
_MIN_GAIN = 0.75  # pieces must narrow the range at least to this share
_ONE_SIDED = 0.1  # GELU's outputs are at least -0.17
_MAX_PAIR_SUM = 127  # of two neighbouring weights, at most 128 when rounded
# share of the outliers that moves from the activations to the matrix; with a scale per token less needs to move
_SMOOTHING, _TOKEN_SMOOTHING = 0.75, 0.5
_FLOAT = 1  # onnx.TensorProto.FLOAT
_MAX_INT8, _MAX_INT7 = 127, 64


@dataclasses.dataclass(frozen=True)
class Pieces:
    """How the channels of an activation (T, K) are stored in 8 bits: `round(x / scale) + zero_point`, clipped.

    Attributes:
        scale: the step.
        zero_point: 0 to 255.
        channels: `(M,)` int64, the channel of each additional piece.
        offsets: `(M,)` float32, subtracted from the channel before it is stored.
        baselines: `(M,)` float32, the value that is stored for a channel within the range of the others.
    """

    scale: float
    zero_point: int
    channels: np.ndarray
    offsets: np.ndarray
    baselines: np.ndarray


def write_calibrated_onnx(
    float_path: str | os.PathLike, path: str | os.PathLike, ranges: Mapping[str, Range], scheme: str = "smoothed"
) -> None:
    """Write an 8-bit ONNX file of standard operators, given the ranges of its activations.

    Embedding tables have one scale per row. A masked-LM head tied to the token table multiplies with the table's 8-bit
    values in float32. Products without a bias or a measured range have 7-bit weights and a scale per tensor, computed
    at run time. In the others, two neighbouring weights of a column have a sum of at most 128: processors without VNNI
    add two products in 16 bits and would clip a larger one. That costs 0.5 bits, 7-bit weights cost 1.

    Args:
        float_path: a file that `write_onnx` wrote.
        path: the file to write; it appears complete or not at all.
        ranges: the ranges of the activations, from `measure_ranges`.
        scheme: "smoothed": channels are divided as in SmoothQuant, and a scale per tensor is computed at run time;
            "static": one fixed scale per tensor, and pieces; "per_token": a scale per token, computed at run time, and
            divided channels, which is the most accurate and the slowest.

    Raises:
        MissingExtraError: onnx is not installed.
    """
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("8-bit ONNX", "onnx", "onnx") from error
    graph = Graph(onnx.load(float_path))
    graph.replace_all(("Gather", "table", "ids", {"axis": 0}), gather_quantized)
    graph.replace_all(("MatMul", "x", ("Transpose", "table")), multiply_by_quantized_table)
    done: set[str] = set()
    graph.replace_nodes("Add", lambda graph, node: _replace_product(graph, node, ranges, _SCHEMES[scheme], done))
    graph.replace_nodes(
        "MatMul", lambda graph, node: None if node.output[0] in done else _multiply_integers(graph, node)
    )
    with publish_file(path) as staging:
        onnx.save(graph.build_model(), staging)


def plan_pieces(measured: Range) -> Pieces:
    """Return the finest step with which an activation fits into 8 bits and a few pieces.

    The range is symmetric, or, for GELU and ReLU, begins at the smallest value.
    """
    low, high = (np.minimum(measured.low, 0).astype("float64"), np.maximum(measured.high, 0).astype("float64"))
    largest = max(high.max(), -low.min(), 1e-6) * _MARGIN
    is_one_sided = -low.min() < _ONE_SIDED * high.max()
    high = high * _MARGIN
    low = np.full_like(low, low.min()) if is_one_sided else low * _MARGIN
    limit = 16 * max(1, round(len(low) / _ROWS_PER_PIECE / 16))
    bounds = [(low.min() if is_one_sided else -top, top) for top in np.geomspace(largest / 100, largest, 200)]
    bounds = [(begin, end) for begin, end in bounds if sum(map(np.sum, _count_pieces(low, high, begin, end))) <= limit]
    begin, end = bounds[0]
    if end > _MIN_GAIN * largest:
        begin, end = bounds[-1]
    scale = (end - begin) / _STEPS
    zero_point = round(-begin / scale)
    above, below = _count_pieces(low, high, begin, end)
    channels, offsets, baselines = [], [], []
    for counts, sign, baseline in ((above, 1, -zero_point), (below, -1, _STEPS - zero_point)):
        for channel in np.flatnonzero(counts):
            for number in range(1, int(counts[channel]) + 1):
                channels.append(channel)
                offsets.append(sign * number * _STEPS * scale)
                baselines.append(baseline * scale)
    return Pieces(
        scale, zero_point, np.array(channels, "int64"), np.array(offsets, "float32"), np.array(baselines, "float32")
    )


def quantize_columns(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a kernel (K, N) in 8 bits and its column scales (N,); two neighbours in a column sum up to at most 128."""
    sizes = np.abs(kernel)
    padded = np.concatenate([sizes, np.zeros((len(sizes) % 2, sizes.shape[1]), sizes.dtype)])
    scales = ((padded[::2] + padded[1::2]).max(axis=0) / _MAX_PAIR_SUM).astype("float32")
    scales[scales < np.finfo("float32").tiny] = 1  # a column of zeros
    return np.rint(kernel / scales).astype("int8"), scales


def _count_pieces(low: np.ndarray, high: np.ndarray, begin: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of pieces of each channel above and below the range from `begin` to `end`."""
    width = end - begin
    return np.ceil(np.maximum(high - end, 0) / width), np.ceil(np.maximum(begin - low, 0) / width)


def _replace_product(
    graph: Graph, node: NodeProto, ranges: Mapping[str, Range], multiply: Callable, done: set[str]
) -> list[NodeProto] | None:
    """Return nodes that compute a product with a bias in 8 bits; None: leave the addition unchanged."""
    found = graph.match(("Add", ("MatMul", "x", "kernel"), "bias"), node.output[0])
    if found is None or found["bias"] not in graph.constants or found["kernel"] not in graph.constants:
        return None
    measured = ranges.get(found["x"])
    if measured is None or measured.rank != 2 or graph.constants[found["bias"]].ndim != 1:  # Gemm needs two axes
        return None
    done.update(name for name in node.input if name not in graph.constants)
    return multiply(graph, found["x"], found["kernel"], found["bias"], node.output[0], measured)


def _multiply_smoothed(graph: Graph, x: str, kernel: str, bias: str, output: str, measured: Range) -> list[NodeProto]:
    """Return nodes that divide the channels of an activation, multiply it with a scale per tensor, and add a bias."""
    factors, smooth, nodes = f"{x}_factors", f"{x}_smooth", []
    if not graph.computes(f"{x}_quantized"):
        graph.constants[factors] = 1 / _choose_divisors(measured, graph.constants[kernel], _SMOOTHING)
        nodes = graph.build(("Mul", x, factors), smooth)
    values, scales = quantize_columns(graph.constants[kernel] / graph.constants[factors][:, np.newaxis])
    weights = _add_weights(graph, kernel, values, scales)
    nodes, product = [*nodes, *_quantize_at_run_time(graph, smooth, x)], _multiply_quantized(x, weights)
    return [*nodes, *graph.build(("Add", product, bias), output)]


def _multiply_pieces(graph: Graph, x: str, kernel: str, bias: str, output: str, measured: Range) -> list[NodeProto]:
    """Return nodes that multiply an activation, with one scale for all tokens, by a kernel and add a bias."""
    pieces, nodes = plan_pieces(measured), []
    scale, zero, quantized = f"{x}_scale", f"{x}_zero_point", f"{x}_dequantized"
    if not graph.computes(quantized):  # the query, key and value projections share their input
        graph.constants |= {scale: np.float32(pieces.scale), zero: np.uint8(pieces.zero_point)}
        stored = ("QuantizeLinear", x, scale, zero)
        if len(pieces.channels):
            channels, offsets = f"{x}_channels", f"{x}_offsets"
            graph.constants |= {channels: pieces.channels, offsets: pieces.offsets}
            shifted = ("Sub", ("Gather", x, channels, {"axis": 1}), offsets)
            stored = ("Concat", stored, ("QuantizeLinear", shifted, scale, zero), {"axis": 1})
        nodes = graph.build(("DequantizeLinear", stored, scale, zero), quantized)
    weights = graph.constants[kernel]
    rows = weights[pieces.channels]
    values, scales = quantize_columns(np.concatenate([weights, rows]))
    surplus = pieces.baselines.astype("float64") @ (values[len(weights) :] * scales.astype("float64"))
    steps = (np.float32(pieces.scale) * scales).astype("float32")
    whole = np.clip(np.rint((graph.constants[bias] - surplus) / steps), -(2**31) + 1, 2**31 - 1).astype("int32")
    # constants without zero points would not be fused
    weights = ("DequantizeLinear", *_add_weights(graph, kernel, values, scales), {"axis": 1})
    biases = ("DequantizeLinear", *_add_weights(graph, bias, whole, steps), {"axis": 0})
    return [*nodes, *graph.build(("Gemm", quantized, weights, biases), output)]


def _multiply_per_token(graph: Graph, x: str, kernel: str, bias: str, output: str, measured: Range) -> list[NodeProto]:
    """Return nodes that divide each token by its largest value, multiply it in 8 bits, and add a bias."""
    lowest = float(-measured.low.min())
    is_one_sided = lowest < _ONE_SIDED * measured.high.max()
    weights, nodes = graph.constants[kernel], []
    smooth, largest, quantized = f"{x}_smoothing", f"{x}_largest", f"{x}_dequantized"
    scale, zero, axis, smallest = f"{x}_scale", f"{x}_zero_point", "last_axis", f"{x}_smallest"
    if not graph.computes(quantized):
        zero_point = 17 if is_one_sided else 128
        step = 1 / (_STEPS - zero_point) if is_one_sided else 1 / 127
        graph.constants |= {scale: np.float32(step), zero: np.uint8(zero_point), axis: np.array([-1])}
        graph.constants[smallest] = np.float32(max(lowest / (zero_point * step), 1e-6) if is_one_sided else 1e-6)
        inputs = sizes = x
        if not is_one_sided:
            graph.constants[smooth] = _choose_divisors(measured, weights, _TOKEN_SMOOTHING)
            inputs = f"{x}_smooth"
            nodes, sizes = graph.build(("Div", x, smooth), inputs), ("Abs", inputs)
        nodes += graph.build(("Max", ("ReduceMax", sizes, axis, {"keepdims": 1}), smallest), largest)
        stored = ("QuantizeLinear", ("Div", inputs, largest), scale, zero)
        nodes += graph.build(("DequantizeLinear", stored, scale, zero), quantized)
    if smooth in graph.constants:
        weights = weights * graph.constants[smooth][:, np.newaxis]
    names = _add_weights(graph, kernel, *quantize_columns(weights))
    product = ("MatMul", quantized, ("DequantizeLinear", *names, {"axis": 1}))
    return [*nodes, *graph.build(("Add", ("Mul", product, largest), bias), output)]


def _quantize_at_run_time(graph: Graph, values: str, x: str) -> list[NodeProto]:
    """Return the node that stores `values` as `{x}_quantized` in 8 bits, unless the graph already has it."""
    from onnx import helper

    names = [f"{x}_{part}" for part in ("quantized", "scale", "zero_point")]
    return [] if graph.computes(names[0]) else [helper.make_node("DynamicQuantizeLinear", [values], names)]


def _multiply_quantized(x: str, weights: Sequence[str]) -> tuple:
    """Return the expression that multiplies an activation quantized at run time by integers with column scales."""
    values, scales, zeros = weights
    sums = ("Cast", ("MatMulInteger", f"{x}_quantized", values, f"{x}_zero_point", zeros), {"to": _FLOAT})
    return ("Mul", sums, ("Mul", f"{x}_scale", scales))


def _add_weights(graph: Graph, name: str, values: np.ndarray, scales: np.ndarray) -> tuple[str, ...]:
    """Add integers, their scales and zero points to the constants of a graph, and return their names."""
    names = tuple(f"{name}_{part}" for part in ("integers", "scales", "zero_points"))
    graph.constants |= dict(zip(names, (values, scales, np.zeros(len(scales), values.dtype)), strict=True))
    return names


def _choose_divisors(measured: Range, weights: np.ndarray, share: float) -> np.ndarray:
    """Return the divisor (K,) of each channel, as in SmoothQuant; their geometric mean is 1."""
    sizes = np.maximum(np.maximum(-measured.low, measured.high), 1e-5)
    divisors = sizes**share / np.maximum(np.abs(weights).max(axis=1), 1e-5) ** (1 - share)
    return (divisors / np.exp(np.log(divisors).mean())).astype("float32")


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


def _multiply_integers(graph: Graph, node: NodeProto) -> list[NodeProto] | None:
    """Return nodes that multiply activations (..., K), quantized at run time, by a 7-bit kernel (K, N).

    The operators and numbers are those of `onnxruntime.quantization.quantize_dynamic`, whose loop over columns takes
    11 s of processor time for base; this takes 2 s.
    """
    x, kernel = node.input
    if kernel not in graph.constants:
        return None
    values = graph.constants[kernel]
    scales = np.abs(values).max(axis=0) / _MAX_INT7
    scales[scales < np.finfo("float32").tiny] = 1  # a column of zeros
    weights = _add_weights(graph, kernel, np.rint(values / scales).astype("int8"), scales)
    return [*_quantize_at_run_time(graph, x, x), *graph.build(_multiply_quantized(x, weights), node.output[0])]


def _quantize_table(graph: Graph, table: str) -> tuple[str, str]:
    """Return the names of a table (V, D) in 8 bits and of its row scales (V, 1)."""
    values = graph.constants[table]
    scales = np.maximum(np.abs(values).max(axis=1, keepdims=True) / _MAX_INT8, np.finfo("float32").tiny)
    names = f"{table}_8_bits", f"{table}_scales"
    graph.constants |= {names[0]: np.rint(values / scales).astype("int8"), names[1]: scales}
    return names


_SCHEMES = {"smoothed": _multiply_smoothed, "static": _multiply_pieces, "per_token": _multiply_per_token}
SCHEMES = tuple(_SCHEMES)
