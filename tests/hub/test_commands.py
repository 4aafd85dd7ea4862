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


@pytest.fixture
def environment(tmp_path):
    """The environment of processes that find a classifier on the Hub."""
    folder = write_classifier(tmp_path / "classifier")
    with HubServer() as hub:
        hub.repositories["me/classifier"] = Repository({path.name: path.read_bytes() for path in folder.iterdir()})
        yield {**os.environ, **hub.environment(tmp_path / "home"), "PYTHONPATH": str(ROOT)}


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
