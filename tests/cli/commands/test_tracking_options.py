"""`--callback`, `--log-format json` and `--tensorboard` of real trainings; MLflow's callback works unchanged."""

import csv
import json
import subprocess
import sys

import pytest

CALLBACK = """
import sys
import keras

class Printed(keras.callbacks.Callback):
    def __init__(self, word="none"):
        super().__init__()
        self.word = word

    def on_epoch_end(self, epoch, logs=None):
        print(f"{self.word} {epoch} {sorted(logs)}", file=sys.stderr)
"""
READ_MLFLOW = """
import json, mlflow
[run] = mlflow.MlflowClient().search_runs(["0"])
history = {
    name: [(one.step, one.value) for one in mlflow.MlflowClient().get_metric_history(run.info.run_id, name)]
    for name in run.data.metrics
}
artifacts = [one.path for one in mlflow.MlflowClient().list_artifacts(run.info.run_id)]
print(json.dumps([history, run.data.params, artifacts]))
"""


@pytest.fixture
def training(shallow_checkpoint, tmp_path):
    """Arguments of a training of two epochs of three steps, for commands that run in `tmp_path`."""
    rows = [(f"the {pet} sat" + " ran" * number, pet) for number in range(6) for pet in ("cat", "dog")]
    for name in ("train", "dev"):
        with open(tmp_path / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
    return ["finetune", shallow_checkpoint, "out", *"--train train.csv --dev dev.csv --epochs 2 --batch-size 4".split()]


@pytest.mark.slow
def test_every_line_of_a_training_is_json_and_a_callback_of_the_current_folder_is_called(cli, training, tmp_path):
    (tmp_path / "my_callbacks.py").write_text(CALLBACK)
    options = ["--log-format", "json", "--callback", "my_callbacks:Printed,word=epoch", "--tensorboard", "events"]
    done = cli(*training, *options, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["out"] == "out"
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert {"time", "level", "event", "message"} <= set.intersection(*map(set, events))
    assert [event["event"] for event in events if event["event"] != "progress"] == [
        *("settings", "warning", "scores", "output", "scores", "output", "table", "table")
    ]
    *_, last = [event for event in events if event["event"] == "progress"]
    assert (last["done"], last["total"], last["unit"]) == (6, 6, "steps")
    assert last["metrics"].keys() >= {"loss", "accuracy"}
    first, second = [event["message"] for event in events if event["event"] == "output"]
    assert first.startswith("epoch 0 ['accuracy', 'loss', 'val_accuracy'")
    assert second.startswith("epoch 1 ")
    assert {path.name for path in (tmp_path / "events").iterdir() if path.is_dir()} == {"train", "validation"}


@pytest.mark.slow
def test_mlflow_records_every_epoch(cli, training, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/runs.db")
    monkeypatch.setenv("MLFLOW_ARTIFACT_LOCATION", str(tmp_path / "artifacts"))
    done = cli(*training, "--callback", "mlflow.keras:MlflowCallback", "--json")
    assert done.returncode == 0, done.stderr
    read = subprocess.run([sys.executable, "-c", READ_MLFLOW], cwd=tmp_path, capture_output=True, text=True)
    history, params, artifacts = json.loads(read.stdout.splitlines()[-1])
    epochs = json.loads(done.stdout)["epochs"]
    assert history["val_accuracy"] == [[step, pytest.approx(one["accuracy"])] for step, one in enumerate(epochs)]
    assert [step for step, _ in history["loss"]] == [0, 1]
    assert params["optimizer_name"]
    assert artifacts == ["model_summary.txt"]
