"""The models for texts in a real Triton, compared with `Predictor` and with `bert-keras serve`.

python3.11 -m venv TRITON                   # the version of the system's Python, which Triton's backend runs
TRITON/bin/pip install --no-deps nvidia-pytriton
TRITON/bin/pip install "numpy<2" onnxruntime safetensors tokenizers
BERT_KERAS_TRITON_SITE_PACKAGES=TRITON/lib/python3.11/site-packages pytest tests/export/deployment/test_triton_server.py
"""

import concurrent.futures
import functools
import os
import pathlib
import shutil
import socket

import httpx
import numpy as np
import pytest

import bert_keras as bk
from benchmarks.serving_peers import run_triton
from bert_keras.export.deployment_bundle import write_deployment_files
from bert_keras.export.onnx.onnx_artifact import get_served_task
from bert_keras.export.parity.artifact_program import load_onnx
from tests.export.deployment.test_triton_files import TEXTS, WITH_TASK
from tests.serving.running_server import RunningServer
from tests.test_project import REPOSITORY

VARIABLE = "BERT_KERAS_TRITON_SITE_PACKAGES"
TOLERANCE = 1e-6  # measured: 1.2e-7, from batches of other sizes

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site_packages() -> pathlib.Path:
    if not os.environ.get(VARIABLE):
        pytest.skip(f"{VARIABLE} does not name a folder with nvidia-pytriton; see the module's docstring")
    return pathlib.Path(os.environ[VARIABLE])


@pytest.fixture(scope="module")
def repository(deployed, references, site_packages, tmp_path_factory) -> pathlib.Path:
    """A model repository with a model for texts of each kind, which imports this version of bert_keras."""
    folder = tmp_path_factory.mktemp("triton")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "bert_keras", folder / "package/bert_keras", ignore=ignore)
    shutil.copytree(REPOSITORY / "pipelines", folder / "package/bert_keras/pipelines", ignore=ignore)
    paths = [str(folder / "package"), str(site_packages)]
    for kind in WITH_TASK:
        onnx = deployed(kind) / "onnx"
        facts = {"signature": load_onnx(str(onnx / "onnx/model.onnx"))[1][""], "num_bytes": 1}
        write_deployment_files(folder / kind, kind, task=get_served_task(references(kind)), **facts)
        model = shutil.copytree(folder / kind / "triton" / kind, folder / "models" / kind)
        shutil.copytree(onnx, model / "onnx")  # as in the Dockerfile
        code = (model / "1/model.py").read_text("utf-8")
        (model / "1/model.py").write_text(f"import sys\nsys.path[:0] = {paths!r}\n{code}", "utf-8")
    return folder / "models"


@pytest.fixture(scope="module")
def triton(repository, site_packages):
    """The address of a Triton with all models."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with run_triton(repository, site_packages=site_packages, port=port) as peer:
        yield peer.url


@pytest.fixture(scope="module")
def server(deployed, site_packages):
    """`bert-keras serve` with the same models."""
    with RunningServer({kind: deployed(kind) / "onnx" for kind in WITH_TASK}, "--threads", "1") as running:
        yield running.url


def get_texts(kind: str) -> list[tuple[str, ...]]:
    """Return texts, or pairs of texts."""
    texts = [f"{text} [MASK]" for text in TEXTS] if kind == "masked_lm" else TEXTS
    if kind in ("pair_classifier", "question_answerer", "null_answerer"):
        return list(zip(texts, texts[::-1], strict=True))
    return [(text,) for text in texts]


def infer(url: str, kind: str, texts: list[tuple[str, ...]], names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return the outputs of a request in the Open Inference Protocol."""
    columns = dict(zip(names, zip(*texts, strict=True), strict=True))
    inputs = [
        {"name": name, "shape": [len(column), 1], "datatype": "BYTES", "data": column}
        for name, column in columns.items()
    ]
    answer = httpx.post(f"{url}/v2/models/{kind}/infer", json={"inputs": inputs}, timeout=60)
    assert answer.status_code == 200, answer.text
    return {output["name"]: np.array(output["data"]).reshape(output["shape"]) for output in answer.json()["outputs"]}


def check_equal(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Check that outputs are equal; Triton's vectors are `(B, 1)`."""
    assert list(got) == list(expected)
    for name, values in expected.items():
        ours = got[name].reshape(values.shape)
        if values.dtype.kind == "f":
            np.testing.assert_allclose(ours, values, atol=TOLERANCE, err_msg=name)
        else:
            np.testing.assert_array_equal(ours, values, err_msg=name)


@functools.cache
def open_predictor(onnx: pathlib.Path) -> bk.Predictor:
    return bk.Predictor.from_artifact(onnx)


@pytest.mark.parametrize("kind", WITH_TASK)
def test_answers_are_those_of_our_server(kind, triton, server, deployed):
    names = open_predictor(deployed(kind) / "onnx").task.input_names
    texts = get_texts(kind)
    for part in (texts, texts[:1], texts[1:3], texts[3:]):
        check_equal(infer(triton, kind, part, names), infer(server, kind, part, names))


def test_answers_are_those_of_the_predictor(triton, deployed):
    answers = {
        kind: open_predictor(deployed(kind) / "onnx")(TEXTS) for kind in ("classifier", "embedder", "token_classifier")
    }
    got = {kind: infer(triton, kind, get_texts(kind), ("text",)) for kind in answers}
    assert got["classifier"]["label"].tolist() == [[answer["label"]] for answer in answers["classifier"]]
    for kind, output, key in (("classifier", "probabilities", "probabilities"), ("embedder", "embedding", "embedding")):
        np.testing.assert_allclose(got[kind][output], [answer[key] for answer in answers[kind]], atol=TOLERANCE)
    tags = got["token_classifier"]
    for place, answer in enumerate(answers["token_classifier"]):
        number = int(tags["num_words"][place, 0])
        assert tags["labels"][place, :number].tolist() == answer["tags"]


def test_requests_at_the_same_time_get_their_own_answers(triton, server):
    texts = [(" ".join(["the cat sat"] * (number % 5)),) for number in range(40)]
    expected = {text: infer(server, "classifier", [text], ("text",)) for text in set(texts)}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: infer(triton, "classifier", [text], ("text",)), texts))
    for text, answer in zip(texts, answers, strict=True):
        check_equal(answer, expected[text])


def test_triton_describes_the_outputs_as_configured(triton, server):
    described, ours = (httpx.get(f"{url}/v2/models/token_classifier").json() for url in (triton, server))
    assert [entry["name"] for entry in described["outputs"]] == [entry["name"] for entry in ours["outputs"]]
    assert [entry["datatype"] for entry in described["outputs"]] == [entry["datatype"] for entry in ours["outputs"]]
    assert described["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1, 1]}]


def test_more_texts_than_allowed_are_refused(triton):
    body = {"inputs": [{"name": "text", "shape": [129, 1], "datatype": "BYTES", "data": ["a"] * 129}]}
    answer = httpx.post(f"{triton}/v2/models/classifier/infer", json=body)
    assert (answer.status_code, "must be <= 128" in answer.text) == (400, True), answer.text
