"""Batches of rows: every row once an epoch, the same for the same seed, from any batch on, with little padding."""

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.features import FEATURES
from bert_keras.pipelines.batches.batch_share import BatchShare
from bert_keras.pipelines.batches.encoding import EncodedSequences, encode
from bert_keras.pipelines.batches.task_batches import IGNORED_LABEL, make_task_batches
from tests.marks import slow_except

PAD = 3
NUM_ROWS = 53


def made_rows(lengths):
    """Rows whose tokens tell where they are from: 1000 * row + 10 + place; the second text begins anywhere."""
    lengths = np.asarray(lengths)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(splits[-1]) - splits[row_of]
    second_starts = np.random.default_rng(len(lengths)).integers(1, lengths + 1)
    return EncodedSequences(
        token_ids=(1000 * row_of + 10 + places).astype(np.int32),
        row_splits=splits,
        second_starts=second_starts.astype(np.int32),
        examples=np.arange(len(lengths)),
        text_positions=places.astype(np.int32),
        pad_id=PAD,
    )


def usual_lengths(num_rows):
    """Lengths like those of BANKING77 in tokens: mean 16, median 13, a few above 50."""
    drawn = 5 + np.random.default_rng(8).lognormal(2.1, 0.8, num_rows)
    return np.minimum(drawn.astype(int), 98)


@pytest.fixture(scope="module")
def rows():
    return made_rows(usual_lengths(NUM_ROWS))


def read(dataset):
    """The elements of a dataset in plain lists, which can be compared."""
    return [tf.nest.map_structure(lambda values: values.tolist(), element) for element in dataset.as_numpy_iterator()]


def features_of(element):
    return element[0] if isinstance(element, tuple) else element


