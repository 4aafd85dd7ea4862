"""`examples/ray_serve.py` on a local Ray, compared with `Predictor`.

python3.11 -m venv RAY
RAY/bin/pip install "ray[serve]" numpy onnxruntime safetensors tokenizers
BERT_KERAS_RAY_PYTHON=RAY/bin/python pytest tests/examples/test_ray_serve.py
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.extras import is_installed

REPOSITORY = pathlib.Path(__file__).parents[2]
TEXTS = ["the cat sat on a mat .", "dog", "", "every dog ran off with its red hat"] * 10


@pytest.fixture(scope="module")
def ray_python() -> str:
    """The interpreter of an environment with Ray."""
    python = os.environ.get("BERT_KERAS_RAY_PYTHON") or (sys.executable if is_installed("ray") else None)
    if python is None:
        pytest.skip("Ray is not installed, and BERT_KERAS_RAY_PYTHON names no interpreter with it")
    return python


@pytest.fixture(scope="module")
def answer_on_ray(ray_python, tmp_path_factory):
    """Function that returns the answers to requests, made at the same time."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(REPOSITORY / "bert_keras", folder / "bert_keras", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(REPOSITORY / "pipelines", folder / "bert_keras/pipelines")

    def answer(artifact: pathlib.Path, requests: list) -> list:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        variables = {"PYTHONPATH": f"{folder}{os.pathsep}{REPOSITORY}", "RAY_USAGE_STATS_ENABLED": "0"}
        done = subprocess.run(
            [ray_python, str(REPOSITORY / "tests/examples/run_ray.py"), str(artifact), str(port), "answers.json"],
            input=json.dumps(requests),
            capture_output=True,
            text=True,
            env={**os.environ, **variables},
            cwd=folder,  # which Ray adds to the path of its workers
            timeout=200,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads((folder / "answers.json").read_text())

    return answer


@pytest.mark.slow
def test_answers_on_ray_are_those_of_the_predictor(answer_on_ray, make_artifacts):
    artifact = make_artifacts("classifier")
    requests = [*({"text": text} for text in TEXTS), {"text": 3}, ["not an object"]]
    *answers, wrong_type, wrong_body = answer_on_ray(artifact, requests)
    expected = bk.Predictor.from_artifact(artifact)(TEXTS)
    assert [status for status, _ in answers] == [200] * len(TEXTS)
    assert [answer["label"] for _, answer in answers] == [answer["label"] for answer in expected]
    got = [answer["probabilities"] for _, answer in answers]
    np.testing.assert_allclose(got, [answer["probabilities"] for answer in expected], atol=1e-6)
    assert wrong_type == wrong_body == [400, {"error": "expected a JSON object with the texts text"}]


@pytest.mark.slow
def test_wrong_text_does_not_fail_its_batch(answer_on_ray, make_artifacts):
    requests = [{"text": "the [MASK] sat"}, {"text": "no mask"}] * 10
    answers = answer_on_ray(make_artifacts("masked_lm"), requests)
    assert [status for status, _ in answers] == [200, 400] * 10
    assert all("has no [MASK]" in answer["error"] for status, answer in answers if status == 400)
