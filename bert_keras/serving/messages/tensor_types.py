"""`TensorType`: the types of tensors that clients can send and read, with their names in both protocols and NumPy.

Requests come from anyone, so sizes are compared with the bytes that arrived before anything is allocated.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.serving.messages.tensorflow_serving import DATA_TYPES

MAX_DIMENSIONS = 64  # of NumPy
MAX_ELEMENTS = 2**31 - 1

Buffer = bytes | bytearray | memoryview


@dataclasses.dataclass(frozen=True)
class TensorType:
    """A type of tensors.

    Attributes:
        dtype: the NumPy type; "object" for strings, which are arrays of bytes objects.
        tensorflow_name: the name in `DataType`.
        tensorflow_field: the field of `TensorProto` with the values.
        datatype: the name in the Open Inference Protocol.
        contents_field: the field of `InferTensorContents` with the values; None: values are always raw bytes.
    """

    dtype: str
    tensorflow_name: str
    tensorflow_field: str
    datatype: str
    contents_field: str | None

    @property
    def is_string(self) -> bool:
        """Whether the values are strings."""
        return self.dtype == "object"

    @property
    def stored_dtype(self) -> str:
        """The NumPy type of the values in a repeated field: of float16 the bits of each number."""
        return "uint16" if self.dtype == "float16" else self.dtype


TENSOR_TYPES = (
    TensorType("object", "DT_STRING", "string_val", "BYTES", "bytes_contents"),
    TensorType("bool", "DT_BOOL", "bool_val", "BOOL", "bool_contents"),
    TensorType("int8", "DT_INT8", "int_val", "INT8", "int_contents"),
    TensorType("int16", "DT_INT16", "int_val", "INT16", "int_contents"),
    TensorType("int32", "DT_INT32", "int_val", "INT32", "int_contents"),
    TensorType("int64", "DT_INT64", "int64_val", "INT64", "int64_contents"),
    TensorType("uint8", "DT_UINT8", "int_val", "UINT8", "uint_contents"),
    TensorType("uint16", "DT_UINT16", "int_val", "UINT16", "uint_contents"),
    TensorType("uint32", "DT_UINT32", "uint32_val", "UINT32", "uint_contents"),
    TensorType("uint64", "DT_UINT64", "uint64_val", "UINT64", "uint64_contents"),
    TensorType("float16", "DT_HALF", "half_val", "FP16", None),
    TensorType("float32", "DT_FLOAT", "float_val", "FP32", "fp32_contents"),
    TensorType("float64", "DT_DOUBLE", "double_val", "FP64", "fp64_contents"),
)
_BY_DTYPE = {kind.dtype: kind for kind in TENSOR_TYPES}
_BY_TENSORFLOW_NAME = {kind.tensorflow_name: kind for kind in TENSOR_TYPES}
_BY_DATATYPE = {kind.datatype: kind for kind in TENSOR_TYPES}
_TENSORFLOW_NAMES = {number: name for name, number in DATA_TYPES.items()}


def find_tensorflow_type(number: int, *, source: str) -> TensorType:
    """Return the type with a number of `DataType`; raise `InputError` if it is not supported."""
    return _find_type(_BY_TENSORFLOW_NAME, _TENSORFLOW_NAMES.get(number, str(number)), source)


def find_infer_type(datatype: str, *, source: str) -> TensorType:
    """Return the type with a name of the Open Inference Protocol; raise `InputError` if it is not supported."""
    return _find_type(_BY_DATATYPE, datatype, source)


def to_tensor(array: np.ndarray) -> tuple[TensorType, np.ndarray]:
    """Return the type of an array, and the array with strings as bytes and little-endian numbers.

    Raises:
        InputError: the type is not supported.
    """
    array = np.asarray(array)
    if array.dtype.kind in "USO":
        values = [value.encode() if isinstance(value, str) else value for value in array.ravel().tolist()]
        if all(isinstance(value, bytes) for value in values):
            return _BY_DTYPE["object"], to_strings(values).reshape(array.shape)
    elif array.dtype.name in _BY_DTYPE:
        return _BY_DTYPE[array.dtype.name], array.astype(array.dtype.newbyteorder("<"), copy=False)
    raise InputError(
        f"the array has the type {array.dtype}; expected strings, or one of {', '.join(_BY_DTYPE)}: convert it"
    )


def check_shape(shape: Iterable[int], *, source: str) -> tuple[int, ...]:
    """Return a shape after checking that NumPy can represent it.

    Raises:
        InputError: the shape has a negative size, or too many dimensions or elements.
    """
    shape = tuple(shape)
    if (
        len(shape) > MAX_DIMENSIONS
        or any(size < 0 for size in shape)
        # NumPy limits the product of an empty array too, of all sizes but the zeros
        or math.prod(max(1, size) for size in shape) > MAX_ELEMENTS
    ):
        raise InputError(
            f"{source} has the shape {quote(list(shape))}; expected at most {MAX_DIMENSIONS} dimensions, none "
            f"negative, and at most {MAX_ELEMENTS:,} elements: correct the shape"
        )
    return shape


def read_content(content: Buffer, kind: TensorType, shape: tuple[int, ...], *, source: str) -> np.ndarray:
    """Return the array of little-endian numbers or booleans, which shares their memory.

    Raises:
        InputError: the shape needs another number of bytes.
    """
    dtype = np.dtype(kind.dtype).newbyteorder("<")
    expected = math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise InputError(
            f"{source} has the shape {quote(list(shape))} and {len(content):,} bytes; expected {expected:,} bytes, "
            f"{dtype.itemsize} for each {kind.dtype}: correct the shape, or send all values"
        )
    if kind.dtype == "bool":
        return np.frombuffer(content, np.uint8).reshape(shape) != 0  # NumPy requires 0 or 1
    return np.frombuffer(content, dtype).reshape(shape)


def read_values(values: Sequence, kind: TensorType, *, source: str) -> np.ndarray:
    """Return the `(N,)` array of the N values of a repeated field.

    Raises:
        InputError: a number is out of range. The field of a small integer type accepts all 32-bit integers.
    """
    if kind.is_string:
        return to_strings(list(values))
    try:
        return np.fromiter(values, kind.stored_dtype, len(values)).view(kind.dtype)
    except OverflowError:
        bounds = np.iinfo(kind.stored_dtype)
        wrong = next(value for value in values if not bounds.min <= value <= bounds.max)
        raise InputError(
            f"{source} has the value {wrong} among its {kind.datatype} values; expected integers from {bounds.min} to "
            f"{bounds.max}: correct it, or choose a wider type"
        ) from None


def to_strings(values: list[bytes]) -> np.ndarray:
    """Return N strings as an `(N,)` object array."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _find_type(types: Mapping[str, TensorType], name: str, source: str) -> TensorType:
    if name not in types:
        raise InputError(f"{source} has the type {quote(name)}; expected one of {', '.join(types)}: convert the tensor")
    return types[name]
