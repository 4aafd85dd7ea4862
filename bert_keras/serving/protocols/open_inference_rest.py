"""The Open Inference Protocol (KServe v2, Triton) over REST, with the extension for binary tensors.

https://github.com/kserve/open-inference-protocol
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pydantic

from bert_keras import __version__
from bert_keras.checks import quote
from bert_keras.serving.errors import Reason, ServingError
from bert_keras.serving.http.endpoint import BINARY, Call, Endpoint, Reply, format_plain_error, make_json_reply
from bert_keras.serving.http.json_errors import ListOf
from bert_keras.serving.messages.tensors import decode_raw_tensor, encode_infer_tensor
from bert_keras.serving.protocols.selection import find_version
from bert_keras.serving.protocols.signatures import choose_signature, get_specs, run_signature
from bert_keras.serving.protocols.tasks import STATUSES
from bert_keras.tasks.signatures import TensorSpec

_TAG = "Open Inference Protocol"
_JSON_LENGTH = b"inference-header-content-length"
DATATYPES = {"string": "BYTES", "float32": "FP32", "int32": "INT32"}
EXTENSIONS = ("binary_tensor_data",)
_INTEGERS = {"INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"}


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


_INFER = pydantic.TypeAdapter(InferRequest)


def make_open_inference_endpoints(is_ready: Any) -> list[Endpoint]:
    """Return the endpoints of the protocol.

    Args:
        is_ready: a function without arguments: whether the server is ready.
    """

    async def get_ready(call: Call) -> Reply:
        return make_json_reply({"ready": True}) if is_ready() else make_json_reply({"ready": False}, 503)

    example = {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a fine film"]}]}
    places = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")

    def get(path: str, handler: Any, summary: str, *statuses: int, is_open: bool = False) -> Endpoint:
        return Endpoint("GET", path, handler, summary, _TAG, format_plain_error, None, dict, statuses, is_open=is_open)

    return [
        *(
            Endpoint(
                "POST",
                f"{place}/infer",
                _infer,
                "outputs of a model",
                _TAG,
                format_plain_error,
                InferRequest,
                InferAnswer,
                STATUSES,
                example,
                has_binary=True,
            )
            for place in places
        ),
        *(get(place, _describe_model, "inputs and outputs of a model", 400, 401, 404) for place in places),
        *(get(f"{place}/ready", _get_model_ready, "whether a model answers", 400, 401, 404) for place in places),
        get("/v2", _describe_server, "name and version of the server", 401),
        get("/v2/health/live", _get_live, "whether the server runs", is_open=True),
        get("/v2/health/ready", get_ready, "whether the server answers", 503, is_open=True),
    ]


async def _infer(call: Call) -> Reply:
    version = find_version(call)
    header = call.get_header(_JSON_LENGTH)
    binary = b""
    if header is not None:
        if not header.isdecimal() or int(header) > len(call.body):
            raise ServingError(
                Reason.INVALID,
                f"{_JSON_LENGTH.decode()} is {quote(header)}; expected the length of the JSON part in bytes",
            )
        call.body, binary = call.body[: int(header)], call.body[int(header) :]
    request: InferRequest = call.parse(_INFER)
    inputs = _read_inputs(request.inputs, binary)
    for output in request.outputs:
        check_output_parameters(output.name, output.parameters)
    signature = choose_signature(version, list(inputs))
    outputs = await run_signature(
        call.run,
        version,
        signature,
        inputs,
        [output.name for output in request.outputs],
        max_texts=call.settings.max_texts,
    )
    is_binary = bool(request.parameters.get("binary_data_output", False))
    binary_names = {
        name
        for name in outputs
        if next(
            (one.parameters.get("binary_data", is_binary) for one in request.outputs if one.name == name), is_binary
        )
    }
    return _make_reply(version.name, version.number, request.id, outputs, binary_names)


def check_output_parameters(name: str, parameters: Iterable[str]) -> None:
    """Raise `ServingError` if an output is wanted in a form that this server does not have."""
    for parameter in ("classification", "shared_memory_region"):  # extensions of Triton
        if parameter in parameters:
            raise ServingError(
                Reason.INVALID,
                f"the output {quote(name)} has the parameter {parameter}; this server has no such extension: leave it "
                "out",
            )


def _read_inputs(tensors: Sequence[InputTensor], binary: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of the inputs, from JSON or from the bytes after it."""
    inputs, position = {}, 0
    for tensor in tensors:
        size = tensor.parameters.get("binary_data_size")
        if size is None:
            inputs[tensor.name] = _read_json_tensor(tensor)
            continue
        if type(size) is not int or not 0 <= size <= len(binary) - position:
            raise ServingError(
                Reason.INVALID,
                f"{tensor.name} announces {quote(size)} bytes, and {len(binary) - position:,} follow the JSON part",
            )
        data, source = binary[position : position + size], f"the input {quote(tensor.name)}"
        inputs[tensor.name] = decode_raw_tensor(tensor.datatype, tensor.shape, data, source=source)
        position += size
    if position != len(binary):
        raise ServingError(Reason.INVALID, f"{len(binary) - position:,} bytes after the JSON part belong to no input")
    return inputs


