"""TensorFlow Serving's gRPC API, called with the stubs of tensorflow-serving-api. The judge is a real SavedModel."""

import ast
import contextlib
import io
import os
import runpy
import subprocess
import sys

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.example.example_pb2 import Example
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from bert_keras.export.saved_model.op_audit import read_meta_graph
from bert_keras.export.saved_model.saved_model_artifact import build_example_requests, write_serving_files
from tests.marks import slow, slow_except

from .conftest import KINDS, SAVED
from .predictor_outputs import assert_are_answers, expect_outputs, make_texts
from .signature_inputs import assert_same_outputs, make_ids, make_inputs
from .test_faults import read_metric
from .test_versions import wait_until

SECONDS = 60  # of a call
TEXTS = ["the cat sat", "dog", ""]
PAIRS = [(text, "on a mat") for text in TEXTS]
AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(server.grpc_address) as channel:
        yield channel


@pytest.fixture(scope="module")
def stub(channel):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.fixture(scope="module")
def versions_channel(versions_server):
    with grpc.insecure_channel(versions_server.grpc_address) as channel:
        yield channel


def make_request(name, inputs, signature="", **options):
    request = predict_pb2.PredictRequest(**options)
    request.model_spec.name, request.model_spec.signature_name = name, signature
    for key, values in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(values))
    return request


def predict(stub, *arguments, **options):
    response = stub.Predict(make_request(*arguments, **options), SECONDS)
    return {name: tf.make_ndarray(proto) for name, proto in response.outputs.items()}


def make_examples(request_class, name, columns):
    """Return a request with `tf.train.Example`s of texts."""
    request = request_class()
    request.model_spec.name = name
    for texts in zip(*columns.values(), strict=True):
        features = request.input.example_list.examples.add().features.feature
        for key, text in zip(columns, texts, strict=True):
            features[key].bytes_list.value.append(text.encode())
    return request


def assert_fails(call, request, code, message):
    """Check the code and the message of an error, which is one sentence."""
    with pytest.raises(grpc.RpcError) as caught:
        call(request, SECONDS)
    assert caught.value.code() is code, caught.value.details()
    assert message in caught.value.details()
    assert "\n" not in caught.value.details()


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=SAVED))
@pytest.mark.parametrize("signature", ["serving_default", "ids"])
def test_outputs_are_those_of_the_saved_model(stub, saved_models, kind, signature):
    inputs = make_ids() if signature == "ids" else make_inputs(kind)
    assert_same_outputs(predict(stub, kind, inputs, signature), saved_models(kind)(signature, inputs))


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_the_answers_of_the_predictor(stub, predictors, kind):
    inputs = make_texts(kind)
    assert_are_answers(predict(stub, kind, inputs), expect_outputs(predictors(kind), inputs))


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=SAVED))
def test_single_and_no_texts_have_the_shapes_of_the_saved_model(stub, saved_models, kind):
    inputs = make_inputs(kind)
    for selected in (slice(0, 1), slice(3, 4), slice(0, 0)):
        some = {name: values[selected] for name, values in inputs.items()}
        assert_same_outputs(predict(stub, kind, some), saved_models(kind)("serving_default", some))


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=SAVED))
def test_metadata_are_those_of_the_saved_model(stub, saved_model_folders, kind):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = kind
    response = stub.GetModelMetadata(request, SECONDS)
    assert (response.model_spec.name, response.model_spec.version.value) == (kind, 1)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    expected = read_meta_graph(saved_model_folders(kind)).signature_def
    assert set(signatures.signature_def) == {name for name in expected if not name.startswith("__")}
    for name, signature in signatures.signature_def.items():
        assert signature.method_name == expected[name].method_name
        assert describe(signature.inputs) == describe(expected[name].inputs)
        outputs = describe(expected[name].outputs)
        if (kind, name) == ("masked_lm", "ids"):  # the server does not know the size of the embedding table
            outputs["logits"] = ("float32", [-1, -1, -1])
        assert describe(signature.outputs) == outputs


def describe(tensors):
    return {
        name: (tf.dtypes.as_dtype(info.dtype).name, [dimension.size for dimension in info.tensor_shape.dim])
        for name, info in tensors.items()
    }


def test_output_filter_and_model_spec(stub):
    request = make_request("classifier", {"text": TEXTS}, output_filter=["label", "scores"])
    response = stub.Predict(request, SECONDS)
    assert set(response.outputs) == {"label", "scores"}
    spec = response.model_spec
    assert (spec.name, spec.signature_name, spec.version.value) == ("classifier", "serving_default", 1)


def test_values_are_in_the_fields_that_clients_read(stub):
    outputs = stub.Predict(make_request("classifier", {"text": TEXTS}), SECONDS).outputs
    assert len(outputs["probabilities"].float_val) == 9
    assert len(outputs["label"].string_val) == 3
    assert len(outputs["label_id"].int_val) == 3


