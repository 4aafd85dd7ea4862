"""A folder is served under the name that its export gave the model."""

import numpy as np
import pytest

from bert_keras.export.deployment_bundle import write_deployment_files
from bert_keras.export.saved_model.saved_model_artifact import write_serving_files
from bert_keras.serving.model_folders import name_model


def write_next_to_onnx(folder, name):
    signature = {"inputs": {"input_ids": ("int64", ("batch", "sequence"))}, "outputs": {}}
    write_deployment_files(folder / "deploy", name, signature=signature, num_bytes=1, task=None)


def write_next_to_saved_model(folder, name):
    requests = [("ids", {"token_ids": np.ones([1, 3], "int32")})]
    write_serving_files(folder / "serving", name, requests=requests, min_serving="2.13")


@pytest.mark.parametrize("write", [write_next_to_onnx, write_next_to_saved_model])
@pytest.mark.parametrize("name", ["news", "news_ids", "News-2.1"])
def test_the_name_is_that_of_the_export(write, name, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    assert name_model(folder) == "out"
    write(folder, name)
    assert name_model(folder) == name
    for artifact in ("onnx", "saved_model"):
        assert name_model(folder / artifact) == name
    assert name_model(folder / "another") == "another"


def test_without_a_readable_file_the_name_is_that_of_the_folder(tmp_path):
    folder = tmp_path / "my model"
    (folder / "serving").mkdir(parents=True)
    (folder / "serving/models.config").write_bytes(b"\xff\x00")
    assert name_model(folder) == "my-model"
    (folder / "deploy/triton/a_ids/config.pbtxt").mkdir(parents=True)
    assert name_model(folder) == "my-model"
