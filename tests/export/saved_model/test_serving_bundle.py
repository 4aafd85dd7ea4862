"""The warm-up file and the files in `serving/`, parsed as TensorFlow Serving does."""

import base64
import itertools
import json
import pathlib
import re
import runpy
import shutil
import sys
import types
from collections import defaultdict

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, message_factory, text_format
from tensorflow.core.framework import tensor_pb2

from bert_keras.engines.engine import FAST_SAVED_MODEL
from bert_keras.errors import ParityError
from bert_keras.export.parity.probe_inputs import EXAMPLE_TEXTS
from bert_keras.export.saved_model.saved_model_artifact import build_example_requests, write_serving_files
from bert_keras.export.saved_model.warmup import WARMUP_FILE, read_warmup, replay_warmup, write_warmup

IDS = ("input_ids", "attention_mask", "token_type_ids")
TEXTS = np.array([b"a cat", "naïve\0".encode(), b"\xff\xfe"], object)

# A request for the signature `s` of the model `m` with the input `x` = [7] (int32), as nested (tag, length, value),
# see tensorflow_serving/apis/{prediction_log,predict,model}.proto and tensor.proto. A manual test with the generated
# classes of tensorflow-serving-api 2.21.0 read the files of `write_warmup` and wrote the same bytes.
TENSOR = b"\x08\x03" + b"\x12\x04\x12\x02\x08\x01" + b"\x3a\x01\x07"  # dtype 3, shape [1], int_val [7]
ENTRY = b"\x0a\x01x" + b"\x12" + bytes([len(TENSOR)]) + TENSOR
SPEC = b"\x0a\x01m" + b"\x1a\x01s"
REQUEST = b"\x0a" + bytes([len(SPEC)]) + SPEC + b"\x12" + bytes([len(ENTRY)]) + ENTRY
LOG = b"\x0a" + bytes([len(REQUEST)]) + REQUEST
RECORD = b"\x32" + bytes([len(LOG)]) + LOG


class TinyModel(tf.Module):
    """Model without weights whose signatures trace quickly."""

    def __init__(self, *text_inputs: str):
        super().__init__()
        names = text_inputs

        def from_texts(**texts):
            lengths = [tf.strings.length(texts[name]) for name in names]
            return {"joined": tf.strings.join([texts[name] for name in names], "|"), "length": tf.add_n(lengths)}

        def from_ids(**ids):
            table = tf.range(9, delta=0.5)
            values = tf.gather(table, ids["input_ids"] + ids["token_type_ids"])
            return {"vector": tf.reduce_sum(values * tf.cast(ids["attention_mask"], tf.float32), axis=1)}

        texts = {name: tf.TensorSpec([None], tf.string, name=name) for name in names}
        ids = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in IDS}
        self.functions = {
            "serving_default": tf.function(from_texts).get_concrete_function(**texts),
            "ids": tf.function(from_ids).get_concrete_function(**ids),
        }


