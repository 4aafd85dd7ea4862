"""Distributions of new weights: output layers as in transformers, all other layers as in Google's code."""

import keras
import numpy as np
import pytest

import bert_keras as bk
from bert_keras.architectures.layers import TruncatedNormal, zero_initialization

RANGE = 0.05
SIZES = {"vocabulary_size": 64, "num_layers": 1, "num_heads": 2, "hidden_dim": 256, "intermediate_dim": 128}


@pytest.fixture
def encoder():
    keras.utils.set_random_seed(0)
    return bk.BertEncoder(bk.BertConfig(**SIZES, initializer_range=RANGE))


@pytest.fixture
def new_kernels(encoder):
    """Kernels of the output layers of two heads with 150 classes."""
    token_classifier = bk.BertTokenClassifier(bk.BertEncoder(encoder.config, pooler=False), 150)
    return [
        np.array(layer.kernel) for layer in (bk.BertClassifier(encoder, 150).classifier, token_classifier.classifier)
    ]


def test_new_head_is_drawn_from_an_untruncated_normal(new_kernels):
    """Same as in transformers; truncation at two standard deviations would multiply the deviation by 0.88."""
    theirs = np.random.default_rng(0).normal(0, RANGE, (256, 150))
    for kernel in new_kernels:
        assert_same_distribution(kernel, theirs)


@pytest.mark.slow  # imports torch
def test_new_head_has_the_distribution_of_transformers(new_kernels):
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(hidden_size=256, num_attention_heads=2, num_labels=150, initializer_range=RANGE)
    config.num_hidden_layers = 0
    theirs = transformers.BertForSequenceClassification(config).classifier.weight.detach().numpy()
    for kernel in new_kernels:
        assert_same_distribution(kernel, theirs.T)


def assert_same_distribution(kernel: np.ndarray, theirs: np.ndarray) -> None:
    assert kernel.shape == theirs.shape
    assert kernel.std() == pytest.approx(theirs.std(), rel=0.03)
    for share in (0.5, 0.95, 0.999):
        quantiles = [np.quantile(np.abs(weights), share) for weights in (kernel, theirs)]
        assert quantiles[0] == pytest.approx(quantiles[1], rel=0.08)


def test_encoder_is_drawn_from_a_truncated_normal(encoder):
    matrices = [np.array(weight) for weight in encoder.weights if len(weight.shape) > 1]
    assert len(matrices) >= 9
    for matrix in matrices:
        assert np.abs(matrix).max() <= 2 * RANGE
        assert matrix.std() == pytest.approx(0.88 * RANGE, rel=0.08)


def test_zero_initializer_shares_zeros_of_equal_shapes():
    draw = TruncatedNormal(stddev=RANGE, seed=1)
    with zero_initialization():
        first, second, other = draw((3, 5)), draw((3, 5)), draw((5, 3))
    assert first is second
    assert (other.shape, np.abs(first).max()) == ((5, 3), 0)
    assert np.abs(draw((3, 5))).min() > 0


def test_assigned_weights_do_not_share_memory(sizes):
    with zero_initialization():
        encoder = bk.BertEncoder(bk.BertConfig(**sizes))
    first, second = (block.attention.query.kernel for block in encoder.blocks[:2])
    first.assign_add(np.ones(first.shape))
    assert (np.array(first) == 1).all()
    assert (np.array(second) == 0).all()
    second.assign_sub(3 * np.ones(first.shape))
    assert (np.array(first) == 1).all()
    assert (np.array(second) == -3).all()
    assert not np.array(encoder.blocks[2].attention.query.kernel).any()
