"""Tensors of TensorFlow Serving keep their values, with TensorFlow as the judge; invalid ones are `InputError`s."""

import random

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tensorflow.core.framework.tensor_pb2 import TensorProto as OfficialTensorProto

from bert_keras.errors import InputError
from bert_keras.serving.messages.definitions import DATA_TYPES, MESSAGES
from bert_keras.serving.messages.tensors import MAX_REPEATED, TENSOR_TYPES, decode_tensor_proto, encode_tensor_proto
from tests.fuzzing import fuzz, mutate_bytes
from tests.marks import slow_except

TensorProto = MESSAGES.TensorProto

NUMBERS = [kind.dtype for kind in TENSOR_TYPES if not kind.is_string]
TEXTS = ["", "a", "Zürich", "東京 \U0001f600", "a\0b", "x" * 300]
SEED, QUICK, LONG = 31, 200, 10_000
INT32, STRING = DATA_TYPES["DT_INT32"], DATA_TYPES["DT_STRING"]


def numbers():
    """Arrays of any supported type of numbers, also scalars and empty arrays."""
    return st.sampled_from(NUMBERS).flatmap(
        lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    )


def strings():
    """Object arrays of bytes, also scalars and empty arrays."""
    shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0)
    return arrays.arrays(object, shapes, elements=st.binary(max_size=9))


def make_official(array: np.ndarray) -> OfficialTensorProto:
    """Return the `TensorProto` that a client of TensorFlow Serving sends."""
    return tf.make_tensor_proto(array, tf.string if array.dtype == object else array.dtype, array.shape)


def parse_in_tensorflow(proto) -> np.ndarray:
    """Return the values that TensorFlow's C++ code reads."""
    return tf.io.parse_tensor(proto.SerializeToString(), tf.DType(proto.dtype)).numpy()


def with_shape(*sizes: int, **fields) -> TensorProto:
    proto = TensorProto(**fields)
    for size in sizes:
        proto.tensor_shape.dim.add(size=size)
    return proto


def assert_equal(decoded: np.ndarray, expected: np.ndarray):
    assert decoded.dtype == expected.dtype
    assert decoded.shape == expected.shape
    np.testing.assert_array_equal(decoded, expected)


@settings(deadline=None)
@given(numbers() | strings())
def test_an_official_tensor_keeps_its_values(array):
    proto = make_official(array)
    assert_equal(decode_tensor_proto(proto), array)
    assert_equal(decode_tensor_proto(TensorProto.FromString(proto.SerializeToString())), array)


@settings(deadline=None)
@given(numbers() | strings())
def test_tensorflow_reads_the_values_of_our_tensors(array):
    content = encode_tensor_proto(array).SerializeToString()
    official = OfficialTensorProto.FromString(content)
    assert not official.tensor_content
    if array.size:  # make_ndarray turns an empty string array into one of another type
        assert_equal(tf.make_ndarray(official), array)
    read = parse_in_tensorflow(official)
    assert_equal(np.asarray(read, object) if array.dtype == object else np.asarray(read), array)
    assert_equal(decode_tensor_proto(TensorProto.FromString(content)), array)