def write_version(out: pathlib.Path, *text_inputs: str) -> None:
    module = TinyModel(*text_inputs)
    tf.saved_model.save(module, str(out / "saved_model/1"), signatures=module.functions)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Function that returns a folder with `saved_model/1`, written once."""
    cache = {}

    def folder(*text_inputs):
        if text_inputs not in cache:
            cache[text_inputs] = tmp_path_factory.mktemp("written")
            write_version(cache[text_inputs], *text_inputs)
        return cache[text_inputs]

    return folder


@pytest.fixture
def model(written, tmp_path):
    return shutil.copytree(written("text") / "saved_model", tmp_path / "saved_model") / "1"


def write_serving(
    out: pathlib.Path, name: str, min_serving: str = "2.13", version: int = 1, texts=EXAMPLE_TEXTS
) -> None:
    """Write `serving/` with example requests to a version of the SavedModel."""
    requests = build_example_requests(out / f"saved_model/{version}", texts)
    write_serving_files(out / "serving", name, requests=requests, min_serving=min_serving)


def ids(batch: int, length: int, dtype="int32"):
    return {name: np.ones((batch, length), dtype) for name in IDS}


def test_warm_up_request_has_the_bytes_that_servers_expect(model):
    write_warmup(model, "m", [("s", {"x": np.array([7], "int32")})])
    (record,) = tf.data.TFRecordDataset(str(model / WARMUP_FILE))
    assert record.numpy() == RECORD


def test_warm_up_file_can_be_read_and_replayed(model):
    write_warmup(model, "my-model", [("ids", ids(2, 5)), ("serving_default", {"text": TEXTS}), ("ids", ids(1, 3))])
    requests = read_warmup(model)
    assert [signature for _, signature, _ in requests] == ["ids", "serving_default", "ids"]
    assert {name for name, _, _ in requests} == {"my-model"}
    (*_, ids_inputs), (*_, text_inputs), _ = requests
    assert ids_inputs["input_ids"].dtype == np.int32
    np.testing.assert_array_equal(ids_inputs["input_ids"], np.ones((2, 5)))
    np.testing.assert_array_equal(text_inputs["text"], TEXTS)
    assert replay_warmup(model) == 3


def test_strings_of_numpy_are_written_as_utf_8(model):
    write_warmup(model, "m", [("serving_default", {"text": np.array(["naïve", "猫"])})])
    [(*_, inputs)] = read_warmup(model)
    assert list(inputs["text"]) == ["naïve".encode(), "猫".encode()]


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (("other", {"text": TEXTS}), r"is for the signature 'other'; the model has ids, serving_default"),
        (("ids", {"text": TEXTS}), r"has text; the signature 'ids' expects attention_mask, input_ids, token_type_ids"),
        (("serving_default", {}), r"has nothing; the signature 'serving_default' expects text"),
        (("ids", ids(1, 2, "int64")), r"has \w+ as int64 \(1, 2\); the signature 'ids' expects int32 \(None, None\)"),
        (("serving_default", {"text": np.ones(2, "f")}), r"text as float32 \(2,\); .* expects string \(None,\)"),
        (("serving_default", {"text": TEXTS[np.newaxis]}), r"text as string \(1, 3\); .* expects string \(None,\)"),
        (
            ("ids", {**ids(1, 1), "input_ids": np.array([[99]], "int32")}),
            r"fails in .*'ids' \(indices.* = 100 is not in",
        ),
    ],
)
def test_error_contains_the_number_of_an_invalid_request(request_, sentence, model):
    write_warmup(model, "m", [("ids", ids(1, 2)), request_])
    with pytest.raises(ParityError, match=rf"warm-up request 2 of .* {sentence}"):
        replay_warmup(model)


def test_damaged_warm_up_file_is_rejected(model):
    with pytest.raises(ParityError, match=r"tf_serving_warmup_requests does not exist"):
        replay_warmup(model)
    write_warmup(model, "m", [("ids", ids(1, 2))])
    path = model / WARMUP_FILE
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ParityError, match=r"is not a file of warm-up requests \(truncated record"):
        read_warmup(model)
    for record, reason in ((b"\x12\x00", "not a request for a prediction"), (b"\xff", "")):
        with tf.io.TFRecordWriter(str(path)) as writer:  # the first record is a ClassifyLog
            writer.write(record)
        with pytest.raises(ParityError, match=rf"is not a file of warm-up requests \(.*{reason}"):
            read_warmup(model)


def answer_rest(body: dict, signatures) -> dict[str, np.ndarray]:
    """Answer a REST request in column format like TensorFlow Serving, with the signature's dtypes and `b64` bytes."""
    assert set(body) == {"signature_name", "inputs"}
    function = signatures[body["signature_name"]]
    specs = function.structured_input_signature[1]
    assert set(body["inputs"]) == set(specs)
    inputs = {name: tf.constant(from_json(body["inputs"][name]), spec.dtype) for name, spec in specs.items()}
    return {name: value.numpy() for name, value in function(**inputs).items()}


def from_json(value):
    if isinstance(value, list):
        return [from_json(one) for one in value]
    if isinstance(value, dict):
        assert set(value) == {"b64"}
        return base64.b64decode(value["b64"])
    return value


@pytest.mark.parametrize("inputs", [("text",), ("text", "second_text"), ("question", "context")])
def test_every_rest_example_is_answered(inputs, written, tmp_path):
    shutil.copytree(written(*inputs) / "saved_model", tmp_path / "saved_model")
    loaded = tf.saved_model.load(str(tmp_path / "saved_model/1"))
    write_serving(tmp_path, "my-model")
    bodies = [json.loads(path.read_text("utf-8")) for path in sorted(tmp_path.glob("serving/request_*.json"))]
    assert [body["signature_name"] for body in bodies] == ["ids", "serving_default"]
    ids_answer, text_answer = (answer_rest(body, loaded.signatures) for body in bodies)
    assert ids_answer["vector"].shape == (2,)
    columns = [bodies[1]["inputs"][name] for name in inputs]
    assert [joined.decode() for joined in text_answer["joined"]] == [
        "|".join(texts) for texts in zip(*columns, strict=True)
    ]
    assert all(len(set(column)) == 2 for column in columns)


@pytest.mark.slow  # TinyModel answers its example requests too, and an export replays those of its model
def test_example_requests_of_a_real_model_are_answered(saved, tmp_path):
    folder = tmp_path / "saved_model/1"
    shutil.copytree(saved("pair_classifier"), folder)
    write_serving(tmp_path, "pairs")
    loaded = tf.saved_model.load(str(folder))
    for path in tmp_path.glob("serving/request_*.json"):
        assert {
            len(value) for value in answer_rest(json.loads(path.read_text("utf-8")), loaded.signatures).values()
        } == {2}
    write_warmup(folder, "pairs", build_example_requests(folder))
    assert replay_warmup(folder) == 2


