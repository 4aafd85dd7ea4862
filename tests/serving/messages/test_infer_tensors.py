"""Tensors of the Open Inference Protocol keep their values, with Triton's client as the judge."""

import random

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.utils as triton_utils
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bert_keras.errors import InputError
from bert_keras.serving.messages.definitions import MESSAGES
from bert_keras.serving.messages.tensors import (
    TENSOR_TYPES,
    decode_infer_inputs,
    decode_infer_tensor,
    decode_raw_tensor,
    encode_infer_tensor,
    pack_bytes,
    unpack_bytes,
)
from tests.fuzzing import fuzz, mutate_bytes
from tests.marks import slow_except

NUMBERS = [kind.dtype for kind in TENSOR_TYPES if not kind.is_string]
SEED, QUICK, LONG = 31, 300, 10_000
ModelInferRequest = MESSAGES.ModelInferRequest
InferInputTensor = ModelInferRequest.InferInputTensor


def tensors():
    """Arrays of any supported type, also empty ones."""
    shapes = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
    numbers = st.sampled_from(NUMBERS).flatmap(lambda dtype: arrays.arrays(dtype, shapes))
    return numbers | arrays.arrays(object, shapes, elements=st.binary(max_size=9))


def make_request(array: np.ndarray, datatype: str) -> ModelInferRequest:
    """Return the request that Triton's client sends."""
    tensor = triton.InferInput("x", list(array.shape), datatype)
    tensor.set_data_from_numpy(array)
    official = triton.service_pb2.ModelInferRequest(inputs=[tensor._get_tensor()])
    official.raw_input_contents.append(tensor._get_content())
    return ModelInferRequest.FromString(official.SerializeToString())


def assert_equal(decoded: np.ndarray, expected: np.ndarray):
    assert decoded.dtype == expected.dtype
    assert decoded.shape == expected.shape
    np.testing.assert_array_equal(decoded, expected)


@settings(deadline=None)
@given(tensors())
def test_an_input_of_tritons_client_keeps_its_values(array):
    request = make_request(array, triton_utils.np_to_triton_dtype(array.dtype))
    assert_equal(decode_infer_inputs(request)["x"], array)


@settings(deadline=None)
@given(tensors())
def test_tritons_client_reads_the_values_of_our_outputs(array):
    datatype, shape, raw = encode_infer_tensor(array)
    response = MESSAGES.ModelInferResponse(raw_output_contents=[raw])
    response.outputs.add(name="y", datatype=datatype, shape=shape)
    official = triton.service_pb2.ModelInferResponse.FromString(response.SerializeToString())
    read = triton.InferResult(official).as_numpy("y")
    assert_equal(read, array)
    assert_equal(decode_infer_tensor(response.outputs[0], raw), array)


@settings(deadline=None)
@given(tensors())
def test_values_in_contents_are_read_like_raw_bytes(array):
    kind = next(kind for kind in TENSOR_TYPES if kind.dtype == array.dtype)
    tensor = InferInputTensor(name="x", datatype=kind.datatype, shape=array.shape)
    if kind.contents_field is None:
        with pytest.raises(InputError, match="has the type FP16 and no raw bytes; expected its values in raw"):
            decode_infer_tensor(tensor)
    else:
        getattr(tensor.contents, kind.contents_field).extend(array.ravel().tolist())
        assert_equal(decode_infer_tensor(tensor), array)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300)))
def test_packed_strings_are_those_of_tritons_client(values):
    packed = pack_bytes(values)
    if values:  # the client returns an empty array for no strings
        assert packed == triton_utils.serialize_byte_tensor(np.array([*values, None], object)[:-1]).item()
    assert unpack_bytes(packed, len(values)) == values
    assert unpack_bytes(memoryview(packed), len(values)) == values


def test_texts_are_encoded_as_utf8_and_scalars_have_no_dimensions():
    assert encode_infer_tensor(np.array(["é"])) == ("BYTES", [1], b"\2\0\0\0\xc3\xa9")
    assert encode_infer_tensor(np.float32(0)) == ("FP32", [], b"\0\0\0\0")
    assert decode_raw_tensor("INT8", [], b"\7").shape == ()


def test_any_byte_but_zero_is_true():
    assert decode_raw_tensor("BOOL", [3], b"\0\1\7").view(np.uint8).tolist() == [0, 1, 1]


