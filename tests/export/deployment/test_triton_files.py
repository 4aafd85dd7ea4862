"""The Triton model repository: configurations in Triton's own message, and the model for texts with a fake Triton."""

import shutil

import numpy as np
import onnxruntime
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

import bert_keras as bk
from bert_keras.engines.onnxruntime_engine import OnnxruntimeEngine
from bert_keras.errors import InputError
from bert_keras.heads.classify.task import TextClassification
from tests.export.conftest import KINDS
from tests.export.deployment import fake_triton
from tests.export.deployment.conftest import NAME
from tests.export.deployment.test_deployment_bundle import WITHOUT_TASK
from tests.marks import slow_except

WITH_TASK = [kind for kind in KINDS if kind not in WITHOUT_TASK]
TYPES = {"tensor(int64)": "TYPE_INT64", "tensor(float)": "TYPE_FP32"}
TYPES |= {"string": "TYPE_STRING", "float32": "TYPE_FP32", "int32": "TYPE_INT32"}
TEXTS = ["the cat sat on a mat .", "dog", "every dog ran off with its red hat , and the cat sat on the mat", ""]


def parse_config(folder, name: str) -> model_config_pb2.ModelConfig:
    config = text_format.Parse((folder / name / "config.pbtxt").read_text("utf-8"), model_config_pb2.ModelConfig())
    assert config.name == name
    return config


def describe_tensors(tensors) -> dict[str, tuple]:
    return {tensor.name: (model_config_pb2.DataType.Name(tensor.data_type), tuple(tensor.dims)) for tensor in tensors}


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=["classifier", "encoder"]))
def test_configuration_for_ids_has_the_inputs_and_outputs_of_the_file(kind, deployed):
    session = onnxruntime.InferenceSession(deployed(kind) / "onnx/onnx/model.onnx", providers=["CPUExecutionProvider"])
    config = parse_config(deployed(kind) / "deploy/triton", f"{NAME}_ids")
    assert (config.backend, config.default_model_filename) == ("onnxruntime", "model.onnx")
    assert config.HasField("dynamic_batching")

    def describe(entries):
        shapes = {entry.name: [size if isinstance(size, int) else -1 for size in entry.shape[1:]] for entry in entries}
        return {entry.name: (TYPES[entry.type], tuple(shapes[entry.name])) for entry in entries}

    assert describe_tensors(config.input) == describe(session.get_inputs())
    assert describe_tensors(config.output) == describe(session.get_outputs())


@pytest.mark.parametrize("kind", slow_except(WITH_TASK, quick=["classifier", "pair_classifier"]))
def test_configuration_for_texts_has_the_outputs_of_serving_default(kind, deployed):
    predictor = bk.Predictor.from_artifact(deployed(kind) / "onnx")
    config = parse_config(deployed(kind) / "deploy/triton", NAME)
    assert (config.backend, config.max_batch_size) == ("python", 128)
    assert [(group.kind, group.count) for group in config.instance_group] == [
        (model_config_pb2.ModelInstanceGroup.KIND_CPU, 1)
    ]
    assert config.dynamic_batching.default_queue_policy.max_queue_size == 512
    assert config.parameters["artifact"].string_value == "onnx"
    assert describe_tensors(config.input) == dict.fromkeys(predictor.task.input_names, ("TYPE_STRING", (1,)))
    expected = {name: (TYPES[dtype], shape[1:] or (1,)) for name, dtype, shape in predictor.task.describe_signature(36)}
    assert describe_tensors(config.output) == expected


@pytest.fixture
def open_model(deployed, monkeypatch):
    """Function that opens the model for texts of a kind, with the ONNX folder at an absolute path."""

    def open_kind(kind: str):
        out = deployed(kind)
        folder, artifact = out / "deploy/triton", str(out / "onnx")
        config = parse_config(folder, NAME)
        return fake_triton.open_model(folder / NAME, monkeypatch, config, artifact=artifact, instances="2")

    return open_kind


