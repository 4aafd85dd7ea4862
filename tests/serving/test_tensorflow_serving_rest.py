"""TensorFlow Serving's REST API in the forms of its documentation. The judge of outputs is a real SavedModel.

https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import json
import re
import shutil

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.engines.artifact_files import DESCRIPTION
from bert_keras.export.export_job import write_description
from bert_keras.export.saved_model.saved_model_artifact import build_example_requests, write_serving_files
from tests.marks import slow_except

from .conftest import KINDS, SAVED
from .predictor_outputs import assert_are_answers, expect_outputs, make_texts
from .running_server import RunningServer
from .signature_inputs import assert_same_outputs, build_rest_request, make_ids, make_inputs

ROWS = [["the cat sat", "on a mat"], ["dog", ""]]
TEXTS = [row[0] for row in ROWS]
B64 = [{"b64": base64.b64encode(text.encode()).decode()} for text in TEXTS]
PREDICT, CLASSIFY = "/v1/models/classifier:predict", "/v1/models/classifier:classify"
PREDICT_PAIRS = "/v1/models/pair_classifier:predict"
ENGINE_KINDS = ("windowed_classifier", "token_classifier", "null_answerer")
IDS = {name: values.tolist() for name, values in make_ids().items()}


def post(server, path, body):
    """Return the JSON answer to a request that the server accepts."""
    answer = server.post(path, body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def read_outputs(outputs, expected):
    """Return outputs in columns as arrays with the types of the expected ones; JSON has numbers and strings only."""
    outputs = outputs if isinstance(outputs, dict) else dict.fromkeys(expected, outputs)  # a single one has no name
    arrays = {}
    for name, values in outputs.items():
        dtype, array = expected[name].dtype, np.array(values)
        if array.size == 0:
            array = array.reshape(expected[name].shape)  # JSON has no shape without values
        elif dtype.kind == "O":
            array = np.array([text.encode() for text in array.ravel().tolist()], object).reshape(array.shape)
        else:
            assert array.dtype.kind == dtype.kind, name
        arrays[name] = array.astype(dtype)
    return arrays


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=SAVED))
@pytest.mark.parametrize("signature", ["serving_default", "ids"])
def test_outputs_are_those_of_the_saved_model(server, saved_models, kind, signature):
    inputs = make_ids() if signature == "ids" else make_inputs(kind)
    expected = saved_models(kind)(signature, inputs)
    answer = post(server, f"/v1/models/{kind}:predict", build_rest_request(signature, inputs))
    assert_same_outputs(read_outputs(answer["outputs"], expected), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_the_answers_of_the_predictor(server, predictors, kind):
    inputs = make_texts(kind)
    expected = expect_outputs(predictors(kind), inputs)
    answer = post(server, f"/v1/models/{kind}:predict", {"inputs": inputs})
    assert_are_answers(read_outputs(answer["outputs"], expected), expected)


@pytest.fixture(scope="module")
def start_engine(make_kind, saved_model_folders, tmp_path_factory):
    """Function that returns a server of the SavedModels or the checkpoints of some kinds."""

    def start(engine):
        folders = {}
        for kind in ENGINE_KINDS:
            folders[kind] = tmp_path_factory.mktemp(engine) / kind
            model, tokenizer, task = make_kind(kind)
            if engine == "keras":
                bk.save(model, tokenizer, folders[kind], task=task.settings())
            else:
                shutil.copytree(saved_model_folders(kind), folders[kind])
                write_description(model, tokenizer, folders[kind] / DESCRIPTION, task=task.settings())
        return RunningServer(folders, "--engine", engine, "--threads", "1", "--no-grpc")

    return start


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["tensorflow", "keras"])
def test_other_engines_have_the_outputs_of_the_saved_model(start_engine, saved_models, engine):
    with start_engine(engine) as server:
        for kind in ENGINE_KINDS:
            for signature, inputs in (("serving_default", make_inputs(kind)), ("ids", make_ids())):
                expected = saved_models(kind)(signature, inputs)
                answer = post(server, f"/v1/models/{kind}:predict", build_rest_request(signature, inputs))
                assert_same_outputs(read_outputs(answer["outputs"], expected), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_columns_have_the_same_values(server, kind):
    inputs = build_rest_request("serving_default", make_inputs(kind))["inputs"]
    rows = [dict(zip(inputs, row, strict=True)) for row in zip(*inputs.values(), strict=True)]
    predictions = post(server, f"/v1/models/{kind}:predict", {"instances": rows})["predictions"]
    outputs = post(server, f"/v1/models/{kind}:predict", {"inputs": inputs})["outputs"]
    if isinstance(outputs, dict):
        outputs = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
    assert predictions == outputs


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=SAVED))
def test_exported_example_requests_are_answered(server, saved_models, saved_model_folders, kind, tmp_path):
    requests = build_example_requests(saved_model_folders(kind))
    write_serving_files(tmp_path / "serving", kind, requests=requests, min_serving="2.13")
    for path in sorted(tmp_path.glob("serving/request_*.json")):
        answer = server.request("POST", f"/v1/models/{kind}:predict", content=path.read_bytes())
        body = json.loads(path.read_text("utf-8"))
        dtype = np.int32 if body["signature_name"] == "ids" else object
        inputs = {name: np.array(values, dtype) for name, values in body["inputs"].items()}
        expected = saved_models(kind)(body["signature_name"], inputs)
        assert_same_outputs(read_outputs(answer.json()["outputs"], expected), expected)


@pytest.mark.parametrize(
    "body",
    [
        {"instances": TEXTS},
        {"instances": [{"text": text} for text in TEXTS]},
        {"instances": B64},
        {"instances": [{"text": text} for text in B64]},
        {"instances": [{"b64": text["b64"].rstrip("=")} for text in B64]},
        {"signature_name": "serving_default", "instances": TEXTS},
        {"signature_name": "", "instances": TEXTS},
        {"instances": TEXTS, "parameters": {}},
    ],
)
def test_every_form_of_rows_of_one_input(server, predictors, body):
    predictions = post(server, PREDICT, body)["predictions"]
    assert [row["label"] for row in predictions] == [answer["label"] for answer in predictors("classifier")(TEXTS)]
    assert set(predictions[0]) == {"scores", "probabilities", "label", "label_id"}


@pytest.mark.parametrize("inputs", [TEXTS, B64, {"text": TEXTS}, {"text": B64}])
def test_every_form_of_columns_of_one_input(server, predictors, inputs):
    outputs = post(server, PREDICT, {"inputs": inputs})["outputs"]
    assert outputs["label"] == [answer["label"] for answer in predictors("classifier")(TEXTS)]


@pytest.mark.parametrize("inputs", [TEXTS[0], B64[0], {"text": TEXTS[0]}, {"text": B64[0]}])
def test_a_value_instead_of_a_list_is_one_text(server, predictors, inputs):
    outputs = post(server, PREDICT, {"inputs": inputs})["outputs"]
    assert outputs["label"] == [answer["label"] for answer in predictors("classifier")(TEXTS[:1])]


@pytest.mark.parametrize(
    "body",
    [
        {"instances": [dict(zip(("text", "second_text"), row, strict=True)) for row in ROWS]},
        {"inputs": dict(zip(("text", "second_text"), zip(*ROWS, strict=True), strict=True))},
    ],
)
def test_named_inputs(server, predictors, body):
    answer = post(server, PREDICT_PAIRS, body)
    labels = answer["outputs"]["label"] if "outputs" in answer else [row["label"] for row in answer["predictions"]]
    assert labels == [one["label"] for one in predictors("pair_classifier")([tuple(row) for row in ROWS])]


def test_single_output_has_no_name(server, predictors):
    expected = [answer["embedding"] for answer in predictors("embedder")(TEXTS)]
    path = "/v1/models/embedder:predict"
    np.testing.assert_allclose(post(server, path, {"instances": TEXTS})["predictions"], expected, atol=1e-5)
    np.testing.assert_allclose(post(server, path, {"inputs": TEXTS})["outputs"], expected, atol=1e-5)


def test_token_ids_in_rows(server):
    rows = [dict(zip(IDS, row, strict=True)) for row in zip(*IDS.values(), strict=True)]
    predictions = post(server, PREDICT, {"signature_name": "ids", "instances": rows})["predictions"]
    np.testing.assert_allclose(
        predictions, post(server, PREDICT, {"signature_name": "ids", "inputs": IDS})["outputs"], atol=1e-6
    )


def test_no_texts_give_empty_outputs(server):
    outputs = post(server, PREDICT, {"inputs": []})["outputs"]
    assert outputs == {"scores": [], "probabilities": [], "label": [], "label_id": []}


@pytest.mark.parametrize("examples", [[{"text": text} for text in TEXTS], [{"text": [text]} for text in TEXTS]])
def test_classify(server, predictors, examples):
    for kind in ("classifier", "multi_label"):
        results = post(server, f"/v1/models/{kind}:classify", {"examples": examples})["results"]
        predictor = predictors(kind)
        for classes, answer in zip(results, predictor(TEXTS), strict=True):
            assert [label for label, _ in classes] == list(predictor.task.labels)
            assert [score for _, score in classes] == pytest.approx(answer["probabilities"], abs=1e-5)


def test_context_has_the_features_that_examples_share(server, predictors):
    body = {"context": {"text": "dog"}, "examples": [{"second_text": text} for text in B64]}
    results = post(server, "/v1/models/pair_classifier:classify", body)["results"]
    expected = predictors("pair_classifier")([("dog", text) for text in TEXTS])
    assert [[score for _, score in classes] for classes in results] == [
        pytest.approx(answer["probabilities"], abs=1e-5) for answer in expected
    ]


def test_regress(server, predictors):
    body = {"signature_name": "serving_default", "examples": [{"text": text} for text in TEXTS]}
    results = post(server, "/v1/models/regression:regress", body)["results"]
    assert results == pytest.approx([answer["value"] for answer in predictors("regression")(TEXTS)], abs=1e-5)


def test_versions_and_labels(versions_server):
    body = {"instances": ["the cat"]}
    newest = post(versions_server, "/v1/models/model:predict", body)
    assert "num_words" in newest["predictions"][0]
    assert post(versions_server, "/v1/models/model/versions/12:predict", body) == newest
    older = post(versions_server, "/v1/models/model/versions/3:predict", body)
    assert "label" in older["predictions"][0]
    assert post(versions_server, "/v1/models/model/labels/stable:predict", body) == older
    examples = {"examples": [{"text": "the cat"}]}
    [classes] = post(versions_server, "/v1/models/model/labels/stable:classify", examples)["results"]
    assert [score for _, score in classes] == pytest.approx(older["predictions"][0]["probabilities"], abs=1e-6)


def test_status(versions_server):
    ok = {"error_code": "OK", "error_message": ""}
    statuses = [{"version": number, "state": "AVAILABLE", "status": ok} for number in ("12", "3")]
    for path, expected in (("", statuses), ("/versions/3", statuses[1:]), ("/labels/stable", statuses[1:])):
        answer = versions_server.get(f"/v1/models/model{path}")
        assert (answer.status_code, answer.json()) == (200, {"model_version_status": expected})


@pytest.mark.parametrize("path", ["/v1/models/model/versions/3/metadata", "/v1/models/model/labels/stable/metadata"])
def test_metadata(versions_server, path):
    answer = versions_server.get(path).json()
    assert answer["model_spec"] == {"name": "model", "signature_name": "", "version": "3"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert {name: one["method_name"] for name, one in signatures.items()} == dict.fromkeys(
        ("serving_default", "ids"), "tensorflow/serving/predict"
    )
    text = signatures["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    probabilities = signatures["serving_default"]["outputs"]["probabilities"]
    assert [one["size"] for one in probabilities["tensor_shape"]["dim"]] == ["-1", "3"]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/v1/models/none", 404, "there is no model 'none'"),
        ("/v1/models/model/versions/4", 404, "model has no version 4"),
        ("/v1/models/model/versions/4/metadata", 404, "does not serve version 4; loaded versions: 3, 12"),
        ("/v1/models/model/versions/four", 400, "the version is 'four'; expected a number"),
        ("/v1/models/model/versions/" + "9" * 30, 400, "expected a number"),
        ("/v1/models/model/labels/canary", 400, "has no label 'canary'; it has stable"),
    ],
)
def test_unknown_versions_and_labels(versions_server, path, status, message):
    answer = versions_server.get(path)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v1/models/none:predict", {"instances": ["a"]}, 404, "there is no model 'none'"),
        ("/v1/models/classifier/versions/9:predict", {"instances": ["a"]}, 404, "does not serve version 9"),
        (PREDICT, {}, 400, "expected either `instances` (rows) or `inputs` (columns)"),
        (PREDICT, {"instances": ["a"], "inputs": ["a"]}, 400, "expected either `instances`"),
        (PREDICT, {"instances": []}, 400, "`instances` is empty"),
        (PREDICT, {"instances": "a"}, 400, "instances is 'a'; expected a list"),
        (PREDICT, {"instances": [1]}, 400, 'text has 1; expected a string or {"b64": "..."}'),
        (PREDICT, {"instances": [{"b64": "*"}]}, 400, "text has b64 '*', which is not base64"),
        (PREDICT, {"instances": [{"txt": "a"}]}, 400, "there is no input 'txt'; expected text"),
        (PREDICT, {"instances": [{"text": "a"}, {}]}, 400, "the instances have different inputs"),
        (PREDICT, {"instances": [{"text": "a"}, "a"]}, 400, "each instance must be an object"),
        (PREDICT, {"inputs": {"txt": ["a"]}}, 400, "there is no input 'txt'; expected text"),
        (PREDICT, {"inputs": {}}, 400, "the input text is missing"),
        (PREDICT, {"instances": ["a"], "signature_name": "x"}, 400, "no signature 'x'; expected one of serving_def"),
        (PREDICT, {"instances": ["a"], "signature_name": 5}, 400, "signature_name is 5; expected a string"),
        (PREDICT, {"inputs": {"input_ids": [[1], [1, 2]]}, "signature_name": "ids"}, 400, "have different lengths"),
        (PREDICT, {"inputs": {"input_ids": [[99]]}, "signature_name": "ids"}, 400, "has values from 99 to 99"),
        (PREDICT, {"inputs": {"input_ids": [[10**30]]}, "signature_name": "ids"}, 400, "a number of more than 64 bits"),
        (PREDICT, {"inputs": {"input_ids": [[1] * 20]}, "signature_name": "ids"}, 400, "accepts at most 19"),
        (
            "/v1/models/pair_classifier:predict",
            {"instances": ["a"]},
            400,
            "each instance must be an object with the in",
        ),
        (
            "/v1/models/pair_classifier:predict",
            {"inputs": ["a"]},
            400,
            "`inputs` must be an object with text, second_t",
        ),
        (PREDICT_PAIRS, {"inputs": {"text": ["a"], "second_text": ["b", "c"]}}, 400, "have different lengths"),
        (
            "/v1/models/classifier:classify",
            {"examples": []},
            400,
            "examples is []; expected a list with at least 1 item",
        ),
        (CLASSIFY, {"examples": [{}]}, 400, "the features of one example are []; expected text"),
        (
            "/v1/models/classifier:classify",
            {"examples": [{"text": ["a", "b"]}]},
            400,
            "text has ['a', 'b']; expected a",
        ),
        (CLASSIFY, {"examples": [{"text": 5}]}, 400, "text has 5; expected a string"),
        ("/v1/models/classifier:regress", {"examples": [{"text": "a"}]}, 400, "expected a model that predicts a numb"),
        ("/v1/models/embedder:classify", {"examples": [{"text": "a"}]}, 400, "expected a model that has classes"),
    ],
)
def test_errors_are_one_sentence_under_error(server, path, body, status, message):
    answer = server.post(path, body)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    sentence = answer.json()["error"]
    assert message in sentence
    assert not re.search(r"\n|pydantic|Traceback", sentence)
