"""The Open Inference Protocol (KServe v2, Triton) over REST, with the extension for binary tensors.

https://github.com/kserve/open-inference-protocol
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pydantic

from bert_keras import __version__
from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.serving.http.endpoint import BINARY, Call, Protocol, Reply, get_header, make_json_reply
from bert_keras.serving.http.request_bodies import ListOf
from bert_keras.serving.messages.tensors import TENSOR_TYPES, decode_raw_tensor, encode_infer_tensor, find_type
from bert_keras.serving.protocols import model_calls
from bert_keras.serving.repository import ModelRepository
from bert_keras.serving.served_version import ServedVersion

_JSON_LENGTH = b"inference-header-content-length"
_PLACES = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
_INTEGERS = {kind.datatype for kind in TENSOR_TYPES if "int" in kind.dtype}


class _Tensor(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    name: str
    parameters: dict[str, Any] = {}


class InputTensor(_Tensor):
    """An input; its data is JSON, or binary after the JSON if the parameter `binary_data_size` says how long it is."""

    shape: ListOf[pydantic.NonNegativeInt]
    datatype: str
    data: list[Any] | None = None


class InferRequest(pydantic.BaseModel):
    """The inputs of a model, and the outputs that are wanted."""

    model_config = pydantic.ConfigDict(strict=True)

    id: str = ""
    parameters: dict[str, Any] = {}
    inputs: ListOf[InputTensor]
    outputs: ListOf[_Tensor] = []


class OutputTensor(pydantic.BaseModel):
    """An output."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    parameters: dict[str, Any] | None = None


class InferAnswer(pydantic.BaseModel):
    """The outputs of a model."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]


OPEN_INFERENCE = Protocol("Open Inference Protocol")


@OPEN_INFERENCE.post(
    *(f"{place}/infer" for place in _PLACES),
    body=InferRequest,
    answer=InferAnswer,
    summary="outputs of a model",
    example={"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a fine film"]}]},
    has_binary=True,
)
async def _infer(call: Call) -> Reply:
    version = model_calls.find_version(call)
    header = get_header(call.scope, _JSON_LENGTH)
    binary = b""
    if header is not None:
        if not header.isdecimal() or int(header) > len(call.body):
            raise InputError(
                f"{_JSON_LENGTH.decode()} is {quote(header)}; expected the length of the JSON part in bytes"
            )
        call.body, binary = call.body[: int(header)], call.body[int(header) :]
    request = call.parse(InferRequest)
    outputs = await infer(call, version, _read_inputs(request.inputs, binary), request.outputs)
    is_binary = bool(request.parameters.get("binary_data_output", False))
    chosen = {output.name: output.parameters.get("binary_data", is_binary) for output in reversed(request.outputs)}
    binary_names = {name for name in outputs if chosen.get(name, is_binary)}
    return _make_reply(version, request.id, outputs, binary_names)


async def infer(
    call: Any, version: ServedVersion, inputs: Mapping[str, np.ndarray], wanted: Iterable[Any]
) -> dict[str, np.ndarray]:
    """Run the signature that has these inputs.

    Args:
        call: the request, a `Call` or a `GrpcCall`.
        version: the model.
        inputs: arrays, keyed by name.
        wanted: the outputs to return, with their `name` and `parameters`; none: all.

    Raises:
        InputError, ServingError: the inputs are wrong, or an output is wanted in a form that this server does not have.
    """
    for output in wanted:
        for parameter in ("classification", "shared_memory_region"):  # extensions of Triton
            if parameter in output.parameters:
                raise InputError(
                    f"the output {quote(output.name)} has the parameter {parameter}; this server has no such "
                    "extension: leave it out"
                )
    # the protocol names no signature
    ids = {spec.name for spec in version.description["signatures"][model_calls.ID_SIGNATURE][0]}
    signature = model_calls.ID_SIGNATURE if inputs and set(inputs) <= ids else model_calls.SERVING_DEFAULT
    return await model_calls.run_signature(call, version, signature, inputs, [output.name for output in wanted])


def _read_inputs(tensors: Sequence[InputTensor], binary: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of the inputs, from JSON or from the bytes after it."""
    inputs, position = {}, 0
    for tensor in tensors:
        size = tensor.parameters.get("binary_data_size")
        if size is None:
            inputs[tensor.name] = _read_json_tensor(tensor)
            continue
        if type(size) is not int or not 0 <= size <= len(binary) - position:
            raise InputError(
                f"{tensor.name} announces {quote(size)} bytes, and {len(binary) - position:,} follow the JSON part"
            )
        data, source = binary[position : position + size], f"the input {quote(tensor.name)}"
        inputs[tensor.name] = decode_raw_tensor(tensor.datatype, tensor.shape, data, source=source)
        position += size
    if position != len(binary):
        raise InputError(f"{len(binary) - position:,} bytes after the JSON part belong to no input")
    return inputs


