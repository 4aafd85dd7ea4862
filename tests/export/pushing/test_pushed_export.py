"""A real export is pushed and downloaded again: the code of its model card runs, with the checkpoint's answers."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import bert_keras as bk
from tests.checkpoints.tiny_folders import write_classifier
from tests.hub.hub_server import HubServer

ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.slow
def test_the_code_in_the_card_of_a_pushed_export_runs(tmp_path):
    folder = write_classifier(tmp_path / "classifier")
    formats = ["onnx", "tflite", "saved_model"]
    bk.export_model(folder, tmp_path / "out", formats, quantizations=("float32",))
    with HubServer() as hub:
        environment = {**os.environ, **hub.environment(tmp_path / "home"), "PYTHONPATH": str(ROOT)}

        def run(*arguments):
            command = [sys.executable, *arguments]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{arguments[-1]}\n{done.stderr[-3000:]}"
            return done

        push = ("-m", "bert_keras.cli.main", "push", "classifier", "me/model", "--artifacts", "out", "--saved-model")
        run(*push)
        files = hub.repositories["me/model"].files
        pushed = {"onnx/model.onnx", "onnx/model_quantized.onnx", "tflite/model_float32.tflite", "parity.json"}
        assert {*pushed, "tflite/README.md", "tflite/model.json", "saved_model/1/saved_model.pb"} < set(files)
        assert files["onnx/model.onnx"] == (tmp_path / "out/onnx/onnx/model.onnx").read_bytes()
        blocks = re.findall(r"^```python\n(.*?)^```$", files["README.md"].decode(), re.MULTILINE | re.DOTALL)
        assert len(blocks) == 4  # bert_keras, transformers, onnxruntime, LiteRT
        answers = [run("-c", block).stdout for block in blocks]
        labels = {label for answer in answers[:3] for label in re.findall("'label': '([a-z]+)'", answer)}
        assert len(labels) == 1
        assert "input_ids" in answers[3]
        predict = ("-m", "bert_keras.cli.main", "predict", "hf://me/model", "--engine", "onnxruntime", "a b")
        assert '"label"' in run(*predict).stdout