def test_example_texts_can_be_replaced(model, tmp_path):
    write_serving(tmp_path, "m", texts={"text": ["fill the [MASK]", "é"]})
    body = json.loads((tmp_path / "serving/request_serving_default.json").read_text("utf-8"))
    assert body["inputs"]["text"] == ["fill the [MASK]", "é"]


class _Stub:
    """Replacement for the gRPC stub of `tensorflow-serving-api` that runs a loaded SavedModel."""

    signatures = None

    def __init__(self, channel):
        pass

    def Predict(self, request, timeout):  # noqa: N802  the real stub's name
        assert request.model_spec.name == "my-model"
        inputs = {name: tf.constant(tf.make_ndarray(tensor)) for name, tensor in request.inputs.items()}
        answers = self.signatures[request.model_spec.signature_name](**inputs)
        return types.SimpleNamespace(outputs={name: tf.make_tensor_proto(value) for name, value in answers.items()})


def make_request():
    return types.SimpleNamespace(model_spec=types.SimpleNamespace(), inputs=defaultdict(tensor_pb2.TensorProto))


def test_grpc_clients_print_the_answers_of_rest(model, tmp_path, monkeypatch, capsys):
    loaded = tf.saved_model.load(str(model))
    write_serving(tmp_path, "my-model")
    monkeypatch.setattr(_Stub, "signatures", loaded.signatures)
    apis = types.ModuleType("tensorflow_serving.apis")
    apis.predict_pb2 = types.SimpleNamespace(PredictRequest=make_request)
    apis.prediction_service_pb2_grpc = types.SimpleNamespace(PredictionServiceStub=_Stub)
    monkeypatch.setitem(sys.modules, "tensorflow_serving", types.ModuleType("tensorflow_serving"))
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", apis)
    for path in sorted(tmp_path.glob("serving/request_*.py")):
        monkeypatch.setattr(sys, "argv", [str(path)])
        runpy.run_path(str(path), run_name="__main__")
        answers = answer_rest(json.loads(path.with_suffix(".json").read_text("utf-8")), loaded.signatures)
        expected = [f"{name} {value.tolist()}" for name, value in sorted(answers.items())]
        assert capsys.readouterr().out.splitlines() == expected


# from tensorflow_serving/config/{model_server_config,file_system_storage_path_source,monitoring_config}.proto and
# servables/tensorflow/session_bundle_config.proto: message -> field -> (number, type)
_TABLE = {
    "Latest": {"num_versions": (1, "UINT32")},
    "VersionPolicy": {"latest": (100, "Latest")},
    "ModelConfig": {
        "name": (1, "STRING"),
        "base_path": (2, "STRING"),
        "model_platform": (4, "STRING"),
        "model_version_policy": (7, "VersionPolicy"),
    },
    "ModelConfigList": {"config": (1, "ModelConfig", "repeated")},
    "ModelServerConfig": {"model_config_list": (1, "ModelConfigList")},
    "Int64Value": {"value": (1, "INT64")},
    "BatchingParameters": {
        "max_batch_size": (1, "Int64Value"),
        "batch_timeout_micros": (2, "Int64Value"),
        "max_enqueued_batches": (3, "Int64Value"),
        "num_batch_threads": (4, "Int64Value"),
        "allowed_batch_sizes": (6, "INT64", "repeated"),
        "pad_variable_length_inputs": (7, "BOOL"),
    },
    "PrometheusConfig": {"enable": (1, "BOOL"), "path": (2, "STRING")},
    "MonitoringConfig": {"prometheus_config": (1, "PrometheusConfig")},
}


def describe_field(name, number, kind, label="optional"):
    is_scalar = kind.isupper()
    kind = f"type: TYPE_{kind}" if is_scalar else f'type_name: "{kind}"'
    return f'field {{ name: "{name}" number: {number} label: LABEL_{label.upper()} {kind} }}'


def make_settings_messages():
    described = ""
    for name, fields in _TABLE.items():
        described_fields = " ".join(describe_field(field, *parts) for field, parts in fields.items())
        described += f'message_type {{ name: "{name}" {described_fields} }} '
    file = text_format.Parse(
        f'name: "settings.proto" package: "settings" syntax: "proto3" {described}', descriptor_pb2.FileDescriptorProto()
    )
    return message_factory.GetMessages([file])


SETTINGS = make_settings_messages()


def parse_settings(path: pathlib.Path, message: str):
    """Parse a file in the text format of protocol buffers as a message."""
    return text_format.Parse(path.read_text("utf-8"), SETTINGS[f"settings.{message}"]())