def test_tensors_of_other_integer_types_and_forms(stub):
    ids = make_ids()
    expected = predict(stub, "classifier", ids, "ids")
    wide = {name: values.astype(np.int64) for name, values in ids.items()}
    assert_same_outputs(predict(stub, "classifier", wide, "ids"), expected)
    request = make_request("classifier", ids, "ids")
    for name, values in ids.items():  # as C++ and Go clients write them
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
        request.inputs[name].tensor_content = values.tobytes()
        del request.inputs[name].int_val[:]
    outputs = stub.Predict(request, SECONDS).outputs
    assert_same_outputs({name: tf.make_ndarray(proto) for name, proto in outputs.items()}, expected)


@pytest.mark.parametrize("kind", ["classifier", "multi_label", "windowed_classifier"])
def test_classify(stub, predictors, kind):
    request = make_examples(classification_pb2.ClassificationRequest, kind, {"text": TEXTS})
    response = stub.Classify(request, SECONDS)
    assert response.model_spec.name == kind
    predictor = predictors(kind)
    for classes, answer in zip(response.result.classifications, predictor(TEXTS), strict=True):
        assert [one.label for one in classes.classes] == list(predictor.task.labels)
        assert [one.score for one in classes.classes] == pytest.approx(answer["probabilities"], abs=1e-5)


def test_regress(stub, predictors):
    request = make_examples(regression_pb2.RegressionRequest, "regression", {"text": TEXTS})
    values = [one.value for one in stub.Regress(request, SECONDS).result.regressions]
    assert values == pytest.approx([answer["value"] for answer in predictors("regression")(TEXTS)], abs=1e-5)


def test_features_of_the_context_are_in_each_example(stub, predictors):
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name = "pair_classifier"
    given = request.input.example_list_with_context
    given.context.features.feature["second_text"].bytes_list.value.append(b"on a mat")
    for text in TEXTS:
        given.examples.add().features.feature["text"].bytes_list.value.append(text.encode())
    classifications = stub.Classify(request, SECONDS).result.classifications
    for classes, answer in zip(classifications, predictors("pair_classifier")(PAIRS), strict=True):
        assert [one.score for one in classes.classes] == pytest.approx(answer["probabilities"], abs=1e-5)


def test_versions_and_labels(versions_channel):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(versions_channel)
    request = make_request("model", {"text": TEXTS})
    assert stub.Predict(request, SECONDS).model_spec.version.value == 12
    request.model_spec.version.value = 3
    older = stub.Predict(request, SECONDS)
    assert (older.model_spec.version.value, "label" in older.outputs) == (3, True)
    request.model_spec.version_label = "stable"
    assert stub.Predict(request, SECONDS) == older


def test_model_status(versions_channel):
    stub = model_service_pb2_grpc.ModelServiceStub(versions_channel)
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "model"
    statuses = stub.GetModelStatus(request, SECONDS).model_version_status
    assert [(one.version, one.state, one.status.error_code) for one in statuses] == [
        (12, AVAILABLE, 0),
        (3, AVAILABLE, 0),
    ]
    request.model_spec.version.value = 3
    assert [one.version for one in stub.GetModelStatus(request, SECONDS).model_version_status] == [3]
    request.model_spec.version.value = 4
    assert_fails(stub.GetModelStatus, request, grpc.StatusCode.NOT_FOUND, "model has no version 4")
    request.model_spec.name = "none"
    assert_fails(stub.GetModelStatus, request, grpc.StatusCode.NOT_FOUND, "there is no model 'none'")


@pytest.mark.parametrize(
    ("name", "inputs", "options", "code", "message"),
    [
        ("none", {"text": TEXTS}, {}, "NOT_FOUND", "there is no model 'none'"),
        ("", {"text": TEXTS}, {}, "INVALID_ARGUMENT", "model_spec has no name"),
        ("classifier", {"text": TEXTS}, {"signature": "x"}, "FAILED_PRECONDITION", "classifier has no signature 'x'"),
        ("classifier", {}, {}, "INVALID_ARGUMENT", "the input text is missing"),
        ("classifier", {"text": TEXTS, "b": [1]}, {}, "INVALID_ARGUMENT", "has no input b; expected text"),
        ("classifier", {"text": [1]}, {}, "INVALID_ARGUMENT", "text has the type int32; expected strings"),
        ("classifier", {"text": [TEXTS]}, {}, "INVALID_ARGUMENT", "text has the shape [1, 3]; expected (B,)"),
        ("classifier", {"text": TEXTS}, {"output_filter": ["x"]}, "INVALID_ARGUMENT", "has no output x; expected"),
        ("classifier", {"text": TEXTS}, {"output_filter": ["label"] * 2}, "INVALID_ARGUMENT", "each output once"),
        ("pair_classifier", {"text": TEXTS, "second_text": ["a"]}, {}, "INVALID_ARGUMENT", "different lengths"),
        ("classifier", {"input_ids": [[99]]}, {"signature": "ids"}, "INVALID_ARGUMENT", "expected 0 to"),
        ("classifier", {"input_ids": [[1.5]]}, {"signature": "ids"}, "INVALID_ARGUMENT", "expected integers"),
        ("classifier", {"input_ids": [1]}, {"signature": "ids"}, "INVALID_ARGUMENT", "expected two dimensions"),
        ("classifier", {"input_ids": np.zeros([0, 3], int)}, {"signature": "ids"}, "INVALID_ARGUMENT", "at least one"),
        ("classifier", {"text": ["a"] * 1025}, {}, "INVALID_ARGUMENT", "has 1,025 texts; expected at most 1,024"),
    ],
)
def test_error_codes_of_predict(stub, name, inputs, options, code, message):
    assert_fails(stub.Predict, make_request(name, inputs, **options), getattr(grpc.StatusCode, code), message)


