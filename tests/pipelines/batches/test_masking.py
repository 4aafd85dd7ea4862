"""Masks have the published rates, leave out special tokens, and depend only on the example and its seeds."""

import math

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.features import FEATURES
from bert_keras.pipelines.batches.epochs import make_example_seeds, random_bits_at
from bert_keras.pipelines.batches.masking import (
    ELECTRA_REPLACE_RATES,
    UNITS,
    MaskingTokens,
    get_default_max_predictions,
    mask_tokens,
)
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS

VOCABULARY_SIZE = 89
SPECIAL_IDS = (0, 1, 2, 3, 88)
MASK_ID = 88
ORDINARY_IDS = sorted(set(range(VOCABULARY_SIZE)) - set(SPECIAL_IDS))
UNUSED_ID = 84  # like an "[unused]" token
RANDOM_IDS = sorted(set(ORDINARY_IDS) - {UNUSED_ID})
CONTINUES = np.arange(VOCABULARY_SIZE) >= 70  # a fifth of the ordinary tokens
TOKENS = MaskingTokens(
    MASK_ID, np.isin(np.arange(VOCABULARY_SIZE), SPECIAL_IDS), CONTINUES, np.array(RANDOM_IDS, np.int32)
)


def make_packed(num_examples, length, seed=0):
    """Return packed sequences `[2] tokens [3] tokens [3] padding` with random lengths of at least 3."""
    rng = np.random.default_rng(seed)
    ids = rng.choice(ORDINARY_IDS, (num_examples, length)).astype(np.int32)
    ends = rng.integers(3, length + 1, (num_examples, 1))
    positions = np.arange(length)[None]
    ids[:, 0] = 2
    ids[(positions == ends - 1) | (positions == ends // 2)] = 3
    mask = (positions < ends).astype(np.int32)
    return {"token_ids": tf.constant(ids * mask), "padding_mask": tf.constant(mask), "segment_ids": tf.constant(mask)}


def mask(features, seeds, max_predictions=11, **settings):
    return mask_tokens(features, TOKENS, seeds=seeds, max_predictions=max_predictions, **settings)


def as_arrays(tensors):
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def assert_equal(left, right):
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


class MaskedSequences:
    """Two epochs of masks for 4,001 sequences of up to 200 tokens: 120,000 of 800,000 tokens are masked.

    The arrays over masked positions are `sequence`, `position`, `before` and `after` (ids).
    """

    def __init__(self, **settings):
        features = make_packed(4001, 200)
        self.original = features["token_ids"].numpy()
        self.num_ordinary = (~np.isin(self.original, SPECIAL_IDS)).sum(axis=1)
        self.epochs = []
        for epoch in range(2):
            new, labels = mask(features, make_example_seeds(5, epoch, tf.range(4001)), 40, **settings)
            self.epochs.append((as_arrays(new), as_arrays(labels)))
        parts = []
        for new, labels in self.epochs:
            sequence, column = np.nonzero(labels["mask_weights"])
            position = new["mask_positions"][sequence, column]
            parts.append(
                (sequence, position, labels["mask_ids"][sequence, column], new["token_ids"][sequence, position])
            )
        self.sequence, self.position, self.before, self.after = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )


@pytest.fixture(scope="module")
def by_unit():
    return {unit: MaskedSequences(unit=unit) for unit in UNITS}


@pytest.fixture(params=UNITS)
def unit(request):
    return request.param


@pytest.fixture
def many(by_unit, unit):
    return by_unit[unit]


def test_names_types_and_shapes_match_the_table_of_features(unit):
    features, labels = mask(make_packed(7, 19), make_example_seeds(1, 0, tf.range(7)), unit=unit)
    assert set(features) == {"token_ids", "padding_mask", "segment_ids", "mask_positions"}
    assert set(labels) == {"mask_ids", "mask_weights"}
    sizes = {"B": 7, "S": 19, "M": 11}
    for name, tensor in {**features, **labels}.items():
        assert tensor.dtype.name == FEATURES[name].dtype, name
        assert tuple(tensor.shape) == tuple(sizes[letter] for letter in FEATURES[name].shape), name


def test_mask_ids_are_the_original_ids_of_ordinary_tokens_in_order(many):
    for new, labels in many.epochs:
        used = labels["mask_weights"] == 1.0
        positions = new["mask_positions"]
        assert set(np.unique(labels["mask_weights"])) == {0.0, 1.0}
        assert (np.diff(used.astype(int), axis=1) <= 0).all(), "an unused position before a used one"
        assert (np.diff(positions, axis=1)[used[:, 1:]] > 0).all(), "positions are not strictly ascending"
        assert not positions[~used].any()
        assert not labels["mask_ids"][~used].any()
    assert (many.original[many.sequence, many.position] == many.before).all()
    assert not np.isin(many.before, SPECIAL_IDS).any()


def test_only_masked_positions_change_to_mask_or_a_random_token(many):
    for new, labels in many.epochs:
        chosen = np.zeros_like(many.original, bool)
        sequences, columns = np.nonzero(labels["mask_weights"])
        chosen[sequences, new["mask_positions"][sequences, columns]] = True
        assert (new["token_ids"][~chosen] == many.original[~chosen]).all()
    assert set(np.unique(many.after[many.after != many.before])) == {MASK_ID, *RANDOM_IDS}


def test_15_percent_of_the_tokens_are_masked(many):
    """The rate is within three standard errors: a count is rounded, so it deviates by at most 1/2.

    The standard error of the total is 45 of 120,000 (0.04 %). Words and spans also use the full budget, because one
    token in five continues a word here; only a sequence with few long words may have none that fits.
    """
    budget = np.where(many.num_ordinary > 0, np.maximum(0.15 * many.num_ordinary, 1), 0).sum()
    standard_error = math.sqrt(2 * len(many.num_ordinary)) / 2
    assert len(many.sequence) > 100_000
    assert abs(len(many.sequence) - 2 * budget) < 3 * standard_error


@pytest.mark.parametrize("rates", [(0.8, 0.1), ELECTRA_REPLACE_RATES, (0.0, 1.0)])
def test_masked_tokens_become_mask_or_random_or_stay(rates, by_unit):
    """80/10/10 within three standard errors: 0.12 % for 0.8 and 0.09 % for 0.1, of 120,000."""
    many = by_unit["token"] if rates == (0.8, 0.1) else MaskedSequences(replace_rates=rates)
    assert_rate(np.mean(many.after == MASK_ID), rates[0], len(many.sequence))
    same = rates[1] / len(RANDOM_IDS)  # a random token can be the original one
    assert_rate(
        np.mean(many.after == many.before),
        1 - sum(rates) + same * np.mean(many.before != UNUSED_ID),
        len(many.sequence),
    )


def assert_rate(measured, rate, count):
    assert abs(measured - rate) <= 3 * math.sqrt(rate * (1 - rate) / count) + 1e-12


def test_all_positions_and_all_random_tokens_are_equally_likely():
    """Chi-square over positions and over random tokens is at most five standard deviations above its mean."""
    num_examples, length = 4001, 31
    features = {
        "token_ids": tf.fill([num_examples, length], 50),
        "padding_mask": tf.ones([num_examples, length], tf.int32),
    }
    new, labels = mask(features, make_example_seeds(0, 0, tf.range(num_examples)), max_predictions=15, mask_rate=0.45)
    used = labels["mask_weights"].numpy() == 1.0
    ids = np.take_along_axis(new["token_ids"].numpy(), new["mask_positions"].numpy(), 1)[used]
    positions = np.bincount(new["mask_positions"].numpy()[used], minlength=length)
    tokens = np.bincount(ids, minlength=VOCABULARY_SIZE)[[index for index in RANDOM_IDS if index != 50]]
    for counts in (positions, tokens):
        chi_square = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
        assert chi_square < len(counts) + 5 * math.sqrt(2 * len(counts))


def test_masks_do_not_depend_on_batch_or_padding(unit):
    features, seeds = make_packed(13, 23), make_example_seeds(3, 1, tf.range(13))
    expected = [as_arrays(part) for part in mask(features, seeds, unit=unit)]
    for sequence in (0, 7, 12):
        alone = mask(
            {name: tensor[sequence : sequence + 1] for name, tensor in features.items()},
            seeds[sequence : sequence + 1],
            unit=unit,
        )
        for one, all_sequences in zip(alone, expected, strict=True):
            assert_equal(
                as_arrays(one), {name: array[sequence : sequence + 1] for name, array in all_sequences.items()}
            )
    padded = {name: tf.pad(tensor, [[0, 0], [0, 6]]) for name, tensor in features.items()}
    new, labels = (as_arrays(part) for part in mask(padded, seeds, unit=unit))
    assert_equal(labels, expected[1])
    assert_equal(
        {"mask_positions": new["mask_positions"], "token_ids": new["token_ids"][:, :23]},
        {name: expected[0][name] for name in ("mask_positions", "token_ids")},
    )


@pytest.mark.slow  # test_pretraining_batches.py compares batches of tf.data with the eager function
def test_eager_tf_function_and_tf_data_agree(unit):
    features, seeds = make_packed(9, 17), make_example_seeds(11, 0, tf.range(9))

    def function(features, seeds):
        return mask(features, seeds, unit=unit)

    eager = function(features, seeds)
    traced = tf.function(function)(features, seeds)
    mapped = next(iter(tf.data.Dataset.from_tensors((features, seeds)).map(function)))
    for expected, one, other in zip(eager, traced, mapped, strict=True):
        assert_equal(as_arrays(expected), as_arrays(one))
        assert_equal(as_arrays(expected), as_arrays(other))


@pytest.mark.parametrize("change", [(4, 0, 0), (3, 1, 0), (3, 0, 1)], ids=["seed", "epoch", "index"])
def test_seed_epoch_and_index_change_the_masks(change, unit):
    features = make_packed(1, 60, seed=2)
    seed, epoch, index = change
    first = mask(features, make_example_seeds(3, 0, tf.constant([0])), unit=unit)[0]["mask_positions"].numpy()
    second = mask(features, make_example_seeds(seed, epoch, tf.constant([index])), unit=unit)[0][
        "mask_positions"
    ].numpy()
    assert (first != second).any()


def test_short_examples_have_one_masked_position_and_empty_examples_none(unit):
    features = {
        "token_ids": tf.constant([[2, 40, 3, 0, 0], [2, 3, 3, 0, 0], [2, 40, 41, 42, 3]]),
        "padding_mask": tf.constant([[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
    }
    for epoch in range(7):
        new, labels = mask(features, make_example_seeds(0, epoch, tf.range(3)), 9, unit=unit)
        assert labels["mask_weights"].numpy().sum(axis=1).tolist() == [1, 0, 1]  # 9 masked positions do not fit in 5
        assert new["token_ids"].numpy()[1].tolist() == [2, 3, 3, 0, 0]


def test_padding_is_never_masked_for_any_id(unit):
    features = {"token_ids": tf.fill([9, 21], 50), "padding_mask": tf.sequence_mask(range(1, 10), 21, tf.int32)}
    new, _ = mask(features, make_example_seeds(0, 0, tf.range(9)), mask_rate=0.9, unit=unit)
    padding = features["padding_mask"] == 0
    assert set(new["token_ids"].numpy()[padding]) == {50}
    assert (new["mask_positions"].numpy() < np.arange(1, 10)[:, None]).all()


def test_at_most_max_predictions_are_masked(unit):
    _, labels = mask(make_packed(31, 100), make_example_seeds(0, 0, tf.range(31)), 2, mask_rate=0.9, unit=unit)
    assert labels["mask_weights"].numpy().sum(axis=1).max() == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_predictions": 0}, "max_predictions is 0; expected an integer >= 1"),
        ({"mask_rate": 0.0}, "mask_rate is 0.0; expected a share above 0 and below 1"),
        ({"mask_rate": 1.0}, "mask_rate is 1.0"),
        ({"unit": "word"}, "the unit of masking is 'word'; expected one of token, whole_word, span"),
        ({"replace_rates": (0.8, 0.3)}, r"replace_rates is \(0\.8, 0\.3\); expected two shares"),
        ({"replace_rates": (-0.1, 0.3)}, r"replace_rates is \(-0\.1, 0\.3\)"),
        ({"replace_rates": (0.8,)}, r"replace_rates is \(0\.8,\)"),
    ],
)
def test_invalid_settings_are_rejected(changes, message):
    with pytest.raises(InputError, match=message):
        mask(make_packed(3, 9), make_example_seeds(0, 0, tf.range(3)), **changes)


def test_vocabulary_without_words_is_rejected():
    with pytest.raises(InputError, match="every token of the vocabulary is special or unused"):
        MaskingTokens.from_tokenizer(BertTokenizer([*SPECIAL_TOKENS, "[unused0]", "[unused11]"]))


def test_special_and_unused_tokens_never_replace_a_token():
    vocabulary = [
        "[PAD]",
        "[unused0]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "[e1]",
        "un",
        "##s",
        "[unused]",
        "##[unused1]",
    ]
    tokens = MaskingTokens.from_tokenizer(BertTokenizer(vocabulary, additional_special_tokens=["[e1]"]))
    assert tokens.mask_id == 5
    assert np.flatnonzero(tokens.is_special).tolist() == [0, 2, 3, 4, 5, 6]
    assert np.flatnonzero(tokens.continues_word).tolist() == [8, 10]
    assert tokens.random_ids.tolist() == [7, 8, 9, 10]


@pytest.mark.parametrize(
    ("length", "rate", "max_predictions"),
    [(128, 0.15, 20), (512, 0.15, 77), (100, 0.07, 7), (40, 0.4, 16), (3, 0.01, 1)],
)
def test_default_max_predictions_equals_google(length, rate, max_predictions):
    assert get_default_max_predictions(length, rate) == max_predictions
    new, _ = mask(make_packed(2, length), make_example_seeds(0, 0, [0, 1]), None, mask_rate=rate)
    assert new["mask_positions"].shape == (2, max_predictions)


@pytest.mark.parametrize("seed", [-1, 2**31, 1.0, True])
def test_invalid_seeds_are_rejected(seed):
    with pytest.raises(InputError, match="expected an integer from 0 to 2,147,483,647"):
        make_example_seeds(seed, 0, [0])


def test_random_bits_equal_splitmix64():
    """Compare with the hash function in Python integers."""
    full = 2**64 - 1

    def mix(state):
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & full
        state = (state ^ state >> 27) * 0x94D049BB133111EB & full
        return state ^ state >> 31

    seeds = [[5 * 2**32 + 1, 7], [0, 0], [2**62 + 3, 2**40]]
    for sequence, (high, low) in zip(
        random_bits_at(tf.constant(seeds, tf.int64), 3, tf.range(4)[tf.newaxis]).numpy().tolist(), seeds, strict=True
    ):
        state = mix(mix(mix(high) ^ low) ^ 3)
        assert sequence == [mix(state + 0x9E3779B97F4A7C15 * count & full) >> 1 for count in range(1, 5)]


def test_random_bits_depend_on_their_position_alone():
    seeds = tf.constant([[3, 7], [4, 1]], tf.int64)
    sequence = random_bits_at(seeds, 2, tf.range(9)[tf.newaxis]).numpy()
    positions = np.array([[8, 0, 3], [1, 1, 7]])
    assert (
        random_bits_at(seeds, 2, tf.constant(positions)).numpy() == np.take_along_axis(sequence, positions, 1)
    ).all()
