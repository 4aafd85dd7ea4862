"""Philox bits are unbiased and depend only on seed and index, so that any part of a draw can be computed alone."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.architectures.tensorflow_kernels import philox_bits

SEED = tf.constant([11, 4], tf.uint32)
NUM_VALUES = 1 << 17


@pytest.mark.parametrize("first_index", [0, 1, 2, 3, 4, 5, 1003])
def test_partial_draw_equals_that_part_of_the_full_draw(first_index):
    whole = philox_bits(SEED, (1100,)).numpy()
    part = philox_bits(SEED, (97,), tf.constant(first_index, tf.uint32)).numpy()
    np.testing.assert_array_equal(part, whole[first_index : first_index + 97])


def test_shape_does_not_change_the_values():
    shape = tf.unstack(tf.constant([5, 7, 3]))  # known only when the step runs
    values = tf.function(lambda: philox_bits(SEED, [shape[0], 7, shape[2]]))()
    np.testing.assert_array_equal(values, philox_bits(SEED, (105,)).numpy().reshape(5, 7, 3))


def test_every_random_bit_is_set_half_of_the_time():
    bits = philox_bits(SEED, (NUM_VALUES,)).numpy()
    for bit in range(32):
        assert abs(np.mean(bits >> bit & 1) - 0.5) < 4 * 0.5 / np.sqrt(NUM_VALUES), bit
    assert len(np.unique(bits)) > NUM_VALUES - 8  # 2**17 draws out of 2**32 values contain 2 duplicates on average


def test_adjacent_seeds_do_not_produce_shifted_copies():
    draws = [philox_bits(tf.constant(seed, tf.uint32), (1 << 14,)).numpy() for seed in ([0, 0], [0, 1], [1, 0], [1, 1])]
    assert len(np.unique(np.concatenate(draws))) > (1 << 16) - 8