INVALID_RAW = {
    "type": ("FP8", [1], b"a", "has the type 'FP8'; expected one of BYTES, BOOL"),
    "long type": ("x" * 1000, [1], b"a", "has the type 'xxx"),
    "too few": ("FP32", [2], b"\0" * 4, r"has the shape \[2\] and 4 bytes; expected 8 bytes, 4 for each float32"),
    "too many": ("INT64", [0], b"\0" * 8, "and 8 bytes; expected 0 bytes"),
    "negative": ("INT64", [-1], b"", r"has the shape \[-1\]; expected"),
    "two negative": ("INT64", [-1, -2], b"\0" * 16, r"has the shape \[-1, -2\]; expected"),
    "large": ("INT8", [2**62, 4], b"", "at most 2,147,483,647 elements"),
    "empty, but large": ("INT8", [0, 2**62], b"", "at most 2,147,483,647 elements"),
    "rank": ("INT8", [1] * 65, b"a", "at most 64 dimensions"),
    "no length": ("BYTES", [2], pack_bytes([b"a"]), "has 5 raw bytes, which end within string 2 of 2"),
    "part of a length": ("BYTES", [1], b"\1\0", "has 2 raw bytes, which end within string 1 of 1"),
    "truncated": ("BYTES", [1], b"\4\0\0\0abc", "has 7 raw bytes, which end within string 1 of 1; expected 4 bytes"),
    "long string": ("BYTES", [1], b"\xff" * 4 + b"abc", "end within string 1"),
    "more strings": ("BYTES", [1], pack_bytes([b"a", b"b"]), "has 10 raw bytes; expected 5 for its 1 string: correct"),
    "many strings": ("BYTES", [2**31 - 1], pack_bytes([b"a"]), "end within string 2 of 2,147,483,647"),
}


@pytest.mark.parametrize("name", INVALID_RAW)
def test_invalid_raw_bytes_are_reported_in_one_sentence(name):
    datatype, shape, raw, message = INVALID_RAW[name]
    with pytest.raises(InputError, match=f"^input 'text' .*{message}") as caught:
        decode_raw_tensor(datatype, shape, raw, source="input 'text'")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("tensor", "raw", "message"),
    [
        (
            {"datatype": "INT32", "contents": {"int_contents": [1]}},
            None,
            r"shape \[2\] and 1 value in int_contents",
        ),
        ({"datatype": "INT32", "contents": {"int64_contents": [1, 2]}}, None, "0 values in int_contents; expected 2"),
        ({"datatype": "INT32"}, None, "and 0 values in int_contents; expected 2: correct the shape, or send all"),
        ({"datatype": "UINT8", "contents": {"uint_contents": [1, 256]}}, None, "the value 256 .* from 0 to 255"),
        ({"datatype": "INT8", "contents": {"int_contents": [1, 2]}}, b"\1\2", "both contents and raw bytes"),
    ],
)
def test_invalid_contents_are_reported_in_one_sentence(tensor, raw, message):
    with pytest.raises(InputError, match=f"^the tensor 'x' has .*{message}"):
        decode_infer_tensor(InferInputTensor(name="x", shape=[2], **tensor), raw)


def test_inputs_are_sent_once_and_in_one_way():
    one = {"datatype": "INT8", "shape": [1]}
    request = ModelInferRequest(inputs=[{"name": "a", **one}, {"name": "b", **one}], raw_input_contents=[b"\1", b"\2"])
    assert {name: array.tolist() for name, array in decode_infer_inputs(request).items()} == {"a": [1], "b": [2]}
    request.raw_input_contents.pop()
    with pytest.raises(InputError, match="the request has 2 inputs and 1 raw_input_contents; expected one for each"):
        decode_infer_inputs(request)
    request = ModelInferRequest(inputs=[{"name": "a", **one}] * 2, raw_input_contents=[b"\1", b"\2"])
    with pytest.raises(InputError, match="the request has two inputs 'a'; expected one: remove the other"):
        decode_infer_inputs(request)


@pytest.mark.parametrize("count", slow_except([QUICK, LONG], quick=[QUICK]))
@pytest.mark.parametrize("kind", TENSOR_TYPES, ids=lambda kind: kind.dtype)
def test_mutated_requests_are_read_or_reported(kind, count):
    array = np.array([[1, 0, 1], [0, 1, 1]])
    array = np.where(array, b"abc", b"").astype(object) if kind.is_string else array.astype(kind.dtype)
    contents = [make_request(array, kind.datatype).SerializeToString()]
    if kind.contents_field:
        values = {kind.contents_field: array.ravel().tolist()}
        tensor = InferInputTensor(name="x", datatype=kind.datatype, shape=array.shape, contents=values)
        contents.append(ModelInferRequest(inputs=[tensor]).SerializeToString())

    def read(content: bytes):
        try:
            request = ModelInferRequest.FromString(content)
        except DecodeError:
            return
        decode_infer_inputs(request)

    def mutate(rng: random.Random) -> bytes:
        return mutate_bytes(rng, rng.choice(contents))

    outcomes = fuzz(read, mutate, count=count, seed=SEED)
    assert outcomes["read"]
    assert outcomes["refused"]
