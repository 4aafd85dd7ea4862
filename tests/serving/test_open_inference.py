"""The Open Inference Protocol (KServe v2) with Triton's own clients. The judge of outputs is a real SavedModel."""

import json

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.marks import slow_except

from .conftest import KINDS, SAVED, TEXTS
from .open_inference_script import call_server, read_metadata
from .predictor_outputs import assert_are_answers, expect_outputs, make_texts
from .signature_inputs import assert_same_outputs, make_ids, make_inputs

INFER = "/v2/models/classifier/infer"


@pytest.fixture(scope="module")
def http_address(server):
    return server.url.removeprefix("http://")


@pytest.fixture(scope="module")
def http_client(http_address):
    with tritonclient.http.InferenceServerClient(http_address, network_timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def grpc_client(server):
    with tritonclient.grpc.InferenceServerClient(server.grpc_address) as client:
        yield client


def flatten(outputs):
    """Return outputs `(B, ...)` as `(B, N)`, as `call_server` does."""
    return {name: values.reshape(len(values), values.size // len(values)) for name, values in outputs.items()}


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=SAVED))
def test_outputs_are_those_of_the_saved_model(server, http_address, saved_models, kind):
    inputs = make_inputs(kind)
    texts = {name: list(values) for name, values in inputs.items()}
    outputs = call_server(http_address, server.grpc_address, kind, texts)
    assert set(outputs) == {"HTTP, binary", "gRPC"}
    expected = flatten(saved_models(kind)("serving_default", inputs))
    for way in outputs.values():
        assert_same_outputs(way, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_json_and_binary_outputs_are_the_answers_of_the_predictor(server, http_address, predictors, kind):
    inputs = make_texts(kind)
    outputs = call_server(http_address, server.grpc_address, kind, inputs)
    assert set(outputs) == {"HTTP, binary", "HTTP, JSON", "gRPC"}
    expected = flatten(expect_outputs(predictors(kind), inputs))
    for way in outputs.values():
        assert_are_answers({name: encode(values) for name, values in way.items()}, expected)


def encode(values):
    """Return an array with bytes instead of str."""
    if values.dtype.kind != "O":
        return values
    encoded = [one.encode() if isinstance(one, str) else one for one in values.ravel()]
    return np.array(encoded, object).reshape(values.shape)


@pytest.mark.parametrize("datatype", ["INT32", "INT64"])
@pytest.mark.parametrize("module", [tritonclient.http, tritonclient.grpc])
def test_token_ids_choose_the_signature_ids(http_client, grpc_client, saved_models, module, datatype):
    client = http_client if module is tritonclient.http else grpc_client
    [kind], ids = SAVED, make_ids()
    inputs = [
        module.InferInput(name, values.shape, datatype).set_data_from_numpy(values.astype(datatype.lower()))
        for name, values in ids.items()
    ]
    result = client.infer(kind, inputs)
    expected = saved_models(kind)("ids", ids)
    assert_same_outputs({"logits": result.as_numpy("logits")}, expected)


@pytest.mark.parametrize("data", [TEXTS[:2], [[TEXTS[0]], [TEXTS[1]]]], ids=["flat", "nested"])
@pytest.mark.parametrize("shape", [[2], [2, 1]])
def test_json_requests_as_in_the_protocol(server, predictors, data, shape):
    tensor = {"name": "text", "shape": shape, "datatype": "BYTES", "data": data}
    body = {"id": "7", "inputs": [tensor], "outputs": [{"name": "label"}]}
    answer = server.post(INFER, body)
    labels = [one["label"] for one in predictors("classifier")(TEXTS[:2])]
    assert answer.json() == {
        "model_name": "classifier",
        "model_version": "1",
        "id": "7",
        "outputs": [{"name": "label", "shape": [2], "datatype": "BYTES", "data": labels}],
    }


def test_an_output_that_is_wanted_twice_comes_once(server):
    """As in Triton."""
    outputs = server.post(INFER, make_tensor() | {"outputs": [{"name": "label"}] * 2}).json()["outputs"]
    assert [output["name"] for output in outputs] == ["label"]


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compressed_requests(http_client, algorithm):
    data = np.array([text.encode() for text in TEXTS], object)
    inputs = [tritonclient.http.InferInput("text", [len(TEXTS)], "BYTES").set_data_from_numpy(data)]
    plain, compressed = (
        http_client.infer("classifier", inputs, **options).as_numpy("scores")
        for options in ({}, {"request_compression_algorithm": algorithm, "response_compression_algorithm": "gzip"})
    )
    np.testing.assert_allclose(compressed, plain, atol=1e-6)


def test_one_answer_has_json_and_binary_outputs(server, predictors):
    tensor = {"name": "text", "shape": [2], "datatype": "BYTES", "data": TEXTS[:2]}
    body = {
        "inputs": [tensor],
        "parameters": {"binary_data_output": True},
        "outputs": [{"name": "label_id"}, {"name": "label", "parameters": {"binary_data": False}}],
    }
    answer = server.post(INFER, body)
    assert answer.headers["content-type"] == "application/octet-stream"
    length = int(answer.headers["inference-header-content-length"])
    head = json.loads(answer.content[:length])
    assert head["outputs"][0]["parameters"] == {"binary_data_size": 8}
    assert "data" not in head["outputs"][0]
    assert head["outputs"][1]["data"] == [one["label"] for one in predictors("classifier")(TEXTS[:2])]
    assert np.frombuffer(answer.content[length:], "<i4").shape == (2,)


def test_metadata(http_client, grpc_client):
    for client in (http_client, grpc_client):
        metadata = read_metadata(client, "classifier")
        assert (metadata["name"], metadata["versions"]) == ("classifier", ["1"])
        assert metadata["platform"] == "bert_keras_onnxruntime"
        assert metadata["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
        outputs = {one["name"]: (one["datatype"], one["shape"]) for one in metadata["outputs"]}
        assert outputs["probabilities"] == ("FP32", [-1, 3])
        assert outputs["label"] == ("BYTES", [-1])
    assert http_client.get_server_metadata()["name"] == "bert-keras"
    assert grpc_client.get_server_metadata(as_json=True)["name"] == "bert-keras"
    index = grpc_client.get_model_repository_index(as_json=True)["models"]
    assert {one["name"] for one in index} == set(KINDS)
    assert {(one["version"], one["state"]) for one in index} == {("1", "READY")}


def test_versions(versions_server):
    address = versions_server.url.removeprefix("http://")
    array = np.array([b"the cat", b"dog"], object)
    with (
        tritonclient.http.InferenceServerClient(address, network_timeout=60) as http_client,
        tritonclient.grpc.InferenceServerClient(versions_server.grpc_address) as grpc_client,
    ):
        for client, module in ((http_client, tritonclient.http), (grpc_client, tritonclient.grpc)):
            assert set(read_metadata(client, "model")["versions"]) == {"3", "12"}
            assert client.is_model_ready("model", "3")
            assert not client.is_model_ready("model", "4")
            inputs = [module.InferInput("text", [2], "BYTES").set_data_from_numpy(array)]
            assert client.infer("model", inputs).as_numpy("num_words") is not None
            assert client.infer("model", inputs, "3").as_numpy("label") is not None
            for version, message in (("4", "does not serve version 4"), ("x", "expected a number")):
                with pytest.raises(InferenceServerException, match=message):
                    client.infer("model", inputs, version)


def test_values_in_contents(grpc_client, predictors, server):
    """Clients may put values into typed fields instead of raw bytes."""
    request = service_pb2.ModelInferRequest(model_name="classifier")
    tensor = request.inputs.add(name="text", datatype="BYTES", shape=[2])
    tensor.contents.bytes_contents.extend(text.encode() for text in TEXTS[:2])
    with grpc.insecure_channel(server.grpc_address) as channel:
        response = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=60)
    [place] = [place for place, output in enumerate(response.outputs) if output.name == "label_id"]
    ids = np.frombuffer(response.raw_output_contents[place], "<i4")
    labels = predictors("classifier").task.labels
    assert [labels[number] for number in ids] == [one["label"] for one in predictors("classifier")(TEXTS[:2])]


def make_tensor(**changes):
    return {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a"], **changes}]}


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v2/models/none/infer", make_tensor(), 404, "there is no model 'none'"),
        ("/v2/models/classifier/versions/2/infer", make_tensor(), 404, "does not serve version 2"),
        (INFER, {}, 400, "inputs is missing"),
        (INFER, {"inputs": []}, 400, "the input text is missing"),
        (INFER, make_tensor(name="txt"), 400, "classifier has no input txt; expected text"),
        (INFER, make_tensor(shape=[2]), 400, "text has 1 values, and its shape is [2]"),
        (INFER, make_tensor(shape=[-1]), 400, "inputs.0.shape.0 is -1; expected at least 0"),
        (INFER, make_tensor(shape=[10**30]), 400, "text has 1 values, and its shape is [100000"),
        (INFER, make_tensor(data=[1]), 400, "text has 1, which is not BYTES"),
        (INFER, make_tensor(data=None), 400, "text has no data"),
        (INFER, make_tensor(datatype="INT32", data=[1]), 400, "text has the type int64; expected strings"),
        (INFER, make_tensor(datatype="FP32", data=[1.5]), 400, "text has the type 'FP32'; expected BYTES or INT32"),
        (INFER, make_tensor(datatype="INT64", data=[10**30]), 400, "text has a number of more than 64 bits"),
        (INFER, make_tensor(parameters={"binary_data_size": 5}), 400, "text announces 5 bytes, and 0 follow"),
        (INFER, make_tensor(parameters={"binary_data_size": "x"}), 400, "text announces 'x' bytes"),
        (INFER, make_tensor() | {"outputs": [{"name": "x"}]}, 400, "classifier has no output x; expected"),
        (
            INFER,
            make_tensor() | {"outputs": [{"name": "probabilities", "parameters": {"classification": 2}}]},
            400,
            "the output 'probabilities' has the parameter classification; this server has no such extension",
        ),
    ],
)
def test_errors_of_rest(server, path, body, status, message):
    answer = server.post(path, body)
    assert (answer.status_code, list(answer.json())) == (status, ["error"]), answer.text
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("content", "headers", "message"),
    [
        (b"{}", {"inference-header-content-length": "3"}, "is '3'; expected the length of the JSON part"),
        (b"{}", {"inference-header-content-length": "-1"}, "is '-1'; expected the length of the JSON part"),
        (b"{}1234", {"inference-header-content-length": "2"}, "inputs is missing"),
        (json.dumps(make_tensor()).encode() + b"1234", {}, "the body is not JSON"),
    ],
)
def test_errors_of_binary_bodies(server, content, headers, message):
    answer = server.request("POST", INFER, content=content, headers=headers)
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_bytes_that_belong_to_no_input(server):
    head = json.dumps(make_tensor()).encode()
    headers = {"inference-header-content-length": str(len(head))}
    answer = server.request("POST", INFER, content=head + b"1234", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (400, "4 bytes after the JSON part belong to no input")


@pytest.mark.parametrize(
    ("model", "shape", "raw", "code", "message"),
    [
        ("none", [1], b"\1\0\0\0a", "NOT_FOUND", "there is no model 'none'"),
        ("classifier", [2], b"\1\0\0\0a", "INVALID_ARGUMENT", "which end within string 2 of 2"),
        ("classifier", [1], b"\xff\xff\xff\xffa", "INVALID_ARGUMENT", "which end within string 1 of 1"),
        ("classifier", [-1], b"\1\0\0\0a", "INVALID_ARGUMENT", "none negative"),
        ("classifier", [1, 1, 1], b"\1\0\0\0a", "INVALID_ARGUMENT", "text has the shape [1, 1, 1]; expected (B,)"),
    ],
)
def test_errors_of_grpc(server, model, shape, raw, code, message):
    request = service_pb2.ModelInferRequest(model_name=model, raw_input_contents=[raw])
    request.inputs.add(name="text", datatype="BYTES", shape=shape)
    with (
        grpc.insecure_channel(server.grpc_address) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=60)
    assert caught.value.code() is getattr(grpc.StatusCode, code)
    assert message in caught.value.details()