def encode(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


@pytest.mark.parametrize("kind", slow_except(WITH_TASK, quick=["pair_classifier"]))
def test_outputs_have_the_configured_names_types_and_shapes(kind, deployed, open_model):
    model = open_model(kind)
    names = bk.Predictor.from_artifact(deployed(kind) / "onnx").task.input_names
    texts = ["[MASK] cat", "the [MASK] [MASK] dog"] if kind == "masked_lm" else TEXTS
    requests = [fake_triton.make_request(**dict.fromkeys(names, encode(*part))) for part in (texts, texts[:1])]
    responses = model.execute(requests)
    configured = describe_tensors(parse_config(deployed(kind) / "deploy/triton", NAME).output)
    for response, size in zip(responses, (len(texts), 1), strict=True):
        assert response.error is None
        assert list(response.outputs) == list(configured)
        for name, values in response.outputs.items():
            dtype, dims = configured[name]
            assert values.shape[0] == size
            assert len(values.shape) == 1 + len(dims)
            assert all(wanted in (-1, got) for wanted, got in zip(dims, values.shape[1:], strict=True))
            assert TYPES["string" if values.dtype == object else values.dtype.name] == dtype


def test_answers_are_those_of_the_predictor(deployed, open_model):
    predictor = bk.Predictor.from_artifact(deployed("classifier") / "onnx")
    requests = [fake_triton.make_request(text=encode(*TEXTS)), fake_triton.make_request(text=encode("a hat"))]
    for response, texts in zip(open_model("classifier").execute(requests), (TEXTS, ["a hat"]), strict=True):
        answers = predictor(texts)
        assert response.outputs["label"].tolist() == [[answer["label"]] for answer in answers]
        expected = [answer["probabilities"] for answer in answers]
        np.testing.assert_allclose(response.outputs["probabilities"], expected, atol=2e-7)  # measured: 2.6e-8


def test_invalid_utf_8_is_replaced_as_in_the_saved_model(open_model):
    requests = [fake_triton.make_request(text=[b"a \xff cat"]), fake_triton.make_request(text=encode("a \ufffd cat"))]
    first, second = open_model("classifier").execute(requests)
    np.testing.assert_allclose(first.outputs["scores"], second.outputs["scores"], atol=2e-7)


def test_wrong_request_does_not_fail_the_others(open_model, monkeypatch):
    make_example = TextClassification.make_example

    def make_or_refuse(self, text, *others):
        if text == "wrong":
            raise InputError("this text is wrong")
        return make_example(self, text, *others)

    model = open_model("classifier")
    monkeypatch.setattr(TextClassification, "make_example", make_or_refuse)
    first, wrong, last = model.execute([fake_triton.make_request(text=encode(text)) for text in ("a", "wrong", "dog")])
    assert (wrong.error.message, wrong.error.code) == ("this text is wrong", fake_triton.TritonError.INVALID_ARG)
    assert wrong.outputs == {}
    assert first.outputs["label"].shape == last.outputs["label"].shape == (1, 1)


def test_failure_of_the_model_for_one_request_does_not_fail_the_others(open_model, monkeypatch, tokenizer):
    run = OnnxruntimeEngine.run
    unlucky = tokenizer.vocabulary.index("dog")

    def run_or_fail(self, features, **options):
        if (features["token_ids"] == unlucky).any():
            raise RuntimeError("out of memory")
        return run(self, features, **options)

    model = open_model("classifier")
    monkeypatch.setattr(OnnxruntimeEngine, "run", run_or_fail)
    first, wrong, last = model.execute([fake_triton.make_request(text=encode(text)) for text in ("a", "dog", "cat")])
    assert wrong.error.code == fake_triton.TritonError.INTERNAL
    assert "RuntimeError: out of memory" in wrong.error.message
    assert first.outputs["label"].shape == last.outputs["label"].shape == (1, 1)


def test_artifact_lies_next_to_the_configuration_by_default(deployed, monkeypatch, tmp_path):
    out = deployed("classifier")
    model_folder = shutil.copytree(out / "deploy/triton", tmp_path / "models") / NAME
    (model_folder / "onnx").symlink_to(out / "onnx")
    model = fake_triton.open_model(model_folder, monkeypatch, parse_config(tmp_path / "models", NAME))
    [response] = model.execute([fake_triton.make_request(text=encode("a cat"))])
    assert response.error is None
