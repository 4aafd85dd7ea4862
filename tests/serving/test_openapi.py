"""Schemathesis sends requests that `/openapi.json` describes, valid and invalid ones, and checks every answer."""

import pathlib
import re
import subprocess
import sys

import pytest

from .running_server import RunningServer
from .test_faults import read_metric

SCHEMATHESIS = pathlib.Path(sys.executable).with_name("schemathesis")
EXCLUDED_CHECKS = (
    "positive_data_acceptance",  # the schema does not know which models there are and which inputs they have
    "unsupported_method",  # GET /v1/models/a/versions/1:predict asks for the version "1:predict", an error 400
)
OTHER_TASKS = ("embedder", "token_classifier", "null_answerer", "masked_lm")


def run_schemathesis(url, folder, *options, parameters=()):
    """Run Schemathesis with a fixed seed and return the number of requests.

    Args:
        url: of the server.
        folder: a folder for its settings.
        *options: further options.
        parameters: values for parameters of paths, keyed by name.
    """
    settings = folder / "schemathesis.toml"
    lines = [f'"path.{name}" = {value!r}' for name, value in dict(parameters).items()]
    settings.write_text("\n".join(["[parameters]", *lines]) if lines else "")
    arguments = ["run", f"{url}/openapi.json", "--checks", "all", "--exclude-checks", ",".join(EXCLUDED_CHECKS)]
    arguments += ["--generation-deterministic", "--generation-allow-x00", "true", "--no-color", "--warnings", "off"]
    done = subprocess.run(
        [SCHEMATHESIS, "--config-file", settings, *arguments, "--request-timeout", "60", *options],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr
    return int(re.search(r"(\d+) generated, \1 passed", done.stdout)[1])


def test_answers_conform_to_the_description(server, tmp_path):
    """No status 5xx; statuses, content types and bodies are those of the description."""
    assert run_schemathesis(server.url, tmp_path, "--phases", "examples,fuzzing", "--max-examples", "3") >= 70
    assert server.get("/health/ready").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{}, {"name": "reranker", "version": "1"}], ids=["any names", "names of models"])
def test_thousands_of_answers_conform_to_the_description(artifacts, parameters, tmp_path):
    """With one model per task, requests without `model` reach the models."""
    models = {kind: artifacts[kind] for kind in ("reranker", *OTHER_TASKS)}
    with RunningServer(models, "--threads", "1", "--instances", "1", "--max-payload", "200000") as server:
        options = ("--phases", "examples,coverage,fuzzing", "--max-examples", "80")
        assert run_schemathesis(server.url, tmp_path, *options, parameters=parameters) >= 2500
        assert server.get("/health/ready").status_code == 200
        assert not read_metric(server, r'bert_keras_requests_total\{.*status="5')
        assert all(read_metric(server, f'bert_keras_tokens_total{{model="{name}"') for name in models)


def test_infer_describes_binary_bodies(server):
    operation = server.get("/openapi.json").json()["paths"]["/v2/models/{name}/infer"]["post"]
    for content in (operation["requestBody"]["content"], operation["responses"]["200"]["content"]):
        assert set(content) == {"application/json", "application/octet-stream"}
