"""A gRPC server of generic handlers answers the official stubs."""

import asyncio

import grpc
import pytest
import tensorflow as tf
import tritonclient.grpc.aio as triton
from tensorflow_serving.apis import get_model_status_pb2, predict_pb2
from tensorflow_serving.apis.model_service_pb2_grpc import ModelServiceStub
from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub

from bert_keras.errors import InputError
from bert_keras.serving import grpc_server
from bert_keras.serving.messages import open_inference, tensorflow_serving
from bert_keras.serving.messages.tensors import (
    decode_infer_inputs,
    decode_tensor_proto,
    encode_infer_tensor,
    encode_tensor_proto,
)
from bert_keras.serving.protocols.grpc_call import make_generic_handler, to_snake_case

SERVICES = {
    tensorflow_serving.PREDICTION_SERVICE: tensorflow_serving.PREDICTION_METHODS,
    tensorflow_serving.MODEL_SERVICE: tensorflow_serving.MODEL_METHODS,
    open_inference.INFERENCE_SERVICE: open_inference.INFERENCE_METHODS,
    grpc_server.HEALTH_SERVICE: grpc_server.HEALTH_METHODS,
}


class Doubling:
    """Doubles its inputs in both protocols; has no method `classify`."""

    async def predict(self, request, context):
        response = tensorflow_serving.MESSAGES.PredictResponse(model_spec=request.model_spec)
        try:
            arrays = {name: decode_tensor_proto(proto) for name, proto in request.inputs.items()}
        except InputError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        for name, array in arrays.items():
            response.outputs[name].CopyFrom(encode_tensor_proto(array + array))
        return response

    async def get_model_status(self, request, context):
        status = {"version": 3, "state": tensorflow_serving.MESSAGES.ModelVersionStatus.AVAILABLE, "status": {}}
        return tensorflow_serving.MESSAGES.GetModelStatusResponse(model_version_status=[status])

    async def server_live(self, request, context):
        return open_inference.MESSAGES.ServerLiveResponse(live=True)

    async def model_infer(self, request, context):
        response = open_inference.MESSAGES.ModelInferResponse(model_name=request.model_name)
        for name, array in decode_infer_inputs(request).items():
            datatype, shape, raw = encode_infer_tensor(array + array)
            response.outputs.add(name=name, datatype=datatype, shape=shape)
            response.raw_output_contents.append(raw)
        return response

    async def check(self, request, context):
        return grpc_server.HealthCheckResponse(status=grpc_server.HealthCheckResponse.SERVING)


def with_server(ask):
    """Return what `ask(address, channel)` returns while a server runs on a free port of this machine."""

    async def run():
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(
            [make_generic_handler(name, methods, Doubling()) for name, methods in SERVICES.items()]
        )
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


def test_the_implementation_decides_the_status_of_an_error():
    request = make_predict_request(a=1.0)
    request.inputs["a"].dtype = tf.complex64.as_datatype_enum
    with pytest.raises(grpc.aio.AioRpcError, match="the tensor has the type 'DT_COMPLEX64'") as caught:
        with_server(lambda address, channel: PredictionServiceStub(channel).Predict(request))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_a_method_without_implementation_is_unimplemented():
    request = tensorflow_serving.MESSAGES.ClassificationRequest()

    def ask(address, channel):
        return channel.unary_unary(f"/{tensorflow_serving.PREDICTION_SERVICE}/Classify")(request.SerializeToString())

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        with_server(ask)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_methods_have_snake_case_names():
    names = [to_snake_case(name) for methods in SERVICES.values() for name in methods]
    assert names == [
        "predict",
        "classify",
        "regress",
        "get_model_metadata",
        "get_model_status",
        "server_live",
        "server_ready",
        "model_ready",
        "server_metadata",
        "model_metadata",
        "model_infer",
        "repository_index",
        "check",
    ]
