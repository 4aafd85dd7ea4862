"""Loading returns bitwise what was saved, from a checkpoint folder and from a `.keras` file."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

import bert_keras as bk
from tests.conftest import MODELS
from tests.marks import slow_except

FEW_KINDS = slow_except(MODELS, quick=["pretrainer", "multi_label", "question_answerer", "electra_with_generator"])
LAYERS = {"num_layers": 2}


@pytest.fixture
def full_batch(make_batch, model_kind):
    """A batch with every feature that the kind of model uses."""
    slots = model_kind in ("masked_lm", "pretrainer", "electra_with_generator")
    return make_batch("token_ids", "padding_mask", "segment_ids", *(["mask_positions"] if slots else []))


@pytest.mark.parametrize("model_kind", slow_except(MODELS, quick=["electra_with_generator"]), indirect=True)
def test_a_keras_file_restores_the_model(model_kind, make_model, full_batch, run, tmp_path):
    import keras

    model = make_model(model_kind, num_layers=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    assert loaded.get_config() == model.get_config()
    assert_identical(run(loaded, full_batch), run(model, full_batch))


@pytest.mark.parametrize("model_kind", FEW_KINDS, indirect=True)
def test_a_folder_restores_the_model(model_kind, shared_model, saved_folder, full_batch, run):
    model = shared_model(model_kind, **LAYERS)
    loaded = bk.load(saved_folder(model_kind, **LAYERS))
    assert type(loaded) is type(model)
    assert_identical(run(loaded, full_batch), run(model, full_batch))


@pytest.mark.parametrize(
    "changes",
    [{"position_type": "sinusoidal"}, {"hidden_act": "relu"}, {"embedding_dim": 22, "model_type": "electra"}],
)
def test_a_folder_keeps_settings_that_other_formats_lack(changes, make_model, make_batch, run, tmp_path):
    model = make_model("encoder_without_pooler", num_layers=1, **changes)
    bk.save(model, None, tmp_path / "folder")
    loaded = bk.load(tmp_path / "folder")
    assert loaded.config == model.config
    assert_identical(run(loaded, make_batch()), run(model, make_batch()))


def test_saving_twice_writes_the_same_bytes(saved_folder, tmp_path):
    first = saved_folder("pretrainer", **LAYERS)
    bk.save(bk.load(first), None, tmp_path / "second")
    for name in ("config.json", "model.safetensors"):
        assert (first / name).read_bytes() == (tmp_path / "second" / name).read_bytes(), name


@pytest.mark.slow  # tests/modeling/test_as_keras_models.py loads two files in a new process
def test_a_new_process_needs_only_import_bert_keras(make_model, make_batch, run, tmp_path):
    model = make_model("pretrainer")
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "batch.npz", **make_batch())
    script = (
        "import sys, numpy as np, bert_keras as bk\n"
        "model = bk.load(sys.argv[1] + '/model.keras')\n"
        "outputs = model(dict(np.load(sys.argv[1] + '/batch.npz')), training=False)\n"
        "np.savez(sys.argv[1] + '/outputs.npz', **{name: value.numpy() for name, value in outputs.items()})\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, cwd=pathlib.Path(bk.__file__).parents[1])
    with np.load(tmp_path / "outputs.npz") as outputs:
        assert_identical(dict(outputs), run(model, make_batch()))


@pytest.mark.parametrize("model_kind", FEW_KINDS, indirect=True)
def test_every_weight_is_in_the_folder(model_kind, shared_model, saved_folder):
    from safetensors.numpy import load_file

    model, folder = shared_model(model_kind, **LAYERS), saved_folder(model_kind, **LAYERS)
    files = [folder / "model.safetensors", folder / "generator" / "model.safetensors"]
    stored = sum(value.size for path in files if path.exists() for value in load_file(path).values())
    shared = 0
    if (
        model_kind == "electra_with_generator"
    ):  # the generator's folder is complete, with its own copy of the embeddings
        shared = sum(int(np.prod(weight.shape)) for weight in model.encoder.embeddings.weights)
    assert stored == model.count_params() + shared


def test_a_new_head_keeps_the_encoder(shared_model, saved_folder, make_batch, run):
    model = bk.BertClassifier.from_checkpoint(saved_folder("pretrainer", **LAYERS), num_classes=6)
    assert model.num_classes == 6
    wanted = run(shared_model("pretrainer", **LAYERS).encoder, make_batch())
    assert_identical(run(model.encoder, make_batch()), wanted)


def test_a_head_of_the_same_kind_and_size_is_kept(make_model, make_batch, run, tmp_path):
    model = make_model("classifier", num_layers=1)
    bk.save(model, None, tmp_path / "folder")
    same = bk.BertClassifier.from_checkpoint(tmp_path / "folder", num_classes=4)
    assert_identical(run(same, make_batch()), run(model, make_batch()))
    other = bk.BertClassifier.from_checkpoint(tmp_path / "folder", num_classes=5)
    assert run(other, make_batch())["logits"].shape == (3, 5)


def test_the_problem_of_a_regression_head_is_not_kept_for_classes(make_model, tmp_path):
    bk.save(make_model("regression", num_layers=1), None, tmp_path / "folder")
    assert bk.BertClassifier.from_checkpoint(tmp_path / "folder", num_classes=1).problem == "regression"
    assert bk.BertClassifier.from_checkpoint(tmp_path / "folder", num_classes=4).problem == "single_label"


def test_a_keras_file_keeps_the_optimizer(make_model, make_batch, tmp_path):
    model, labels = make_model("classifier", num_layers=1), np.array([2, 0, 1])
    model.compile(optimizer="adam", run_eagerly=True)
    model.fit(make_batch(), labels, batch_size=3, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = bk.load(tmp_path / "model.keras")
    for ours, theirs in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.evaluate(make_batch(), labels, verbose=0) == model.evaluate(make_batch(), labels, verbose=0)


@pytest.mark.parametrize("model_kind", FEW_KINDS, indirect=True)
def test_the_encoder_can_be_loaded_from_any_folder(model_kind, shared_model, saved_folder, make_batch, run):
    model = shared_model(model_kind, **LAYERS)
    encoder = bk.BertEncoder.from_checkpoint(saved_folder(model_kind, **LAYERS))
    wanted = run(model if model_kind.startswith("encoder") else model.encoder, make_batch())
    assert_identical({"sequence_output": run(encoder, make_batch())["sequence_output"]}, wanted)


def assert_identical(ours: dict, theirs: dict) -> None:
    """Check that every output of `ours` is bitwise equal in `theirs`."""
    assert ours
    for name, value in ours.items():
        assert np.array_equal(value, theirs[name]), name
