"""Every engine serves the same answers, and its memory, threads and open files stay the same for a long time."""

import functools
import json
import time

import pytest

import bert_keras as bk
from benchmarks.http_load import LoadSettings, run_load
from benchmarks.serving import count_resources
from bert_keras.engines.artifact_files import DESCRIPTION
from bert_keras.export.export_job import write_description
from bert_keras.export.saved_model.to_saved_model import write_saved_model
from tests.made_once import made_once

from .conftest import TEXTS
from .running_server import RunningServer

ENGINES = ("onnxruntime", "openvino", "tensorflow", "keras")
SOAK_SECONDS = 150  # per engine, after half as long to become steady


@pytest.fixture
def model(request, artifacts, make_kind, tmp_path_factory):
    """The folder of a classifier that an engine runs."""
    engine = request.param
    if engine in ("onnxruntime", "openvino"):
        return engine, artifacts["classifier"]
    return engine, made_once(
        tmp_path_factory, f"served.{engine}", functools.partial(write_model, *make_kind("classifier"), engine)
    )


def write_model(model, tokenizer, task, engine, path):
    """Write a model as a SavedModel or a checkpoint."""
    if engine == "keras":
        bk.save(model, tokenizer, path, task=task.settings())
        return
    folder = path / "saved_model" / "1"
    write_saved_model(model, tokenizer, task, folder)
    write_description(model, tokenizer, folder / DESCRIPTION, task=task.settings())


@pytest.mark.slow
@pytest.mark.parametrize("model", ENGINES, indirect=True)
def test_engine_answers_and_stays_the_same(model, predictors):
    engine, folder = model
    with RunningServer({"model": folder}, "--engine", engine, "--no-grpc") as server:
        assert f"engine {engine}" in server.read_log()
        answers = server.post("/classify", {"examples": [{"text": text} for text in TEXTS]}).json()["answers"]
        expected = predictors("classifier")(TEXTS)
        assert [answer["label"] for answer in answers] == [answer["label"] for answer in expected]
        probabilities = [answer["probability"] for answer in answers]
        assert probabilities == pytest.approx([answer["probability"] for answer in expected], abs=1e-2)  # bfloat16
        bodies = [json.dumps({"text": text}).encode() for text in TEXTS]
        load = functools.partial(LoadSettings, f"{server.url}/classify", bodies, num_connections=16)
        peak = run_load(load(num_clients=16, duration_seconds=5))
        rate = max(1.0, len(peak.outcomes) / peak.seconds / 2)
        samples = []
        for seconds in (SOAK_SECONDS / 2, SOAK_SECONDS):
            assert set(run_load(load(rate=rate, duration_seconds=seconds)).outcomes) == {200}
            time.sleep(6)  # connections close after 5 s
            samples.append(count_resources(server.process.pid))
    first, last = samples
    assert last["threads"] == first["threads"]
    assert last["open files"] == first["open files"]
    for before, after in zip(first["memory, MB"], last["memory, MB"], strict=True):
        assert after <= 1.05 * before + 10, samples
