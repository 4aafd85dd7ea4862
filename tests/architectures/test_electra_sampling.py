"""ELECTRA's generator samples tokens from its softmax distribution."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.architectures.layers import random_bits
from bert_keras.heads.pretraining.electra import sample_ids
from tests.marks import slow

NUM_DRAWS, NUM_BATCHES = 200_000, 10


@pytest.mark.parametrize("jit_compile", [False, *slow(True)])
@pytest.mark.parametrize("size", [*slow(3, 128), 300])  # 300: three blocks, the last one padded
def test_ids_are_sampled_from_the_softmax(size, jit_compile):
    logits = np.random.default_rng(size).normal(0, 2, (1, 1, size)).astype("float32")
    draw = tf.function(sample_ids, jit_compile=jit_compile)
    many = tf.repeat(tf.constant(logits), NUM_DRAWS // NUM_BATCHES, axis=1)
    bits = [random_bits(tf.constant([3, counter], tf.uint32), many.shape[:2]) for counter in range(NUM_BATCHES)]
    ids = np.concatenate([draw(many, batch_bits).numpy()[0] for batch_bits in bits])
    expected = np.exp(logits[0, 0].astype("float64"))
    expected *= NUM_DRAWS / expected.sum()
    counts = np.bincount(ids, minlength=size)
    chi_square = ((counts - expected) ** 2 / expected).sum()
    degrees = size - 1
    assert abs(chi_square - degrees) < 4 * np.sqrt(2 * degrees) + 4
    assert len(counts) == size


def test_sampling_depends_on_the_seed_and_skips_ids_of_probability_0():
    logits = np.full((2, 50, 200), -1e4, "float32")
    logits[..., 130] = 0.0
    bits = [random_bits(tf.constant([1, counter], tf.uint32), (2, 50)) for counter in (1, 1, 2)]
    assert (sample_ids(tf.constant(logits), bits[0]).numpy() == 130).all()
    flat = tf.zeros((2, 50, 200))
    draws = [sample_ids(flat, draw_bits).numpy() for draw_bits in bits]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).mean() > 0.9