def test_server_settings_parse_and_name_the_model(model, tmp_path):
    write_serving(tmp_path, "my-model")
    (config,) = parse_settings(tmp_path / "serving/models.config", "ModelServerConfig").model_config_list.config
    assert (config.name, config.base_path, config.model_platform) == ("my-model", "/models/my-model", "tensorflow")
    assert config.model_version_policy.latest.num_versions == 1
    batching = parse_settings(tmp_path / "serving/batching.config", "BatchingParameters")
    assert (batching.max_batch_size.value, batching.batch_timeout_micros.value) == (32, 2000)
    assert not batching.pad_variable_length_inputs  # otherwise the server would pad attention_mask with ones
    prometheus = parse_settings(tmp_path / "serving/monitoring.config", "MonitoringConfig").prometheus_config
    assert (prometheus.enable, prometheus.path) == (True, "/monitoring/prometheus/metrics")
    assert f"localhost:8501{prometheus.path}`" in (tmp_path / "serving/README.md").read_text()


def test_image_contains_the_files_named_in_the_settings(model, tmp_path):
    write_serving(tmp_path, "my-model")
    dockerfile = (tmp_path / "serving/Dockerfile").read_text()
    assert re.search(r"^ARG TF_SERVING_VERSION=\d+\.\d+\.\d+$", dockerfile, re.MULTILINE)
    assert re.search(r"^FROM tensorflow/serving:\$\{TF_SERVING_VERSION\}$", dockerfile, re.MULTILINE)
    assert re.search(r"^COPY saved_model /models/my-model$", dockerfile, re.MULTILINE)
    copied = set()
    for instruction in re.findall(r"^COPY (.+)$", dockerfile, re.MULTILINE):
        *sources, target = instruction.split()
        assert target.startswith("/models/")
        assert all((tmp_path / source).exists() for source in sources)
        copied |= {f"{target}{pathlib.Path(source).name}" for source in sources}
    assert dict(re.findall(r"^ENV (\w+)=(\S+)$", dockerfile, re.MULTILINE)) == dict.fromkeys(FAST_SAVED_MODEL, "1")
    flags = read_flags(dockerfile)
    assert flags[0] == "--model_config_file=/models/models.config"
    assert "--monitoring_config_file=/models/monitoring.config" in flags
    readme = (tmp_path / "serving/README.md").read_text()
    named = re.findall(r"--\w+_file=(\S+)", " ".join(flags) + readme)
    assert set(named) == {f"/models/{name}.config" for name in ("models", "batching", "monitoring")} <= copied
    with_bfloat16 = read_flags(dockerfile.replace('#    "--mixed', '     "--mixed'))
    assert set(with_bfloat16) - set(flags) == {"--mixed_precision=bfloat16"}


def read_flags(dockerfile):
    """Return the arguments of CMD; like Docker, drop lines of comments before joining lines."""
    lines = [line for line in dockerfile.splitlines() if not line.startswith("#")]
    return json.loads(re.search(r"^CMD (\[.*\])$", "\n".join(lines).replace("\\\n", ""), re.MULTILINE)[1])


@pytest.mark.parametrize(("min_serving", "image"), [("2.13", "2.20.0"), ("2.20", "2.20.0")])
def test_image_is_not_older_than_the_required_release(min_serving, image, model, tmp_path):
    write_serving(tmp_path, "my-model", min_serving=min_serving)
    assert f"TF_SERVING_VERSION={image}\n" in (tmp_path / "serving/Dockerfile").read_text()
    assert f"any release from {min_serving} on" in (tmp_path / "serving/README.md").read_text()


def test_readme_lists_every_file_and_its_commands_refer_to_existing_files(model, tmp_path):
    write_serving(tmp_path, "my-model")
    readme = (tmp_path / "serving/README.md").read_text()
    listed = set(re.findall(r"^\| `([^`]+)`", readme, re.MULTILINE))
    assert listed == {path.name for path in (tmp_path / "serving").iterdir()} - {"README.md"}
    build, run, curl = re.search(r"```\n(.*?)\n```", readme, re.DOTALL)[1].split("\n")
    assert (tmp_path / re.search(r"-f (\S+)", build)[1]).exists()
    assert run.split()[:2] == ["docker", "run"]
    assert (tmp_path / re.search(r"-d @(\S+)", curl)[1]).exists()
    assert curl.endswith("/v1/models/my-model:predict")


def test_files_contain_no_local_paths(model, tmp_path):
    write_serving(tmp_path, "my-model")
    for path, folder in itertools.product((tmp_path / "serving").iterdir(), (tmp_path, pathlib.Path.home())):
        assert str(folder) not in path.read_text("utf-8")
