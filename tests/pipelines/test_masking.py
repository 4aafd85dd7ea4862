"""Masks follow the paper's rates, spare special tokens, and depend on an example's own seed only."""

import math

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.features import FEATURES
from bert_keras.pipelines.masking import mask_tokens
from bert_keras.pipelines.seeds import example_seeds, random_bits

VOCABULARY_SIZE = 89
SPECIAL_IDS = (0, 1, 2, 3, 88)
MASK_ID = 88
ORDINARY_IDS = sorted(set(range(VOCABULARY_SIZE)) - set(SPECIAL_IDS))


def packed(num_examples, length, seed=0):
    """Rows [2] pieces [3] pieces [3] padding, of all different lengths from 3 on."""
    rng = np.random.default_rng(seed)
    ids = rng.choice(ORDINARY_IDS, (num_examples, length)).astype(np.int32)
    ends = rng.integers(3, length + 1, (num_examples, 1))
    places = np.arange(length)[None]
    ids[:, 0] = 2
    ids[(places == ends - 1) | (places == ends // 2)] = 3
    mask = (places < ends).astype(np.int32)
    return {"token_ids": tf.constant(ids * mask), "padding_mask": tf.constant(mask), "segment_ids": tf.constant(mask)}


def masked(features, seeds, max_predictions=11, mask_rate=0.15, special_ids=SPECIAL_IDS):
    return mask_tokens(
        features,
        seeds=seeds,
        max_predictions=max_predictions,
        mask_rate=mask_rate,
        mask_id=MASK_ID,
        vocabulary_size=VOCABULARY_SIZE,
        special_ids=special_ids,
    )


def as_arrays(tensors):
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


@pytest.fixture(scope="module")
def many():
    """1,500 examples of 150 pieces masked with room to spare: about 16,000 chosen of 110,000, twice."""
    features = packed(1501, 150)
    outs = [masked(features, example_seeds(5, epoch, tf.range(1501)), max_predictions=40) for epoch in range(2)]
    return features, [(as_arrays(new), as_arrays(labels)) for new, labels in outs]


def test_names_types_and_shapes_are_those_of_the_table_of_features():
    features, labels = masked(packed(7, 19), example_seeds(1, 0, tf.range(7)))
    assert set(features) == {"token_ids", "padding_mask", "segment_ids", "mask_positions"}
    assert set(labels) == {"mask_ids", "mask_weights"}
    sizes = {"B": 7, "S": 19, "M": 11}
    for name, tensor in {**features, **labels}.items():
        assert tensor.dtype.name == FEATURES[name].dtype, name
        assert tuple(tensor.shape) == tuple(sizes[letter] for letter in FEATURES[name].shape), name


def test_slots_hold_the_original_ids_of_ordinary_tokens_in_ascending_order(many):
    original = many[0]["token_ids"].numpy()
    for new, labels in many[1]:
        used = labels["mask_weights"] == 1.0
        positions = new["mask_positions"]
        assert set(np.unique(labels["mask_weights"])) == {0.0, 1.0}
        assert (np.diff(used.astype(int), axis=1) <= 0).all(), "an unused slot before a used one"
        assert (np.diff(positions, axis=1)[used[:, 1:]] > 0).all(), "positions not ascending, or one twice"
        assert not positions[~used].any()
        assert not labels["mask_ids"][~used].any()
        assert (np.take_along_axis(original, positions, 1)[used] == labels["mask_ids"][used]).all()
        assert not np.isin(labels["mask_ids"][used], SPECIAL_IDS).any()


def test_only_the_slots_change_and_only_to_the_mask_or_ordinary_ids(many):
    original = many[0]["token_ids"].numpy()
    for new, labels in many[1]:
        chosen = np.zeros_like(original, bool)
        rows, slots = np.nonzero(labels["mask_weights"])
        chosen[rows, new["mask_positions"][rows, slots]] = True
        assert (new["token_ids"][~chosen] == original[~chosen]).all()
        put_in = new["token_ids"][chosen & (new["token_ids"] != original)]
        assert set(np.unique(put_in)) == {MASK_ID, *ORDINARY_IDS}


def test_rates_are_15_percent_and_80_10_10_within_three_standard_errors(many):
    original = many[0]["token_ids"].numpy()
    num_ordinary = (~np.isin(original, SPECIAL_IDS)).sum(axis=1)
    num_chosen = num_masked = num_kept = 0
    for new, labels in many[1]:
        used = labels["mask_weights"] == 1.0
        ids = np.take_along_axis(new["token_ids"], new["mask_positions"], 1)[used]
        num_chosen += used.sum()
        num_masked += (ids == MASK_ID).sum()
        num_kept += (ids == labels["mask_ids"][used]).sum()
    assert num_chosen > 20_000
    expected = 2 * np.where(num_ordinary > 0, np.maximum(0.15 * num_ordinary, 1), 0).sum()
    rounding = math.sqrt(2 * len(num_ordinary)) / 2  # each count is rounded up or down: deviation at most 1/2
    assert abs(num_chosen - expected) < 3 * rounding

    def assert_rate(count, rate):
        assert abs(count / num_chosen - rate) < 3 * math.sqrt(rate * (1 - rate) / num_chosen)

    assert_rate(num_masked, 0.8)
    assert_rate(num_kept, 0.1 + 0.1 / len(ORDINARY_IDS))  # a random piece is now and then the same one
    assert_rate(num_chosen - num_masked - num_kept, 0.1 - 0.1 / len(ORDINARY_IDS))


def test_every_place_and_every_random_piece_is_equally_likely():
    """Chi-square over places and over pieces put in, each within five standard deviations of its mean."""
    num_examples, length = 4001, 31
    features = {
        "token_ids": tf.fill([num_examples, length], 50),
        "padding_mask": tf.ones([num_examples, length], tf.int32),
    }
    new, labels = masked(features, example_seeds(0, 0, tf.range(num_examples)), max_predictions=15, mask_rate=0.45)
    used = labels["mask_weights"].numpy() == 1.0
    ids = np.take_along_axis(new["token_ids"].numpy(), new["mask_positions"].numpy(), 1)[used]
    places = np.bincount(new["mask_positions"].numpy()[used], minlength=length)
    pieces = np.bincount(ids, minlength=VOCABULARY_SIZE)[[index for index in ORDINARY_IDS if index != 50]]
    for counts in (places, pieces):
        chi_square = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
        assert chi_square < len(counts) + 5 * math.sqrt(2 * len(counts))


def test_an_examples_masks_do_not_depend_on_its_batch_or_padding():
    features, seeds = packed(13, 23), example_seeds(3, 1, tf.range(13))
    whole = [as_arrays(part) for part in masked(features, seeds)]
    for row in (0, 7, 12):
        alone = masked({name: tensor[row : row + 1] for name, tensor in features.items()}, seeds[row : row + 1])
        for one, all_rows in zip(alone, whole, strict=True):
            assert_same(as_arrays(one), {name: array[row : row + 1] for name, array in all_rows.items()})
    padded = {name: tf.pad(tensor, [[0, 0], [0, 6]]) for name, tensor in features.items()}
    new, labels = (as_arrays(part) for part in masked(padded, seeds))
    assert_same(labels, whole[1])
    assert_same(
        {"mask_positions": new["mask_positions"], "token_ids": new["token_ids"][:, :23]},
        {name: whole[0][name] for name in ("mask_positions", "token_ids")},
    )


def test_eager_tf_function_and_tf_data_agree():
    features, seeds = packed(9, 17), example_seeds(11, 0, tf.range(9))
    eager = masked(features, seeds)
    traced = tf.function(masked)(features, seeds)
    mapped = next(iter(tf.data.Dataset.from_tensors((features, seeds)).map(masked)))
    for expected, one, other in zip(eager, traced, mapped, strict=True):
        assert_same(as_arrays(expected), as_arrays(one))
        assert_same(as_arrays(expected), as_arrays(other))


@pytest.mark.parametrize("change", [(4, 0, 0), (3, 1, 0), (3, 0, 1)], ids=["seed", "epoch", "index"])
def test_another_seed_epoch_or_index_gives_other_masks(change):
    features = packed(1, 60, seed=2)
    seed, epoch, index = change
    first = masked(features, example_seeds(3, 0, tf.constant([0])))[0]["mask_positions"].numpy()
    second = masked(features, example_seeds(seed, epoch, tf.constant([index])))[0]["mask_positions"].numpy()
    assert (first != second).any()


def test_short_examples_get_one_slot_and_empty_ones_none():
    features = {
        "token_ids": tf.constant([[2, 40, 3, 0, 0], [2, 3, 3, 0, 0], [2, 40, 41, 42, 3]]),
        "padding_mask": tf.constant([[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
    }
    for epoch in range(7):
        new, labels = masked(features, example_seeds(0, epoch, tf.range(3)), max_predictions=9)
        assert labels["mask_weights"].numpy().sum(axis=1).tolist() == [1, 0, 1]  # 9 slots do not fit in 5 places
        assert new["token_ids"].numpy()[1].tolist() == [2, 3, 3, 0, 0]


def test_padding_is_never_chosen_whatever_ids_it_holds():
    features = {"token_ids": tf.fill([9, 21], 50), "padding_mask": tf.sequence_mask(range(1, 10), 21, tf.int32)}
    new, _ = masked(features, example_seeds(0, 0, tf.range(9)), mask_rate=0.9)
    padding = features["padding_mask"] == 0
    assert set(new["token_ids"].numpy()[padding]) == {50}
    assert (new["mask_positions"].numpy() < np.arange(1, 10)[:, None]).all()


def test_never_more_slots_than_asked_for():
    _, labels = masked(packed(31, 100), example_seeds(0, 0, tf.range(31)), max_predictions=2, mask_rate=0.9)
    assert labels["mask_weights"].numpy().sum(axis=1).max() == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_predictions": 0}, "max_predictions is 0; expected 1 or more"),
        ({"mask_rate": 0.0}, "mask_rate is 0.0; expected a share above 0 and below 1"),
        ({"mask_rate": 1.0}, "mask_rate is 1.0"),
        ({"special_ids": range(VOCABULARY_SIZE)}, "every id of the vocabulary is special"),
    ],
)
def test_settings_out_of_range_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        masked(packed(3, 9), example_seeds(0, 0, tf.range(3)), **changes)


@pytest.mark.parametrize("seed", [-1, 2**31, 1.0, True])
def test_seeds_out_of_range_are_refused(seed):
    with pytest.raises(InputError, match="expected a whole number from 0 to 2147483647"):
        example_seeds(seed, 0, [0])


def test_random_bits_are_those_of_splitmix64():
    """The hash, spelt out in Python integers."""
    full = 2**64 - 1

    def mixed(state):
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & full
        state = (state ^ state >> 27) * 0x94D049BB133111EB & full
        return state ^ state >> 31

    seeds = [[5 * 2**32 + 1, 7], [0, 0], [2**62 + 3, 2**40]]
    for row, (high, low) in zip(random_bits(tf.constant(seeds, tf.int64), 3, 4).numpy().tolist(), seeds, strict=True):
        state = mixed(mixed(mixed(high) ^ low) ^ 3)
        assert row == [mixed(state + 0x9E3779B97F4A7C15 * count & full) >> 1 for count in range(1, 5)]
