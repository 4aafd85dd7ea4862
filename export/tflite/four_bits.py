"""Round the 8-bit matrices of a TFLite file to 4 bits, for `dynamic_int4` files."""

from collections.abc import Iterator

import flatbuffers
import numpy as np

from bert_keras.export.tflite.tflite_file import IDENTIFIER, parse_tflite, schema

_LOWEST, _HIGHEST = -8, 7
_CLIPPING = np.linspace(0.5, 1, 26)  # shares of a row's largest weight that can become the highest value


def round_to_four_bits(content: bytes) -> bytes:
    """Return a dynamic int8 file whose matrix products have 4-bit weights; lookup tables keep 8 bits.

    Each row of a matrix (an output channel) has one scale, the one with the smallest squared error: it clips the
    largest weights. LiteRT quantizes activations to 8 bits at run time, as in dynamic int8. Rows of odd length stay as
    they are, because two weights share a byte.
    """
    model = schema.ModelT.InitFromObj(parse_tflite(content))
    rounded: dict[int, np.ndarray] = {}  # the scales, keyed by buffer; the signatures of a file share buffers
    for tensor in _find_matrices(model):
        if tensor.buffer not in rounded:
            buffer = model.buffers[tensor.buffer]
            values = np.asarray(buffer.data).view(np.int8).reshape(tensor.shape)
            scales = np.asarray(tensor.quantization.scale, np.float32)[:, np.newaxis]
            values, rounded[tensor.buffer] = _round_rows(values * scales)
            buffer.data = _pack(values)
        tensor.type = schema.TensorType.INT4
        tensor.quantization.scale = rounded[tensor.buffer]
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


def _find_matrices(model: schema.ModelT) -> Iterator[schema.TensorT]:
    """Yield the constant 8-bit weights of matrix products, which are used by nothing else."""
    is_product = [
        max(code.builtinCode, code.deprecatedBuiltinCode) == schema.BuiltinOperator.FULLY_CONNECTED
        for code in model.operatorCodes
    ]
    weights, others = [], set()
    for graph in model.subgraphs:
        for operator in graph.operators:
            for place, index in enumerate(operator.inputs):
                tensor = graph.tensors[index]
                if is_product[operator.opcodeIndex] and place == 1:
                    weights.append(tensor)
                else:
                    others.add(tensor.buffer)
    for tensor in weights:
        is_constant = model.buffers[tensor.buffer].data is not None and tensor.buffer not in others
        if is_constant and tensor.type == schema.TensorType.INT8 and tensor.shape[-1] % 2 == 0:
            yield tensor


def _round_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the int8 values from -8 to 7 `(N, M)` of a matrix, and the float32 scale of each row `(N,)`."""
    largest = np.maximum(np.abs(matrix).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    values, scales = np.zeros_like(matrix), np.zeros_like(largest)
    errors = np.full_like(largest, np.inf)
    for share in _CLIPPING:
        tried = (largest * share / _HIGHEST).astype(np.float32)
        rounded = np.clip(np.round(matrix / tried), _LOWEST, _HIGHEST)
        error = np.square(rounded * tried - matrix).sum(axis=1, keepdims=True)
        is_better = error < errors
        values, scales, errors = (
            np.where(is_better, new, old) for new, old in ((rounded, values), (tried, scales), (error, errors))
        )
    return values.astype(np.int8), scales[:, 0]


def _pack(values: np.ndarray) -> np.ndarray:
    """Return the bytes of 4-bit values, the first of two in the low half."""
    halves = values.reshape(-1, 2) & 15
    return (halves[:, 0] | halves[:, 1] << 4).astype(np.uint8)
