"""Muon compared with Keras's, its choice of variables, and a saved model that resumes."""

import keras
import numpy as np
import pytest

from bert_keras.training import WarmupDecay, make_optimizer, muon
from bert_keras.training.config.tables import OptimizerSettings
from bert_keras.training.optimizers.update_rules import BertMuon, orthogonalize

SHAPES = {
    "block/query/kernel": (6, 6),
    "block/wide/kernel": (4, 9),
    "block/tall/kernel": (9, 4),
    "embeddings/token/embeddings": (20, 4),
    "block/query/bias": (6,),
}
ADAMW_NUMBERS = {"beta_1": 0.87, "beta_2": 0.97, "epsilon": 1e-5}


def draw(num_steps=5):
    """Draw weights, and gradients of a few steps."""
    rng = np.random.default_rng(0)
    draws = range(1 + num_steps)
    return [{name: rng.normal(size=shape).astype("float32") for name, shape in SHAPES.items()} for _ in draws]


def train(optimizer, num_steps=5):
    """Apply the same gradients to the same weights, and return the weights."""
    weights, *gradients = draw(num_steps)
    variables = [Variable(weights[path], path) for path in SHAPES]
    for step in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(step[path]) for path in SHAPES], variables)
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


class Variable(keras.Variable):
    """A variable with the path that it would have in a model."""

    def __init__(self, value, path):
        self._path_in_model = path
        super().__init__(value, name=path.split("/")[-1])

    @property
    def path(self):
        return self._path_in_model


def test_without_decay_it_is_the_muon_of_keras():
    schedule = WarmupDecay("linear", 0.03, 6, 2)
    ours = BertMuon(schedule, weight_decay=0.0, **ADAMW_NUMBERS)
    adam = {f"adam_{name}": value for name, value in ADAMW_NUMBERS.items() if name != "epsilon"}
    theirs = keras.optimizers.Muon(
        schedule, weight_decay=None, adam_weight_decay=None, epsilon=ADAMW_NUMBERS["epsilon"], **adam
    )
    for own, other in zip(train(ours), train(theirs), strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-6)  # measured: 1.2e-7


def test_weight_decay_shrinks_matrices_and_tables_only():
    rate, decay = 0.01, 0.5
    decayed, other = (train(BertMuon(rate, weight_decay=value, **ADAMW_NUMBERS), num_steps=1) for value in (decay, 0.0))
    weights = draw()[0]
    for path, with_decay, without in zip(SHAPES, decayed, other, strict=True):
        shrinkage = 0.0 if path.endswith("bias") else rate * decay * weights[path]
        np.testing.assert_allclose(with_decay, without - shrinkage, atol=1e-6)


@pytest.mark.parametrize("shape", [(8, 8), (5, 12), (12, 5)])
def test_orthogonalize_moves_the_singular_values_near_1_and_keeps_the_directions(shape):
    matrix = np.random.default_rng(1).normal(size=shape).astype("float32")
    result = keras.ops.convert_to_numpy(orthogonalize(matrix))
    values = np.linalg.svd(result, compute_uv=False)
    assert values.min() > 0.6
    assert values.max() < 1.3
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    rotated = left.T @ result @ right.T  # diagonal if the singular vectors are the same
    np.testing.assert_allclose(rotated, np.diag(np.diag(rotated)), atol=1e-4)


@pytest.mark.parametrize("kind", ["pretrainer", "electra"])
def test_only_the_matrices_inside_the_model_are_orthogonalized(kind, make_model):
    model = make_model(kind)
    optimizer = muon(1e-3, 10)
    optimizer.build(model.trainable_variables)
    with_adamw = {variable.path for variable in model.trainable_variables if optimizer.has_second_moment(variable)}
    matrices = {variable.path for variable in model.trainable_variables if len(variable.shape) == 2}
    words = ("block_", "pooler", "transform", "head_dense")
    inside = {path for path in matrices if any(word in path for word in words)}
    assert len(inside) > 6
    assert matrices - with_adamw == inside


def test_the_name_of_a_model_does_not_choose_the_optimizer_of_its_matrices():
    optimizer = BertMuon(0.01)
    assert not optimizer.has_second_moment(Variable(np.zeros((3, 3)), "my_embedding_model/block_0/query/kernel"))
    assert optimizer.has_second_moment(Variable(np.zeros((3, 3)), "my_embedding_model/embeddings/token/embeddings"))


def test_the_name_selects_it_and_its_settings_reach_it():
    optimizer = make_optimizer(OptimizerSettings(name="muon", weight_decay=0.1, clip_norm=0.5), 10)
    assert isinstance(optimizer, BertMuon)
    settings = optimizer.get_config()
    assert (settings["momentum"], settings["weight_decay"], settings["global_clipnorm"]) == (0.95, 0.1, 0.5)


def test_a_saved_model_resumes_training_unchanged(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(2, 12, 5)).astype("float32")
    model = keras.Sequential([keras.layers.Dense(7), keras.layers.Dense(5)])
    model.compile(muon(0.1, 12), "mse", run_eagerly=True)
    model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.optimizer.get_config() == model.optimizer.get_config()
    for either in (model, again):
        either.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    for ours, theirs in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
