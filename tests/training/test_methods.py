"""Frozen weights do not change, and lower layers have smaller learning rates, as in ELECTRA's code."""

import re

import keras
import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.training.finetuning import compute_rate_factors, freeze
from bert_keras.training.optimizers.schedules import adamw
from tests.marks import slow

DECAY = 0.8
NUM_BLOCKS = 3  # of the tiny models


def electra_rates(learning_rate: float, layer_decay: float, n_layers: int) -> dict[str, float]:
    """google-research/electra, model/optimization.py, `_get_layer_lrs`, copied."""
    key_to_depths = {"/embeddings/": 0, "/embeddings_project/": 0, "task_specific/": n_layers + 2}
    for layer in range(n_layers):
        key_to_depths["encoder/layer_" + str(layer) + "/"] = layer + 1
    return {key: learning_rate * (layer_decay ** (n_layers + 2 - depth)) for key, depth in key_to_depths.items()}


def electra_name(path: str) -> str:
    """Return the key of the table above for one of our variables."""
    if block := re.search(r"block_(\d+)/", path):
        return f"encoder/layer_{block[1]}/"
    if "embedding_projection/" in path:
        return "/embeddings_project/"
    return "/embeddings/" if "/embeddings/" in path else "task_specific/"


@pytest.fixture(scope="module")
def classifier(make_model):
    """A classifier that no test changes."""
    return make_model("classifier")


@pytest.mark.parametrize(
    ("kind", "changes"),
    [("classifier", {}), ("classifier_without_pooler", {"embedding_dim": 14}), *slow(("token_classifier", {}))],
)
def test_layer_factors_match_electras_code(kind, changes, make_model):
    model = make_model(kind, **changes)
    rates = electra_rates(1.0, DECAY, NUM_BLOCKS)
    names = [electra_name(variable.path) for variable in model.trainable_variables]
    assert compute_rate_factors(model, DECAY) == pytest.approx([rates[name] for name in names])
    assert set(names) == set(rates) - (set() if changes else {"/embeddings_project/"})


def test_the_head_has_factor_1_and_the_last_block_the_square_of_layer_decay(classifier):
    model = classifier
    factors = dict(zip(map(id, model.trainable_variables), compute_rate_factors(model, DECAY), strict=True))
    encoder = model.encoder
    for variable, depth in (
        (model.classifier.kernel, 0),
        (encoder.pooler.bias, 0),
        (encoder.blocks[2].intermediate.kernel, 2),
        (encoder.blocks[0].attention.query.bias, 4),
        (encoder.embeddings.layer_norm.gamma, NUM_BLOCKS + 2),
    ):
        assert factors[id(variable)] == DECAY**depth, variable.path


def test_equal_rates_have_no_factors(classifier):
    assert compute_rate_factors(classifier, 1.0) is None
    assert compute_rate_factors(classifier, 1.0, head_rate_factor=1.0) is None


@pytest.mark.parametrize("kind", ["classifier", *slow("token_classifier", "question_answerer")])
def test_the_head_alone_has_its_rate_factor(kind, make_model):
    model = make_model(kind)
    factors = compute_rate_factors(model, DECAY, head_rate_factor=3.0)
    assert len(factors) == len(model.trainable_variables)
    encoder = {id(variable) for variable in model.encoder.trainable_variables}
    head = [factor for one, factor in zip(model.trainable_variables, factors, strict=True) if id(one) not in encoder]
    assert head == [3.0, 3.0]  # the weights and the bias of its dense layer
    plain = compute_rate_factors(model, DECAY)
    assert [factor for factor in factors if factor != 3.0] == [*plain[: -len(head)]]


def test_only_trainable_variables_have_layer_factors(make_model):
    model = make_model("classifier")
    freeze(model, 2)
    factors = compute_rate_factors(model, DECAY)
    assert len(factors) == len(model.trainable_variables)
    assert sorted(set(factors)) == [DECAY**2, 1.0]


@pytest.mark.parametrize(("num_blocks", "changes"), [*slow((0, {}), (2, {}), (3, {})), (1, {"embedding_dim": 14})])
def test_frozen_weights_keep_their_bits_and_all_others_train(num_blocks, changes, make_model, make_batch):
    model = make_model("classifier_without_pooler", **changes)
    freeze(model, num_blocks)
    frozen = ("embeddings/", "embedding_projection/", *(f"block_{number}/" for number in range(num_blocks)))
    before = {weight.path: np.array(weight) for weight in model.weights}
    model.compile(adamw(0.01, None), run_eagerly=True)
    data = make_batch(), np.array([2, 0, 1])
    for _ in range(2):
        model.train_on_batch(*data)
    for weight in model.weights:
        is_frozen = any(f"/{name}" in weight.path for name in frozen)
        # the bias of the keys adds the same to all scores of a softmax, so it has no gradient but rounding
        if is_frozen or not weight.path.endswith("key/bias"):
            assert np.array_equal(weight, before[weight.path]) == is_frozen, weight.path
    assert len({weight.path for weight in model.weights}) == len(model.weights)


def test_freezing_too_many_blocks_is_rejected(classifier):
    with pytest.raises(
        InputError, match="4 blocks cannot be frozen, because the model has 3; expected at most that many: freeze fewer"
    ):
        freeze(classifier, 4)


def test_frozen_layers_are_saved_and_loaded(make_model, tmp_path):
    model = make_model("classifier", num_layers=2)
    freeze(model, 1)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for ours, theirs in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
