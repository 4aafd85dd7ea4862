"""When a model may be loaded at low priority: not if its engine starts threads, which would inherit it."""

import os

import pytest

from bert_keras.errors import InputError
from bert_keras.serving.model_folders import ModelSource, find_model
from bert_keras.serving.worker.model_opening import runs_in_calling_thread


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"engine": "onnxruntime"}, True),
        ({"threads": 1}, True),
        ({"threads": 2}, False),
        ({"instances": 1}, False),  # one instance has the threads of all cores
        ({"instances": 1, "threads": 1}, True),
        ({"instances": 4}, True),
        ({"engine": "openvino"}, False),
        ({"engine": "keras"}, False),
    ],
)
def test_only_onnxruntime_with_one_thread_runs_in_the_calling_thread(settings, expected, artifacts, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    source = ModelSource(str(artifacts["classifier"]), **settings)
    assert runs_in_calling_thread(source, find_model(source)) is expected


def test_a_saved_model_and_a_checkpoint_start_threads(saved_model_folders, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    checkpoint = ModelSource(str(tmp_path))
    assert not runs_in_calling_thread(checkpoint, find_model(checkpoint))
    with pytest.raises(InputError, match=r"has no assets\.extra"):  # it is found to be a SavedModel
        find_model(ModelSource(str(saved_model_folders("classifier"))))


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no model; expected an output folder of export"):
        find_model(ModelSource(str(tmp_path)))
    with pytest.raises(InputError, match="does not exist; expected an artifact"):
        find_model(ModelSource(str(tmp_path / "absent")))
