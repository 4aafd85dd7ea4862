"""What a new head keeps of a stored one, and what a `.keras` file keeps of training; see also `tests/contracts/`."""

import numpy as np

import bert_keras as bk


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


def assert_identical(ours: dict, theirs: dict) -> None:
    """Check that every output of `ours` is bitwise equal in `theirs`."""
    assert ours
    for name, value in ours.items():
        assert np.array_equal(value, theirs[name]), name
