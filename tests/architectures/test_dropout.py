"""Dropout zeros the expected fraction of values, draws a new mask per call and is reproducible by its seed."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.architectures.layers import Dropout, random_bits
from bert_keras.distribution import Step, within_step

SHAPE = (300, 7, 101)
NUM_VALUES = 300 * 7 * 101


def masks(rate=0.1, num_calls=1, seed=3, jit_compile=False):
    """Return the masks of several calls of a layer."""
    layer = Dropout(rate, seed=seed)
    call = tf.function(lambda x: layer(x, training=True), jit_compile=jit_compile)
    return [call(tf.ones(SHAPE)).numpy() for _ in range(num_calls)]


@pytest.mark.parametrize("rate", [0.1, 0.37, 0.9])
def test_fraction_of_zeros_is_the_rate_and_the_mean_is_preserved(rate):
    (values,) = masks(rate)
    standard_error = np.sqrt(rate * (1 - rate) / NUM_VALUES)
    assert abs(np.mean(values == 0) - rate) < 4 * standard_error
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / (1 - rate))}


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_masks_of_positions_and_calls_are_independent(axis):
    first, second = (values == 0 for values in masks(num_calls=2))
    shifted = np.roll(first, 1, axis=axis)
    for other in (second, shifted, np.roll(second, 1, axis=axis)):
        both = np.mean(first & other)  # independent draws coincide with probability 0.1 * 0.1
        assert abs(both - 0.01) < 4 * np.sqrt(0.01 * 0.99 / NUM_VALUES)


def test_every_random_bit_is_set_half_of_the_time():
    bits = random_bits(tf.constant([11, 4], tf.uint32), (1 << 17,)).numpy()
    for bit in range(32):
        assert abs(np.mean(bits >> bit & 1) - 0.5) < 4 * 0.5 / np.sqrt(1 << 17), bit
    assert len(np.unique(bits)) > (1 << 17) - 8  # 2**17 draws out of 2**32 values contain 2 duplicates on average


def test_adjacent_seeds_do_not_produce_shifted_copies():
    n = 1 << 14
    draws = [random_bits(tf.constant(seed, tf.uint32), (n,)).numpy() for seed in ([0, 0], [0, 1], [1, 0], [1, 1])]
    assert len(np.unique(np.concatenate(draws))) > 4 * n - 8


def test_masks_are_the_same_with_and_without_xla():
    for plain, compiled in zip(masks(num_calls=3), masks(num_calls=3, jit_compile=True), strict=True):
        np.testing.assert_array_equal(plain, compiled)


def test_same_seed_gives_the_same_masks():
    np.testing.assert_array_equal(masks(seed=5)[0], masks(seed=5)[0])
    assert (masks(seed=5)[0] != masks(seed=6)[0]).any()


def test_global_seed_is_used_by_default():
    values = []
    for _ in range(2):
        keras.utils.set_random_seed(9)
        values.append(Dropout(0.5)(np.ones((50,), "float32"), training=True).numpy())
    np.testing.assert_array_equal(*values)


@pytest.mark.parametrize("arguments", [{"training": False}, {}])
def test_dropout_does_nothing_outside_of_training(arguments):
    x = np.arange(5, dtype="float32")
    np.testing.assert_array_equal(Dropout(0.5)(x, **arguments), x)


def test_rate_0_draws_no_random_numbers():
    layer = Dropout(0.0)
    assert not layer.variables
    np.testing.assert_array_equal(layer(np.ones(3), training=True), np.ones(3))


def test_gradient_is_zero_where_values_were_dropped():
    layer, x = Dropout(0.4, seed=1), tf.Variable(tf.ones((1000,)))
    with tf.GradientTape() as tape:
        outputs = layer(x, training=True)
    np.testing.assert_allclose(tape.gradient(outputs, x), outputs, rtol=0, atol=0)


def test_dropout_keeps_half_precision():
    assert Dropout(0.5, dtype="bfloat16")(np.ones(8, "float32"), training=True).dtype == tf.bfloat16


def test_config_restores_the_layer():
    layer = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(Dropout(0.3, seed=4)))
    assert (layer.rate, layer.seed) == (0.3, 4)


@pytest.mark.parametrize("compiled", [False, True])
def test_micro_batch_draws_the_masks_of_the_global_batch(compiled):
    layer = Dropout(0.4, seed=3)

    def draw_masks(first_sequence, num_sequences):
        step = Step(tf.constant(17), first_sequence, num_sequences, compiled=compiled)
        with within_step(step):
            return layer(tf.ones((num_sequences, 7, 11)), training=True).numpy()

    whole = draw_masks(0, 6)
    np.testing.assert_array_equal(np.concatenate([draw_masks(tf.constant(first), 2) for first in (0, 2, 4)]), whole)
    assert 0.3 < np.mean(whole == 0) < 0.5  # 462 values: 0.4 +- 0.02


def test_steps_and_salts_draw_different_masks():
    layer = Dropout(0.5, seed=3)
    drawn = set()
    for number, salt, compiled in itertools.product((1, 2), (0, 1), (False, True)):
        with within_step(Step(tf.constant(number), 0, 2, salt=salt, compiled=compiled)):
            drawn.add(layer(tf.ones((2, 50)), training=True).numpy().tobytes())
    assert len(drawn) == 8