def test_error_codes_of_other_methods(stub, versions_channel):
    invalid, missing = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["weights"])
    request.model_spec.name = "classifier"
    assert_fails(stub.GetModelMetadata, request, invalid, "metadata_field is ['weights']; expected signature_def")
    classification = classification_pb2.ClassificationRequest()
    classification.model_spec.name = "classifier"
    assert_fails(stub.Classify, classification, invalid, "the request has no examples")
    classification = make_examples(classification_pb2.ClassificationRequest, "embedder", {"text": TEXTS})
    assert_fails(stub.Classify, classification, invalid, "expected a model that has classes")
    classification = make_examples(classification_pb2.ClassificationRequest, "classifier", {"txt": TEXTS})
    assert_fails(stub.Classify, classification, invalid, "the features of one example are ['txt']; expected text")
    classification.input.example_list.CopyFrom(type(classification.input.example_list)(examples=[_make_number()]))
    assert_fails(stub.Classify, classification, invalid, "text has []; expected a string")
    regression = make_examples(regression_pb2.RegressionRequest, "classifier", {"text": TEXTS})
    assert_fails(stub.Regress, regression, invalid, "expected a model that predicts a number")
    versions_stub = prediction_service_pb2_grpc.PredictionServiceStub(versions_channel)
    predict_request = make_request("model", {"text": TEXTS})
    predict_request.model_spec.version.value = 4
    assert_fails(versions_stub.Predict, predict_request, missing, "model does not serve version 4")


def _make_number():
    example = Example()
    example.features.feature["text"].int64_list.value.append(5)
    return example


def test_deadline(stub):
    """A call that cannot be answered in time ends at its deadline, and the next one is answered."""
    request = make_request("null_answerer", {"question": ["the cat"] * 40, "context": ["the cat sat . " * 60] * 40})
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(request, 0.02)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert len(predict(stub, "null_answerer", make_inputs("null_answerer"))) == 11


def test_cancelled_calls_leave_no_jobs(stub, server):
    large = {"question": ["the cat"] * 20, "context": ["the cat sat . " * 200] * 20}
    futures = [stub.Predict.future(make_request("null_answerer", large), SECONDS) for _ in range(20)]
    wait_until(lambda: read_metric(server, 'bert_keras_jobs_in_progress{model="null_answerer"'), "a job")
    for future in futures:
        future.cancel()
    assert grpc.StatusCode.CANCELLED in {future.code() for future in futures}
    wait_until(lambda: not read_metric(server, "bert_keras_jobs_in_progress"), "the end of all jobs")
    assert read_metric(server, 'bert_keras_requests_total{endpoint="grpc Predict",status="1"}') > 0
    assert read_metric(server, "bert_keras_requests_in_progress") == 0


def run_script(script, address):
    """Run a script in a process of its own and return what it prints."""
    command, environment = [sys.executable, script, address], {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_script_here(script, address):
    """Run a script in this process and return what it prints."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", [str(script), address])
        runpy.run_path(str(script), run_name="__main__")
    return printed.getvalue()


@pytest.mark.parametrize("run", [run_script_here, *slow(run_script)])
@pytest.mark.parametrize("signature", ["serving_default", "ids"])
def test_exported_client_script_prints_the_outputs_of_the_saved_model(
    server, saved_models, saved_model_folders, signature, run, tmp_path
):
    [kind] = SAVED
    requests = build_example_requests(saved_model_folders(kind))
    write_serving_files(tmp_path / "serving", kind, requests=requests, min_serving="2.13")
    script = tmp_path / f"serving/request_{signature}.py"
    stdout = run(script, server.grpc_address)
    given = runpy.run_path(str(script))["INPUTS"]
    inputs = {name: np.array(values, object if dtype == "string" else dtype) for name, (dtype, values) in given.items()}
    expected = saved_models(kind)(signature, inputs)
    printed = dict(line.split(" ", 1) for line in stdout.splitlines())
    assert sorted(printed) == sorted(expected)
    for name, values in expected.items():
        shown = ast.literal_eval(printed[name])
        if values.dtype.kind == "f":
            np.testing.assert_allclose(shown, values, atol=1e-5)
        else:
            assert shown == values.tolist()
