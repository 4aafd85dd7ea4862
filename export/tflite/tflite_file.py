"""Read the operators, constants, signatures and metadata entries of a TFLite file, add metadata, and round to 4 bits.

A TFLite file is a FlatBuffer; the generated classes of its schema are part of TensorFlow.
"""

from collections.abc import Iterator
from typing import NamedTuple

import flatbuffers
import numpy as np

from bert_keras.compat import TFLITE_SCHEMA
from bert_keras.errors import InputError

schema = TFLITE_SCHEMA.get()

IDENTIFIER = b"TFL3"
_LOWEST, _HIGHEST = -8, 7
_CLIPPING = np.linspace(0.5, 1, 26)  # shares of a row's largest weight that can become the highest value


class Signature(NamedTuple):
    """The shapes of a signature's tensors, keyed by name.

    Attributes:
        inputs: in the order of the graph, which may differ from the order of the names.
        outputs: likewise.
    """

    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, tuple[int, ...]]


def parse_tflite(content: bytes, source: str = "the content") -> schema.Model:
    """Parse the content of a TFLite file.

    Args:
        content: the content.
        source: its name in the message.

    Raises:
        InputError: the content is not a TFLite file.
    """
    if content[4:8] != IDENTIFIER:
        raise InputError(f"{source} is not a TFLite file: choose a file that export wrote")
    return schema.Model.GetRootAs(content, 0)


def list_operators(file: schema.Model) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a file's builtin operators and of the others (custom ones, and TensorFlow's: "Flex")."""
    names = {number: name for name, number in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
    builtin, other = set(), set()
    for code in map(file.OperatorCodes, range(file.OperatorCodesLength())):
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())  # the older field ends at 127
        if number == schema.BuiltinOperator.CUSTOM:
            other.add(code.CustomCode().decode())
        else:
            builtin.add(names[number])
    return tuple(sorted(builtin)), tuple(sorted(other))


def count_constant_bytes(file: schema.Model) -> int:
    """Return the size of a file's constant tensors, where shared ones are counted once."""
    return sum(file.Buffers(index).DataLength() for index in {tensor.Buffer() for tensor in _list_tensors(file)})


def list_constant_types(file: schema.Model) -> set[str]:
    """Return the types of a file's constant tensors: "FLOAT32", "FLOAT16", "INT8" and so on."""
    names = {number: name for name, number in vars(schema.TensorType).items() if not name.startswith("_")}
    return {names[tensor.Type()] for tensor in _list_tensors(file) if file.Buffers(tensor.Buffer()).DataLength()}


def _list_tensors(file: schema.Model) -> Iterator[schema.Tensor]:
    for graph in map(file.Subgraphs, range(file.SubgraphsLength())):
        yield from map(graph.Tensors, range(graph.TensorsLength()))


def read_signatures(file: schema.Model) -> dict[str, Signature]:
    """Return the signatures of a file, keyed by name."""
    found = {}
    for one in map(file.SignatureDefs, range(file.SignatureDefsLength())):
        graph = file.Subgraphs(one.SubgraphIndex())
        inputs = {tensor.TensorIndex(): tensor.Name().decode() for tensor in map(one.Inputs, range(one.InputsLength()))}
        outputs = {
            tensor.TensorIndex(): tensor.Name().decode() for tensor in map(one.Outputs, range(one.OutputsLength()))
        }
        found[one.SignatureKey().decode()] = Signature(
            _read_shapes(graph, graph.InputsAsNumpy(), inputs), _read_shapes(graph, graph.OutputsAsNumpy(), outputs)
        )
    return found


def _read_shapes(graph: schema.SubGraph, indices: np.ndarray, names: dict[int, str]) -> dict[str, tuple[int, ...]]:
    return {names[int(index)]: tuple(graph.Tensors(int(index)).ShapeAsNumpy().tolist()) for index in indices}


def read_metadata_entry(file: schema.Model, name: str) -> bytes | None:
    """Return the metadata entry of a name, or None if the file has no such entry."""
    for entry in map(file.Metadata, range(file.MetadataLength())):
        if entry.Name() == name.encode():
            return file.Buffers(entry.Buffer()).DataAsNumpy().tobytes()
    return None


def add_metadata_entry(content: bytes, name: str, data: bytes) -> bytes:
    """Return the content with one more metadata entry. MiniLM's 90 MB take 0.5 s and 300 MB of memory."""
    model = schema.ModelT.InitFromObj(parse_tflite(content))
    model.buffers.append(schema.BufferT(data=np.frombuffer(data, np.uint8)))
    entry = schema.MetadataT(name=name, buffer=len(model.buffers) - 1)
    model.metadata = [*(model.metadata or []), entry]
    return _write_model(model, len(content) + len(data) + 4096)


def _write_model(model: schema.ModelT, num_bytes: int) -> bytes:
    """Return the content of a file of at most `num_bytes`, because growing the buffer copies everything."""
    builder = flatbuffers.Builder(num_bytes)
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


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
    return _write_model(model, len(content))


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
