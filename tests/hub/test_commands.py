"""Commands and functions that take a checkpoint also take the name of a model on the Hub."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.checkpoints.tiny_folders import write_classifier
from tests.hub.hub_server import HubServer, Repository

ROOT = pathlib.Path(__file__).parents[2]
NAME = "hf://me/classifier"
PYTHON = """
import json
import bert_keras as bk
name = "hf://me/classifier"
new = bk.BertClassifier.from_checkpoint(name, num_classes=5)
print(json.dumps([
    type(bk.load(name)).__name__,
    bk.load_tokenizer(name).vocabulary_size,
    bk.Predictor.from_checkpoint(name)(["a b"], top=1)[0],
    new.num_classes,
    bk.evaluate(name, [("a b", "red"), ("c", "blue")])["accuracy"],
    bk.inspect(name, "a b").name,
    bk.plan(name, quick=True).num_parameters > 0,
]))
"""
ENGINES = """
import argparse, json, pathlib
from bert_keras.cli.commands import serve
from bert_keras.cli.predictions import PredictionModel

def list_weights(folder):
    return sorted(path.name for path in folder.rglob("*") if path.suffix in (".onnx", ".safetensors"))

def find(number, engine, quantized=False):
    arguments = argparse.Namespace(engine=engine, quantized=quantized)
    return list_weights(serve._find_folder(f"hf://me/onnx{number}", arguments))

predicting = PredictionModel.read(argparse.Namespace(model="hf://me/onnx0", engine="onnxruntime"))
print(json.dumps({
    "predict onnxruntime": list_weights(predicting.artifact.path.parent.parent),
    "serve onnxruntime": find(1, "onnxruntime"),
    "serve --quantized": find(2, None, quantized=True),
    "serve keras": find(3, "keras"),
    "serve tensorflow": find(4, "tensorflow"),
}))
"""


@pytest.fixture
def environment(tmp_path):
    """The environment of processes that find a classifier on the Hub, and copies of it with ONNX files."""
    folder = write_classifier(tmp_path / "classifier")
    with HubServer() as hub:
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        hub.repositories["me/classifier"] = Repository(files)
        onnx = {f"onnx/{name}.onnx": b"" for name in ("model", "model_quantized", "model_q4", "model_fp16")}
        hub.repositories |= {f"me/onnx{number}": Repository({**files, **onnx}) for number in range(5)}
        yield {**os.environ, **hub.environment(tmp_path / "home"), "PYTHONPATH": str(ROOT)}


def test_an_engine_downloads_only_the_onnx_file_that_it_runs(environment):
    done = subprocess.run([sys.executable, "-c", ENGINES], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {
        "predict onnxruntime": ["model.onnx"],
        "serve onnxruntime": ["model.onnx"],
        "serve --quantized": ["model_quantized.onnx"],
        "serve keras": ["model.safetensors"],
        "serve tensorflow": [],
    }


def run_command(*arguments, environment, cwd):
    command = [sys.executable, "-m", "bert_keras.cli.main", *arguments]
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_commands_download_a_model_of_the_hub_and_say_so(environment, tmp_path):
    (tmp_path / "dev.csv").write_text("text,label\na b,red\nc d,blue\ne,green\n" + "a g,red\nb,blue\n" * 8)
    remote = run_command("predict", NAME, "a b", environment=environment, cwd=tmp_path)
    assert "downloading hf://me/classifier: 4 files" in remote.stderr
    local = run_command("predict", "classifier", "a b", environment=environment, cwd=tmp_path)
    assert remote.stdout == local.stdout
    again = run_command("evaluate", NAME, "dev.csv", environment=environment, cwd=tmp_path)
    assert "downloading" not in again.stderr
    for arguments in (
        ("convert", NAME, "converted"),
        ("plan", NAME, "--quick"),
        ("inspect", NAME, "a b", "--out", "inspected", "--no-pictures"),
        ("finetune", NAME, "tuned", "--train", "dev.csv", "--epochs", "1", "--max-sequence-length", "8"),
        ("export", NAME, "exported"),
        ("verify", "exported", NAME),
    ):
        run_command(*arguments, environment=environment, cwd=tmp_path)
    card = (tmp_path / "tuned/README.md").read_text("utf-8")
    assert "base_model: me/classifier\n" in card
    assert "- checkpoint: hf://me/classifier\n" in card
    report = json.loads((tmp_path / "exported/parity.json").read_text())
    assert report["checkpoint"] == NAME
    serving = (tmp_path / "exported/serving/README.md").read_text("utf-8")
    assert "/models/classifier" in serving  # the name of the model, not that of a folder in the cache


@pytest.mark.slow
def test_python_functions_take_the_name_of_a_model_on_the_hub(environment, tmp_path):
    done = subprocess.run([sys.executable, "-c", PYTHON], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found[0] == "BertClassifier"
    assert found[1] == 13
    assert set(found[2]) == {"label", "probability"}
    assert found[3] == 5
    assert found[5:] == ["classifier", True]