def numbers_of(element):
    """Which rows are in a batch."""
    return [(ids[0] - 10) // 1000 for ids in features_of(element)["token_ids"]]


def padding_share(rows, batch_size, **settings):
    """The share of a dataset's positions that are padding."""
    masks = [
        features["padding_mask"]
        for features in make_task_batches(rows, batch_size=batch_size, **settings).as_numpy_iterator()
    ]
    return 1 - sum(mask.sum() for mask in masks) / sum(mask.size for mask in masks)


@pytest.mark.parametrize("settings", [{}, {"shuffle": True}, {"shuffle": True, "group_size": 1, "seed": 5}])
def test_every_row_comes_once_an_epoch_whole_and_padded(rows, settings):
    elements = read(make_task_batches(rows, batch_size=7, **settings))
    assert sorted(itertools.chain(*map(numbers_of, elements))) == list(range(NUM_ROWS))
    for batch in elements:
        numbers = numbers_of(batch)
        width = rows.lengths[numbers].max()
        for number, ids, segments, mask in zip(numbers, *batch.values(), strict=True):
            begin, end = rows.row_splits[number : number + 2]
            length, second = end - begin, rows.second_starts[number]
            assert ids == [*rows.token_ids[begin:end], *[PAD] * (width - length)]
            assert segments == [*[0] * second, *[1] * (length - second), *[0] * (width - length)]
            assert mask == [*[1] * length, *[0] * (width - length)]


def test_without_shuffling_rows_keep_their_order(rows):
    assert list(itertools.chain(*map(numbers_of, read(make_task_batches(rows, batch_size=7))))) == list(range(NUM_ROWS))


def test_texts_become_batches_of_what_they_were_encoded_to(tiny_tokenizer):
    texts = ["a", "the unaffable playing a", "b c", "", "d d d d d d d d d d"]
    rows = encode(tiny_tokenizer, texts, max_sequence_length=7)
    batches = read(make_task_batches(rows, np.array([3, 0, 1, 2, 1], np.int32), batch_size=2))
    assert [features["token_ids"] for features, _ in batches] == [
        [[2, 11, 3, 0, 0, 0, 0], [2, 10, 5, 6, 7, 8, 3]],
        [[2, 12, 13, 3], [2, 3, 0, 0]],
        [[2, 14, 14, 14, 14, 14, 3]],
    ]
    assert batches[1][0]["padding_mask"] == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert [labels for _, labels in batches] == [[3, 0], [1, 2], [1]]


SETTINGS = {
    "plain": {},
    "shuffled": {"shuffle": True},
    "filled": {"shuffle": True, "fill_batches": True},
    "groups": {"shuffle": True, "group_size": 4, "fill_batches": True},
}


@pytest.mark.parametrize("kind", slow_except(SETTINGS, quick=["shuffled", "groups"]))
def test_a_run_can_begin_with_any_batch(kind):
    rows = made_rows(usual_lengths(88))
    settings = {"labels": np.arange(88), "batch_size": 12, "epochs": 3, "seed": 6, **SETTINGS[kind]}
    whole = read(make_task_batches(rows, **settings))
    assert len(whole) == 24
    for first_batch in (1, 8, 13, 18, 23):
        assert read(make_task_batches(rows, **settings, first_batch=first_batch)) == whole[first_batch:]


def test_without_epochs_rows_repeat_without_end(rows):
    settings = {"batch_size": 9, "shuffle": True}
    endless = make_task_batches(rows, **settings, epochs=None, first_batch=5)
    assert read(endless.take(11)) == read(make_task_batches(rows, **settings, epochs=3, first_batch=5))[:11]


def test_the_order_is_new_for_every_seed_and_epoch_and_depends_on_nothing_else(rows):
    """Not on a global seed, on what was read before, or on the number of threads."""

    def order(dataset):
        return list(map(numbers_of, read(dataset)))

    settings = {"batch_size": 6, "epochs": 3, "shuffle": True}
    dataset = make_task_batches(rows, **settings, seed=1)
    expected = order(dataset)
    epochs = [expected[start : start + 9] for start in (0, 9, 18)]
    other_seeds = [order(make_task_batches(rows, **{**settings, "epochs": 1}, seed=seed)) for seed in (0, 2)]
    for one, other in itertools.combinations([*epochs, *other_seeds], 2):
        assert set(map(frozenset, one)) != set(map(frozenset, other))  # other batches, not only another order of them
    assert order(dataset) == expected
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    assert order(dataset.with_options(options)) == expected
    tf.random.set_seed(99)
    try:
        assert order(make_task_batches(rows, **settings, seed=1)) == expected
    finally:
        tf.random.set_seed(None)


def test_rows_of_like_length_share_a_batch():
    """Measured: padding is 6.7 % of all positions where batches are sorted by length, and 65 % where they are not."""
    rows = made_rows(usual_lengths(6000))
    assert padding_share(rows, 16, shuffle=True, seed=2) < 0.1
    assert padding_share(rows, 16) > 0.6
    assert padding_share(rows, 16, shuffle=True, seed=2, sort_by_length=False) > 0.6


def test_rows_that_are_not_sorted_come_in_a_drawn_order_each_once_an_epoch():
    """Of 40 rows a place is that of the row by itself in one epoch of 40. Measured: 6 of 200 places."""
    settings = {"batch_size": 8, "shuffle": True, "sort_by_length": False, "epochs": 5}
    numbers = np.array(list(map(numbers_of, read(make_task_batches(made_rows(range(3, 43)), **settings))))).reshape(
        5, 40
    )
    np.testing.assert_array_equal(np.sort(numbers, axis=1), np.tile(np.arange(40), (5, 1)))
    assert (numbers == np.arange(40)).sum() < 20
    assert len(set(map(tuple, numbers))) == 5


def test_batches_of_all_lengths_come_mixed():
    """Lengths of neighbouring batches have nothing to do with each other, and neither has a batch's place.

    Measured: correlations of 0.04 and -0.08; 0.05 is the standard deviation of a random order of 375 batches.
    """
    rows = made_rows(usual_lengths(6000))
    batches = make_task_batches(rows, batch_size=16, shuffle=True, seed=2).as_numpy_iterator()
    lengths = np.array([features["token_ids"].shape[1] for features in batches])
    assert len(lengths) == 375
    assert abs(np.corrcoef(lengths[1:], lengths[:-1])[0, 1]) < 0.2
    assert abs(np.corrcoef(lengths, np.arange(375))[0, 1]) < 0.2


@pytest.mark.parametrize(("num_batches", "most"), [(8, 0.3), (60, 0.18)])
def test_rows_meet_other_rows_in_the_next_epoch(num_batches, most):
    """Also where there are few batches: they are sorted by length in four stretches at least.

    The share of pairs of one batch that are in one batch of the next epoch too. Measured: 0.19 of 8 batches, 0.13 of
    60; where all batches are sorted as one stretch, 0.81 and 0.23.
    """
    batch_size = 16
    rows = made_rows(usual_lengths(batch_size * num_batches))
    settings = {"batch_size": batch_size, "shuffle": True, "epochs": 2}
    batches = [sorted(numbers_of(batch)) for batch in read(make_task_batches(rows, **settings))]
    first, second = (
        {pair for batch in batches[begin : begin + num_batches] for pair in itertools.combinations(batch, 2)}
        for begin in (0, num_batches)
    )
    assert len(first & second) / len(first) < most


def test_each_row_is_as_likely_in_each_batch():
    """Of 400 epochs each row is in each of 4 batches 100 times. Measured: 81 to 117; the standard deviation is 8.7."""
    dataset = make_task_batches(made_rows([5] * 12), batch_size=3, shuffle=True, epochs=400)
    counts = np.zeros((4, 12), int)
    for place, batch in enumerate(read(dataset)):
        counts[place % 4, numbers_of(batch)] += 1
    assert counts.sum() == 4800
    assert abs(counts - 100).max() < 35


@pytest.mark.parametrize("shuffle", [False, True])
def test_filled_batches_are_full_and_each_row_counts_once(rows, shuffle):
    settings = {"batch_size": 8, "shuffle": shuffle, "epochs": 2, "fill_batches": True}
    elements = read(make_task_batches(rows, np.arange(NUM_ROWS), **settings))
    assert len(elements) == 14
    for epoch in (elements[:7], elements[7:]):
        counted = []
        for features, labels, weights in epoch:
            assert np.shape(features["token_ids"])[0] == np.shape(labels)[0] == len(weights) == 8
            counted += [number for number, weight in zip(labels, weights, strict=True) if weight]
            assert set(weights) <= {0.0, 1.0}
            assert numbers_of((features,)) == labels
        assert sorted(counted) == list(range(NUM_ROWS))
        (unfilled,) = [weights for _, _, weights in epoch if 0.0 in weights]
        assert unfilled == [1.0] * 5 + [0.0] * 3


def test_filled_batches_are_those_that_are_not_filled_with_rows_behind(rows):
    settings = {"batch_size": 8, "shuffle": True, "seed": 4}
    filled = read(make_task_batches(rows, np.arange(NUM_ROWS), **settings, fill_batches=True))
    plain = read(make_task_batches(rows, np.arange(NUM_ROWS), **settings))
    assert [[label for label, weight in zip(*batch[1:], strict=True) if weight] for batch in filled] == [
        labels for _, labels in plain
    ]
    assert sorted(len(labels) for _, labels in plain) == [5, *[8] * 6]


def test_rows_that_fill_a_batch_make_it_no_longer():
    rows = made_rows([40, *[5] * 12])
    batches = read(make_task_batches(rows, batch_size=4, fill_batches=True))
    assert [np.shape(batch["token_ids"]) for batch in batches] == [(4, 40), (4, 5), (4, 5), (4, 5)]


@pytest.mark.parametrize("fill_batches", [False, True])
def test_weights_stay_with_their_rows(rows, fill_batches):
    weights = 0.5 + np.random.default_rng(1).random(NUM_ROWS).astype(np.float32)
    settings = {"batch_size": 8, "shuffle": True, "fill_batches": fill_batches}
    elements = read(make_task_batches(rows, np.arange(NUM_ROWS), weights=weights, **settings))
    given = [pair for _, *labels_and_weights in elements for pair in zip(*labels_and_weights, strict=True) if pair[1]]
    assert sorted(given) == list(enumerate(weights.tolist()))
    assert sum(weight == 0 for _, _, of_batch in elements for weight in of_batch) == (3 if fill_batches else 0)


def test_labels_of_tokens_stay_with_their_tokens(rows):
    labels = np.where(rows.text_positions % 3 == 0, rows.token_ids, IGNORED_LABEL)
    elements = read(make_task_batches(rows, token_labels=labels, batch_size=7, shuffle=True))
    assert len(elements) == 8
    for features, of_batch in elements:
        ids, mask = (np.array(features[name]) for name in ("token_ids", "padding_mask"))
        counts = (mask == 1) & (np.arange(ids.shape[1]) % 3 == 0)
        assert np.array_equal(of_batch, np.where(counts, ids, -100))
    filled = read(make_task_batches(rows, token_labels=labels, batch_size=7, fill_batches=True))
    assert [len(weights) for _, _, weights in filled] == [7] * 8
    assert np.shape(filled[-1][1]) == np.shape(filled[-1][0]["token_ids"])


def test_several_labels_of_any_shape_stay_with_their_rows(rows):
    labels = {"a": np.arange(NUM_ROWS), "b": np.random.default_rng(2).random((NUM_ROWS, 3)).astype(np.float32)}
    for features, of_batch in read(make_task_batches(rows, labels, batch_size=7, shuffle=True)):
        numbers = numbers_of((features,))
        assert of_batch == {"a": numbers, "b": labels["b"][numbers].tolist()}
    (_, alone), *_ = read(make_task_batches(rows, labels["b"], batch_size=7))
    assert alone == labels["b"][:7].tolist()
    assert read(make_task_batches(rows, list(range(NUM_ROWS)), batch_size=53))[0][1] == list(range(NUM_ROWS))


@pytest.mark.parametrize("settings", [{}, {"shuffle": True}, {"shuffle": True, "fill_batches": True, "batch_size": 12}])
def test_groups_stay_together_and_in_order(settings):
    rows = made_rows(usual_lengths(88))
    settings = {"batch_size": 8, "group_size": 4, "epochs": 2, **settings}
    elements = read(make_task_batches(rows, np.arange(88), **settings))
    groups = collections.Counter()
    for _, labels, *weights in elements:
        for begin in range(0, len(labels), 4):
            if not weights or weights[0][begin]:
                assert labels[begin : begin + 4] == list(range(labels[begin], labels[begin] + 4))
                groups[labels[begin]] += 1
            else:
                assert weights[0][begin : begin + 4] == [0.0] * 4
    assert groups == dict.fromkeys(range(0, 88, 4), 2)


def test_groups_are_sorted_by_their_longest_row():
    """The first row of each group is short, so that no other rule would find the long ones.

    Measured: a batch's second rows are 1.5 % shorter than the longest of them, and 33 % if groups are sorted by the
    first row.
    """
    lengths = np.full((640, 2), 5)
    lengths[:, 1] = np.random.default_rng(0).integers(5, 60, 640)
    rows = made_rows(lengths.reshape(-1))
    widths = [
        rows.lengths[numbers_of(batch)].reshape(-1, 2)[:, 1]
        for batch in read(make_task_batches(rows, batch_size=8, group_size=2, shuffle=True))
    ]
    assert 1 - sum(map(np.sum, widths)) / sum(4 * width.max() for width in widths) < 0.05


@pytest.mark.parametrize(
    ("labels", "group_size"),
    slow_except(
        itertools.product(["of rows", "of tokens", "none"], [1, 2]),
        quick=[("of rows", 2), ("of tokens", 1)],
    ),
)
def test_the_shares_of_all_replicas_are_the_whole_batch(labels, group_size):
    rows = made_rows(usual_lengths(90))
    labels = {"of rows": {"labels": np.arange(90)}, "of tokens": {"token_labels": rows.text_positions}, "none": {}}[
        labels
    ]
    settings = {"batch_size": 8, "group_size": group_size, "shuffle": True, "epochs": 2, "fill_batches": True, **labels}
    whole = list(make_task_batches(rows, **settings).as_numpy_iterator())
    shares = [
        list(make_task_batches(rows, **settings, share=BatchShare(2, worker, 2)).as_numpy_iterator())
        for worker in range(2)
    ]
    assert [len(share) for share in shares] == [2 * len(whole)] * 2
    for place, batch in enumerate(whole):
        parts = [share[2 * place + replica] for share in shares for replica in range(2)]
        together = tf.nest.map_structure(lambda *values: np.concatenate(values), *parts)
        tf.nest.map_structure(np.testing.assert_array_equal, together, batch)


def test_the_size_of_full_batches_is_known(rows):
    names = ("token_ids", "segment_ids", "padding_mask")

    def shapes(fill_batches, **settings):
        dataset = make_task_batches(rows, np.arange(NUM_ROWS), batch_size=8, fill_batches=fill_batches, **settings)
        features, *others = dataset.element_spec
        assert {name: spec.dtype.name for name, spec in features.items()} == {
            name: FEATURES[name].dtype for name in names
        }
        return [tuple(spec.shape) for spec in (*features.values(), *others)]

    assert shapes(False) == [(None, None)] * 3 + [(None,)]
    for shuffle in (False, True):
        assert shapes(True, shuffle=shuffle) == [(8, None)] * 3 + [(8,)] * 2
    assert shapes(True, share=BatchShare(2, 1, 2)) == [(2, None)] * 3 + [(2,)] * 2
    dataset = make_task_batches(rows, token_labels=rows.text_positions, batch_size=8, fill_batches=True)
    assert [tuple(spec.shape) for spec in dataset.element_spec[1:]] == [(8, None), (8,)]
    assert [spec.dtype.name for spec in dataset.element_spec[1:]] == ["int32", "float32"]


def test_without_labels_batches_are_features_alone(rows):
    for settings in ({}, {"fill_batches": True}):
        assert set(make_task_batches(rows, batch_size=8, **settings).element_spec) == {
            "token_ids",
            "segment_ids",
            "padding_mask",
        }


FAULTS = {
    "no batch": ({"batch_size": 0}, "batch_size is 0; expected an integer >= 1"),
    "no group": ({"group_size": 0}, "group_size is 0; expected an integer >= 1"),
    "no epoch": ({"epochs": 0}, "epochs is 0; expected an integer >= 1"),
    "a negative seed": ({"seed": -1}, "seed is -1; expected an integer from 0"),
    "a place behind the end": ({"first_batch": 14, "epochs": 2}, "first_batch is 14; expected 0 to 13"),
    "a place before the beginning": ({"first_batch": -1, "epochs": None}, "first_batch is -1; expected 0 or more"),
    "rows of no whole groups": (
        {"group_size": 2},
        "53 sequences in batches of 8 cannot be divided into groups of 2: make both numbers multiples",
    ),
    "a share of batches that are not full": (
        {"share": BatchShare(2)},
        "share is a part of each batch, which requires full batches: set fill_batches",
    ),
    "a batch that cannot be shared": (
        {"share": BatchShare(3), "fill_batches": True},
        "batch_size 8 cannot be divided among 3 replicas: make it a multiple of 3",
    ),
    "labels of both kinds": (
        {"labels": np.zeros(NUM_ROWS), "token_labels": np.zeros(3)},
        "labels and token_labels are given together; expected one of them",
    ),
    "fewer labels": ({"labels": np.zeros(5)}, "there are 5 labels for 53 sequences; expected one for each"),
    "fewer of some labels": (
        {"labels": {"a": np.zeros(NUM_ROWS), "b": np.zeros(5)}},
        "there are 5 labels b for 53 sequences; expected one for each",
    ),
    "labels of rows for tokens": ({"token_labels": np.zeros(NUM_ROWS)}, r"there are 53 token_labels for \d+ tokens"),
    "fewer weights": (
        {"labels": np.zeros(NUM_ROWS), "weights": np.zeros(5)},
        "there are 5 weights for 53 sequences; expected one for each",
    ),
    "weights of nothing": ({"weights": np.zeros(NUM_ROWS)}, "weights are given without labels; expected both"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_settings_that_cannot_be_used_are_refused_at_once(rows, fault):
    changes, message = FAULTS[fault]
    with pytest.raises(InputError, match=message):
        make_task_batches(rows, **{"batch_size": 8, **changes})


def test_no_rows_and_batches_that_part_a_group_are_refused():
    with pytest.raises(InputError, match="there are no sequences to make batches of; expected at least one"):
        make_task_batches(made_rows(np.zeros(0, int)), batch_size=8)
    with pytest.raises(InputError, match="12 sequences in batches of 8 cannot be divided into groups of 3"):
        make_task_batches(made_rows([5] * 12), batch_size=8, group_size=3)
    settings = {"batch_size": 8, "group_size": 4, "fill_batches": True}
    with pytest.raises(InputError, match="a replica gets 2 sequences of a batch; expected groups of 4"):
        make_task_batches(made_rows([5] * 12), **settings, share=BatchShare(2, 0, 2))
