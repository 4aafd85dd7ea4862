"""What version 0.2.0 wrote opens: folders, `.keras` files, settings, backups and artifacts; see `write_recorded.py`."""

import json
import pathlib
import shutil

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checkpoints.building import get_stored_config

RECORDED = pathlib.Path(__file__).parent / "recorded_0_2"
EXPECTED = json.loads((RECORDED / "expected.json").read_text(encoding="utf-8"))
FOLDERS = [name for name in EXPECTED if (RECORDED / name).is_dir()]
KERAS_FILES = sorted(path.stem for path in RECORDED.glob("*.keras"))
IDS = np.array([[2, 13, 15, 3, 0], [2, 14, 16, 5, 3]], "int32")
TOLERANCE = 1e-5  # between processors


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A copy, in which the recorded relative paths are valid."""
    monkeypatch.chdir(shutil.copytree(RECORDED, tmp_path / "recorded"))


def assert_same_outputs(model, name):
    outputs = model({"token_ids": IDS, "padding_mask": (IDS != 0).astype("int32")}, training=False)
    assert set(outputs) == set(EXPECTED[name])
    for key, value in EXPECTED[name].items():
        np.testing.assert_allclose(np.array(outputs[key]), value, rtol=0, atol=TOLERANCE, err_msg=key)


def test_the_recorded_files_are_complete():
    assert len(FOLDERS) == 9
    assert KERAS_FILES == ["electra", "electra_classifier", "embedder"]


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_open_and_are_saved_as_they_were(name, tmp_path):
    model = bk.load(RECORDED / name)
    assert_same_outputs(model, name)
    bk.save(model, bk.load_tokenizer(RECORDED / name), tmp_path / "again")
    before, after = (
        json.loads((folder / "config.json").read_text()) for folder in (RECORDED / name, tmp_path / "again")
    )
    before["bert_keras"].pop("task", None)  # which `save` gets from its caller
    assert after == before


@pytest.mark.parametrize("name", KERAS_FILES)
def test_keras_files_open_and_find_their_architecture(name):
    model = bk.load(RECORDED / f"{name}.keras")
    assert_same_outputs(model, name)
    architecture = json.loads((RECORDED / name / "config.json").read_text())["model_type"]
    assert get_stored_config(model).model_type == architecture


@pytest.mark.usefixtures("recorded")
def test_settings_repeat_a_run_and_backups_resume():
    from bert_keras.cli.main import main

    assert main(["finetune", "encoder", "again", "--config", "classifier/finetuning.toml"]) == 0
    assert_same_outputs(bk.load("again"), "classifier")
    options = {"train": "train.tsv", "dev": "train.tsv", "num_epochs": 2, "batch_size": 4, "max_sequence_length": 12}
    resumed = bk.finetune("encoder", "stopped", resume=True, backup_every=1, verbose=False, **options)
    assert_same_outputs(resumed.model, "resumed")


def test_artifacts_answer():
    [answer] = bk.Predictor.from_artifact(RECORDED / "artifacts")(["good film"])
    np.testing.assert_allclose(answer["probabilities"], EXPECTED["artifact"][0], rtol=0, atol=TOLERANCE)
