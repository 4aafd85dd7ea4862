"""One script of Triton's own clients, for `bert-keras serve` and for a real Triton with the exported bundle.

It checks what every server of the Open Inference Protocol (KServe v2) must do, and returns the outputs of a model.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

Outputs = dict[str, np.ndarray]


def call_server(
    http_address: str, grpc_address: str, model: str, texts: Mapping[str, Sequence[str | bytes]]
) -> dict[str, Outputs]:
    """Call a server in every way.

    Args:
        http_address: HOST:PORT.
        grpc_address: HOST:PORT.
        model: the name of the model.
        texts: the inputs of B texts, keyed by name; bytes are sent in binary form only.

    Returns:
        The outputs, `(B, N)` each, keyed by name, for each way: "HTTP, binary", "HTTP, JSON" (without bytes) and
        "gRPC". Triton's have a second dimension where a SavedModel has one number per text, so all have two here.

    Raises:
        AssertionError: the server does not follow the protocol.
    """
    outputs = {}
    with tritonclient.http.InferenceServerClient(http_address, network_timeout=60) as client:
        _check_server(client, model, texts, tritonclient.http)
        outputs["HTTP, binary"] = _infer(client, model, texts, tritonclient.http)
        if all(isinstance(text, str) for column in texts.values() for text in column):
            options = {"input_options": {"binary_data": False}, "output_options": {"binary_data": False}}
            outputs["HTTP, JSON"] = _infer(client, model, texts, tritonclient.http, **options)
    with tritonclient.grpc.InferenceServerClient(grpc_address) as client:
        _check_server(client, model, texts, tritonclient.grpc)
        outputs["gRPC"] = _infer(client, model, texts, tritonclient.grpc)
    return outputs


def read_metadata(client, model: str) -> dict:
    """Return the metadata of a model as HTTP clients get them."""
    if isinstance(client, tritonclient.http.InferenceServerClient):
        return client.get_model_metadata(model)
    metadata = client.get_model_metadata(model, as_json=True)
    sides = {
        side: [{**one, "shape": [int(size) for size in one["shape"]]} for one in metadata[side]]
        for side in ("inputs", "outputs")
    }
    return {**metadata, **sides}


def _check_server(client, model: str, texts: Mapping[str, Sequence], module) -> None:
    """Check health, metadata, the request's id, the selection of outputs, and errors."""
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready(model)
    assert not client.is_model_ready("no_such_model")
    metadata = read_metadata(client, model)
    assert metadata["name"] == model
    assert metadata["versions"]
    assert {one["name"]: one["datatype"] for one in metadata["inputs"]} == dict.fromkeys(texts, "BYTES")
    assert client.is_model_ready(model, metadata["versions"][0])

    names = [one["name"] for one in metadata["outputs"]]
    inputs = _make_inputs(client, model, texts, module)
    wanted = [module.InferRequestedOutput(name) for name in names[:1]]
    result = client.infer(model, inputs, outputs=wanted, request_id="request 7")
    response = result.get_response()
    assert (response["id"] if module is tritonclient.http else response.id) == "request 7"
    assert result.as_numpy(names[0]) is not None
    assert all(result.as_numpy(name) is None for name in names[1:])

    wrong_type = [module.InferInput(one.name(), one.shape(), "FP32") for one in inputs]
    for one in wrong_type:
        one.set_data_from_numpy(np.zeros(one.shape(), np.float32))
    for arguments in (
        ("no_such_model", inputs),
        (model, [module.InferInput("no_such_input", [1], "BYTES").set_data_from_numpy(np.array([b"a"], object))]),
        (model, wrong_type),
    ):
        _check_fails(client.infer, *arguments)
    _check_fails(client.infer, model, inputs, outputs=[module.InferRequestedOutput("no_such_output")])
    _check_fails(client.get_model_metadata, "no_such_model")


def _infer(client, model: str, texts: Mapping[str, Sequence], module, input_options=(), output_options=()) -> Outputs:
    inputs = _make_inputs(client, model, texts, module, **dict(input_options))
    described = read_metadata(client, model)["outputs"]
    outputs = [module.InferRequestedOutput(one["name"], **dict(output_options)) for one in described]
    result = client.infer(model, inputs, outputs=outputs)
    number = len(next(iter(texts.values())))
    arrays = {one["name"]: result.as_numpy(one["name"]) for one in described}
    return {name: values.reshape(number, values.size // number) for name, values in arrays.items()}


def _make_inputs(client, model: str, texts: Mapping[str, Sequence], module, **options) -> list:
    """Return inputs with as many dimensions as the model's, one text per row."""
    inputs = []
    for one in read_metadata(client, model)["inputs"]:
        encoded = [text.encode() if isinstance(text, str) else text for text in texts[one["name"]]]
        array = np.array([*encoded, None], object)[:-1].reshape([-1, *(1 for _ in one["shape"][1:])])
        inputs.append(module.InferInput(one["name"], array.shape, "BYTES").set_data_from_numpy(array, **options))
    return inputs


def _check_fails(function, *arguments, **options) -> None:
    """Check that a call fails with a message."""
    with pytest.raises(InferenceServerException) as caught:
        function(*arguments, **options)
    assert caught.value.message()