def _read_json_tensor(tensor: InputTensor) -> np.ndarray:
    if tensor.data is None:
        raise ServingError(Reason.INVALID, f"{tensor.name} has no data; expected `data`, or binary data after the JSON")
    values = _flatten(tensor.data)
    is_text, is_integer = tensor.datatype == "BYTES", tensor.datatype in _INTEGERS
    if not is_text and not is_integer:
        raise ServingError(
            Reason.INVALID, f"{tensor.name} has the type {quote(tensor.datatype)}; expected BYTES or INT32"
        )
    if wrong := [value for value in values if type(value) is not (str if is_text else int)]:
        raise ServingError(Reason.INVALID, f"{tensor.name} has {quote(wrong[0])}, which is not {tensor.datatype}")
    if int(np.prod(tensor.shape, dtype=object)) != len(values):
        raise ServingError(
            Reason.INVALID, f"{tensor.name} has {len(values):,} values, and its shape is {tensor.shape}: correct one"
        )
    array = np.empty(len(values), object)
    array[:] = values
    try:
        return (array if is_text else array.astype(np.int64)).reshape(tensor.shape)
    except OverflowError:
        raise ServingError(Reason.INVALID, f"{tensor.name} has a number of more than 64 bits") from None


def _flatten(values: list) -> list:
    """Return the values of nested lists; the protocol allows them flat too."""
    while values and all(isinstance(value, list) for value in values):
        values = [one for value in values for one in value]
    return values


def _make_reply(
    name: str, version: int, request_id: str, outputs: Mapping[str, np.ndarray], binary_names: set[str]
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
    answer: dict[str, Any] = {"model_name": name, "model_version": str(version), "outputs": described}
    if request_id:
        answer["id"] = request_id
    reply = make_json_reply(answer)
    if not chunks:
        return reply
    length = str(len(reply.body)).encode()
    return Reply(b"".join([reply.body, *chunks]), content_type=BINARY, headers=((_JSON_LENGTH, length),))


async def _describe_model(call: Call) -> Reply:
    version = find_version(call)
    inputs, outputs = get_specs(version, "serving_default")
    return make_json_reply(
        {
            "name": version.name,
            "versions": [str(one.number) for one in call.repository.list_versions() if one.name == version.name],
            "platform": f"bert_keras_{version.description['engine']}",
            "inputs": [describe_tensor(spec) for spec in inputs],
            "outputs": [describe_tensor(spec) for spec in outputs],
        }
    )


def describe_tensor(spec: TensorSpec) -> dict[str, object]:
    """Return the metadata of an input or output."""
    return {"name": spec.name, "datatype": DATATYPES[spec.dtype], "shape": list(spec.shape)}


async def _get_model_ready(call: Call) -> Reply:
    version = find_version(call)
    answer = {"name": version.name, "ready": version.is_ready}
    return make_json_reply(answer, 200 if version.is_ready else 503)


async def _describe_server(call: Call) -> Reply:
    return make_json_reply({"name": "bert-keras", "version": __version__, "extensions": list(EXTENSIONS)})


async def _get_live(call: Call) -> Reply:
    return make_json_reply({"live": True})