def _read_json_tensor(tensor: InputTensor) -> np.ndarray:
    if tensor.data is None:
        raise InputError(f"{tensor.name} has no data; expected `data`, or binary data after the JSON")
    values = tensor.data
    while values and all(isinstance(value, list) for value in values):  # the protocol allows nested lists and flat ones
        values = [one for value in values for one in value]
    is_text, is_integer = tensor.datatype == "BYTES", tensor.datatype in _INTEGERS
    if not is_text and not is_integer:
        raise InputError(f"{tensor.name} has the type {quote(tensor.datatype)}; expected BYTES or INT32")
    if wrong := [value for value in values if type(value) is not (str if is_text else int)]:
        raise InputError(f"{tensor.name} has {quote(wrong[0])}, which is not {tensor.datatype}")
    if int(np.prod(tensor.shape, dtype=object)) != len(values):
        raise InputError(f"{tensor.name} has {len(values):,} values, and its shape is {tensor.shape}: correct one")
    try:
        return np.array(values, object if is_text else np.int64).reshape(tensor.shape)
    except OverflowError:
        raise InputError(f"{tensor.name} has a number of more than 64 bits") from None


def _make_reply(
    version: ServedVersion, request_id: str, outputs: Mapping[str, np.ndarray], binary_names: Collection[str]
) -> Reply:
    described, chunks = [], []
    for output, values in outputs.items():
        datatype, shape, raw = encode_infer_tensor(values)
        entry: dict[str, Any] = {"name": output, "datatype": datatype, "shape": shape}
        if output in binary_names:
            entry["parameters"] = {"binary_data_size": len(raw)}
            chunks.append(raw)
        else:
            entry["data"] = values.ravel()
        described.append(entry)
    answer: dict[str, Any] = {"model_name": version.name, "model_version": str(version.number), "outputs": described}
    if request_id:
        answer["id"] = request_id
    reply = make_json_reply(answer)
    if not chunks:
        return reply
    length = str(len(reply.body)).encode()
    return Reply(b"".join([reply.body, *chunks]), content_type=BINARY, headers=((_JSON_LENGTH, length),))


@OPEN_INFERENCE.get(*_PLACES, summary="inputs and outputs of a model", statuses=(400, 401, 404))
async def _describe_model(call: Call) -> Reply:
    return make_json_reply(describe_model(model_calls.find_version(call), call.repository))


def describe_model(version: ServedVersion, repository: ModelRepository) -> dict[str, object]:
    """Return the metadata of a model, with the names of the fields of the protocol."""
    inputs, outputs = (
        [{"name": spec.name, "datatype": find_type(spec.dtype).datatype, "shape": list(spec.shape)} for spec in specs]
        for specs in model_calls.get_specs(version, model_calls.SERVING_DEFAULT)
    )
    return {
        "name": version.name,
        "versions": [str(one.number) for one in repository.list_versions() if one.name == version.name],
        "platform": f"bert_keras_{version.description['engine']}",
        "inputs": inputs,
        "outputs": outputs,
    }


@OPEN_INFERENCE.get(
    *(f"{place}/ready" for place in _PLACES), summary="whether a model answers", statuses=(400, 401, 404)
)
async def _get_model_ready(call: Call) -> Reply:
    version = model_calls.find_version(call)
    answer = {"name": version.name, "ready": version.is_ready}
    return make_json_reply(answer, 200 if version.is_ready else 503)


@OPEN_INFERENCE.get("/v2", summary="name and version of the server", statuses=(401,))
async def _describe_server(call: Call) -> Reply:
    return make_json_reply({"name": "bert-keras", "version": __version__, "extensions": ["binary_tensor_data"]})


@OPEN_INFERENCE.get("/v2/health/live", summary="whether the server runs", is_open=True)
async def _get_live(call: Call) -> Reply:
    return make_json_reply({"live": True})


@OPEN_INFERENCE.get("/v2/health/ready", summary="whether the server answers", statuses=(503,), is_open=True)
async def _get_ready(call: Call) -> Reply:
    is_ready = call.server.is_ready
    return make_json_reply({"ready": is_ready}, 200 if is_ready else 503)
