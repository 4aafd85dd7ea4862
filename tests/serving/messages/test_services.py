"""Our gRPC services answer the official stubs."""

import asyncio

import grpc
import pytest
import tensorflow as tf
import tritonclient.grpc.aio as triton
from tensorflow_serving.apis import get_model_status_pb2, predict_pb2
from tensorflow_serving.apis.model_service_pb2_grpc import ModelServiceStub
from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub

from bert_keras.serving import grpc_server
from bert_keras.serving.grpc_server import GrpcService
from bert_keras.serving.messages.definitions import MESSAGES, find_methods
from bert_keras.serving.messages.tensors import (
    decode_infer_inputs,
    decode_tensor_proto,
    encode_infer_tensor,
    encode_tensor_proto,
)
from bert_keras.serving.repository import ModelRepository
from bert_keras.serving.server_state import ServerState
from bert_keras.serving.settings import ServerSettings

PREDICTION, MODEL, INFERENCE, HEALTH = SERVICES = [GrpcService(service.name) for service in grpc_server.SERVICES]


@PREDICTION.method("Predict", is_inference=True)
async def double(call, request):
    response = MESSAGES.PredictResponse(model_spec=request.model_spec)
    for name, proto in request.inputs.items():
        array = decode_tensor_proto(proto)
        response.outputs[name].CopyFrom(encode_tensor_proto(array + array))
    return response


@MODEL.method("GetModelStatus")
async def get_model_status(call, request):
    status = {"version": 3, "state": MESSAGES.ModelVersionStatus.AVAILABLE, "status": {}}
    return MESSAGES.GetModelStatusResponse(model_version_status=[status])


@INFERENCE.method("ServerLive", is_open=True)
async def get_live(call, request):
    return MESSAGES.ServerLiveResponse(live=True)


@INFERENCE.method("ModelInfer", is_inference=True)
async def double_tensors(call, request):
    response = MESSAGES.ModelInferResponse(model_name=request.model_name)
    for name, array in decode_infer_inputs(request).items():
        datatype, shape, raw = encode_infer_tensor(array + array)
        response.outputs.add(name=name, datatype=datatype, shape=shape)
        response.raw_output_contents.append(raw)
    return response


@HEALTH.method("Check", is_open=True)
async def check(call, request):
    return MESSAGES.HealthCheckResponse(status=MESSAGES.HealthCheckResponse.SERVING)


def with_server(ask):
    """Return what `ask(address, channel)` returns while a server runs on a free port of this machine."""

    async def run():
        server = grpc.aio.server()
        state = ServerState(ModelRepository([], print), ServerSettings(), print)
        server.add_generic_rpc_handlers([service.make_handler(state) for service in SERVICES])
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        try:
            async with grpc.aio.insecure_channel(address) as channel:
                return await asyncio.wait_for(ask(address, channel), timeout=30)
        finally:
            await server.stop(grace=None)

    return asyncio.run(run())


def make_predict_request(**inputs) -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "double"
    request.model_spec.version.value = 3
    for name, values in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    return request


def test_the_official_stub_gets_predictions():
    request = make_predict_request(text=[["né"], ["b"]], number=[1.5, -2.0])
    response = with_server(lambda address, channel: PredictionServiceStub(channel).Predict(request))
    assert type(response) is predict_pb2.PredictResponse
    assert response.model_spec == request.model_spec
    assert tf.make_ndarray(response.outputs["text"]).tolist() == [["néné".encode()], [b"bb"]]
    assert list(response.outputs["number"].float_val) == [3.0, -4.0]


def test_the_official_stub_gets_the_status_of_a_model():
    request = get_model_status_pb2.GetModelStatusRequest()
    response = with_server(lambda address, channel: ModelServiceStub(channel).GetModelStatus(request))
    [status] = response.model_version_status
    assert (status.version, status.state) == (3, get_model_status_pb2.ModelVersionStatus.AVAILABLE)


def test_tritons_client_gets_outputs():
    tensor = triton.InferInput("x", [2], "BYTES")
    tensor.set_data_from_numpy(tf.constant(["a", "é"]).numpy())

    async def ask(address, channel):
        async with triton.InferenceServerClient(address) as client:
            return await client.is_server_live(), await client.infer("double", [tensor])

    is_live, result = with_server(ask)
    assert is_live
    assert result.as_numpy("x").tolist() == [b"aa", "éé".encode()]


def test_a_health_check_gets_its_status():
    def ask(address, channel):
        return channel.unary_unary("/grpc.health.v1.Health/Check")(b"")

    assert with_server(ask) == b"\x08\x01"  # SERVING


def test_an_invalid_input_is_an_invalid_argument():
    request = make_predict_request(a=1.0)
    request.inputs["a"].dtype = tf.complex64.as_datatype_enum
    with pytest.raises(grpc.aio.AioRpcError, match="the tensor has the type 'DT_COMPLEX64'") as caught:
        with_server(lambda address, channel: PredictionServiceStub(channel).Predict(request))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_a_method_without_implementation_is_unimplemented():
    request = MESSAGES.ClassificationRequest()

    def ask(address, channel):
        return channel.unary_unary(f"/{PREDICTION.name}/Classify")(request.SerializeToString())

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        with_server(ask)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_every_method_is_answered():
    for service in grpc_server.SERVICES:
        handler = service.make_handler(server=None)
        for name in find_methods(service.name):
            details = type("Details", (), {"method": f"/{service.name}/{name}", "invocation_metadata": ()})
            assert handler.service(details) is not None, name