@settings(deadline=None)
@given(st.sampled_from(TENSOR_TYPES), st.integers(0, 4), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_the_last_value_is_repeated_as_in_tensorflow(kind, num_values, num_missing, seed):
    values = np.random.default_rng(seed).integers(0, 2, num_values)
    if kind.is_string:
        values = [b"x" * value for value in values.tolist()]
    proto = OfficialTensorProto(dtype=DATA_TYPES[kind.tensorflow_name], **{kind.tensorflow_field: values})
    proto.tensor_shape.dim.add(size=num_values + num_missing)
    decoded = decode_tensor_proto(proto)
    assert_equal(decoded, np.asarray(parse_in_tensorflow(proto), kind.dtype))
    assert decoded.shape == (num_values + num_missing,)


@pytest.mark.parametrize("text", TEXTS)
def test_texts_arrive_as_utf8(text):
    decoded = decode_tensor_proto(tf.make_tensor_proto([text, "b"]))
    assert decoded.tolist() == [text.encode(), b"b"]
    official = OfficialTensorProto.FromString(encode_tensor_proto([text]).SerializeToString())
    assert tf.make_ndarray(official).tolist() == [text.encode()]


def test_arrays_of_texts_are_encoded_as_utf8():
    for array in (np.array(["é", "b"]), np.array(["é", b"b"], object), np.array([b"\xc3\xa9", b"b"])):
        assert list(encode_tensor_proto(array).string_val) == ["é".encode(), b"b"]


def test_scalars_and_empty_arrays_keep_their_shapes():
    for array in (np.float32(1.5), np.zeros((0, 3), np.int64), np.array(b"a", object)):
        proto = encode_tensor_proto(array)
        assert proto.HasField("tensor_shape")
        assert decode_tensor_proto(proto).shape == np.shape(array)


def test_big_endian_and_transposed_arrays_keep_their_values():
    array = np.arange(6, dtype=">i4").reshape(2, 3).T
    assert decode_tensor_proto(encode_tensor_proto(array)).tolist() == array.tolist()


INVALID = {
    "type": (with_shape(1, dtype=DATA_TYPES["DT_COMPLEX64"]), "the type 'DT_COMPLEX64'; expected one of DT_STRING"),
    "no type": (with_shape(1), "the type 'DT_INVALID'"),
    "number of a type": (with_shape(1, dtype=99), "the type '99'"),
    "unknown rank": (TensorProto(dtype=INT32, tensor_shape={"unknown_rank": True}), "an unknown shape"),
    "negative size": (
        with_shape(-1, dtype=INT32),
        r"the shape \[-1\]; expected at most 64 dimensions, none negative",
    ),
    "rank": (with_shape(*[1] * 65, dtype=INT32), "at most 64 dimensions"),
    "size": (with_shape(2**40, dtype=INT32), "at most 2,147,483,647 elements"),
    "empty, but large": (with_shape(0, 2**62, dtype=INT32), "at most 2,147,483,647 elements"),
    "product": (with_shape(*[2**62] * 9, dtype=INT32, int_val=[1]), "at most 2,147,483,647 elements"),
    "repeated": (with_shape(MAX_REPEATED + 1, dtype=INT32, int_val=[1]), "and 1 value in int_val; expected as many"),
    "too many": (with_shape(2, dtype=INT32, int_val=[1, 2, 3]), "a shape of 2 elements and 3 values in int_val"),
    "scalar": (TensorProto(dtype=STRING, string_val=[b"a", b"b"]), "a shape of 1 element and 2 values in string_val"),
    "content": (with_shape(2, dtype=INT32, tensor_content=b"\0" * 7), r"the shape \[2\] and 7 bytes; expected 8 bytes"),
    "strings": (with_shape(1, dtype=STRING, tensor_content=b"a"), "strings in tensor_content; expected them in"),
    "range": (with_shape(2, dtype=DATA_TYPES["DT_INT8"], int_val=[1, 300]), "the value 300 .* from -128 to 127"),
    "float16": (with_shape(1, dtype=DATA_TYPES["DT_HALF"], half_val=[-1]), "the value -1 .* from 0 to 65535"),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_tensor_is_reported_in_one_sentence(name):
    proto, message = INVALID[name]
    with pytest.raises(InputError, match=f"^input 'text' has .*{message}"):
        decode_tensor_proto(proto, source="input 'text'")


@pytest.mark.parametrize("array", [np.zeros(2, np.complex64), np.array([None]), np.array(["a", 1], object)])
def test_an_array_of_another_type_is_reported(array):
    with pytest.raises(InputError, match=r"the array has the type .*; expected strings, or one of object, bool"):
        encode_tensor_proto(array)


@pytest.mark.parametrize("count", slow_except([QUICK, LONG], quick=[QUICK]))
@pytest.mark.parametrize("kind", TENSOR_TYPES, ids=lambda kind: kind.dtype)
def test_mutated_tensors_are_read_or_reported(kind, count):
    array = np.array([[1, 0, 1], [0, 1, 1]])
    array = np.where(array, b"abc", b"").astype(object) if kind.is_string else array.astype(kind.dtype)
    contents = [proto.SerializeToString() for proto in (make_official(array), encode_tensor_proto(array))]

    def read(content: bytes):
        try:
            proto = TensorProto.FromString(content)
        except DecodeError:
            return
        decode_tensor_proto(proto)

    def mutate(rng: random.Random) -> bytes:
        return mutate_bytes(rng, rng.choice(contents))

    outcomes = fuzz(read, mutate, count=count, seed=SEED)
    assert outcomes["read"]
    assert outcomes["refused"]
