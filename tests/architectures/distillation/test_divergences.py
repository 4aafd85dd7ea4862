"""The losses between a teacher and its student equal PyTorch's."""

import numpy as np
import pytest
import scipy.special

from bert_keras.architectures.distillation import (
    AttentionDivergence,
    BernoulliDivergence,
    SoftmaxDivergence,
    SquaredDistance,
)

BATCH, CLASSES, HEADS, LENGTH = 13, 5, 3, 7


def draw(*shape, seed):
    """Random float32 values."""
    return np.random.default_rng(seed).normal(scale=3.0, size=shape).astype("float32")


def kl_at(temperature):
    def compute(torch, theirs, own):
        p, log_q = torch.softmax(theirs / temperature, -1), torch.log_softmax(own / temperature, -1)
        return torch.nn.functional.kl_div(log_q, p, reduction="none").sum(-1) * temperature**2

    return compute


def bernoulli_at(temperature):
    def compute(torch, theirs, own):
        p = torch.sigmoid(theirs / temperature)
        cross = torch.nn.functional.binary_cross_entropy_with_logits(own / temperature, p, reduction="none")
        entropy = torch.nn.functional.binary_cross_entropy(p, p, reduction="none")
        return (cross - entropy).mean(-1) * temperature**2

    return compute


def attention(torch, theirs, own):
    return torch.nn.functional.kl_div(torch.log(own), theirs, reduction="none").sum(-1).mean(1)


LOGITS = draw(BATCH, CLASSES, seed=0), draw(BATCH, CLASSES, seed=1)
SCORES = tuple(scipy.special.softmax(draw(BATCH, HEADS, LENGTH, LENGTH, seed=seed), axis=-1) for seed in (2, 3))
CASES = {
    "classes": (SoftmaxDivergence(2.5), kl_at(2.5), LOGITS),
    "labels": (BernoulliDivergence(1.5), bernoulli_at(1.5), LOGITS),
    "vectors": (SquaredDistance(), lambda torch, theirs, own: (theirs - own).pow(2).sum(-1), LOGITS),
    "attention": (AttentionDivergence(), attention, SCORES),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loss_equals_pytorch(name):
    import torch

    ours, theirs, values = CASES[name]
    expected = theirs(torch, *map(torch.tensor, values)).numpy()
    assert expected.shape == ((BATCH, LENGTH) if name == "attention" else (BATCH,))
    np.testing.assert_allclose(ours(*values), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_loss_is_zero_for_equal_models_and_positive_otherwise(name):
    loss, _, (one, other) = CASES[name]
    np.testing.assert_allclose(loss(one, one), 0, atol=1e-6)
    assert np.all(np.asarray(loss(one, other)) > 0)


def test_a_masked_key_has_no_part_in_the_attention_loss():
    theirs, own = SCORES[0].copy(), SCORES[1].copy()
    theirs[..., 0], own[..., 0] = 0.0, 0.0  # padding: exactly 0 in float32
    assert np.isfinite(AttentionDivergence()(theirs, own)).all()
