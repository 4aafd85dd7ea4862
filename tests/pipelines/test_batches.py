"""Batches for `model.fit`: right shapes, new masks every epoch, the same for the same seed."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.features import FEATURES
from bert_keras.pipelines.batches import classification_batches, pretraining_batches
from bert_keras.pipelines.records import write_records

WORDS = ["the", "unaffable", "playing", "a", "b", "c", "d"]
LENGTH = 21
SETTINGS = {"batch_size": 5, "max_predictions": 4}


def made_documents():
    rng = np.random.default_rng(0)
    return [[" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(rng.integers(1, 7))] for _ in range(30)]


@pytest.fixture(scope="module")
def manifest_and_folder(tiny_tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batches") / "records"
    manifest = write_records(folder, made_documents(), tiny_tokenizer, max_sequence_length=LENGTH, num_shards=4)
    return manifest, folder


@pytest.fixture
def folder(manifest_and_folder):
    return manifest_and_folder[1]


@pytest.fixture
def num_examples(manifest_and_folder):
    return manifest_and_folder[0]["num_examples"]


def as_rows(dataset):
    """All examples of a dataset, as dicts of tuples, unmasked again so that an example can be recognized."""
    rows = []
    for features, labels in dataset.as_numpy_iterator():
        columns = {**features, **labels}
        for row in range(len(features["token_ids"])):
            rows.append({name: tuple(np.atleast_1d(column[row]).tolist()) for name, column in columns.items()})
    return rows


def counted(rows):
    return collections.Counter(tuple(sorted(row.items())) for row in rows)


def original(row):
    ids = list(row["token_ids"])
    for position, index, weight in zip(row["mask_positions"], row["mask_ids"], row["mask_weights"], strict=True):
        if weight:
            ids[position] = index
    return tuple(ids)


def test_names_types_and_static_shapes_are_those_of_the_table_of_features(folder, tiny_tokenizer, num_examples):
    dataset = pretraining_batches(folder, tiny_tokenizer, **SETTINGS, epochs=3)
    features, labels = dataset.element_spec
    assert set(features) == {"token_ids", "segment_ids", "padding_mask", "mask_positions"}
    assert set(labels) == {"mask_ids", "mask_weights", "next_sentence_labels"}
    sizes = {"B": 5, "S": LENGTH, "M": 4}
    for name, spec in {**features, **labels}.items():
        assert spec.dtype.name == FEATURES[name].dtype, name
        assert tuple(spec.shape) == tuple(sizes[letter] for letter in FEATURES[name].shape), name
    assert dataset.cardinality().numpy() == sum(1 for _ in dataset) == 3 * (num_examples // 5)


def test_an_epoch_holds_every_example_once_whatever_the_shuffle(folder, tiny_tokenizer, num_examples):
    settings = {**SETTINGS, "batch_size": 1}
    plain = as_rows(pretraining_batches(folder, tiny_tokenizer, **settings, shuffle=False))
    shuffled = as_rows(pretraining_batches(folder, tiny_tokenizer, **settings))
    assert len(plain) == num_examples
    assert [original(row) for row in plain] != [original(row) for row in shuffled]
    # masks belong to the example, not to its place: the rows are equal as they are
    assert counted(plain) == counted(shuffled)


def test_labels_and_segments_are_those_of_the_pairs(folder, tiny_tokenizer, manifest_and_folder):
    rows = as_rows(pretraining_batches(folder, tiny_tokenizer, batch_size=1))
    manifest = manifest_and_folder[0]
    assert sum(row["next_sentence_labels"][0] for row in rows) == manifest["num_random_next"]
    assert sum(sum(row["padding_mask"]) for row in rows) == manifest["num_tokens"]
    for row in rows:
        ids, num_tokens = original(row), sum(row["padding_mask"])
        first_sep = ids.index(tiny_tokenizer.sep_id)
        assert ids[0] == tiny_tokenizer.cls_id
        assert ids[num_tokens - 1] == tiny_tokenizer.sep_id
        assert ids.count(tiny_tokenizer.sep_id) == 2
        assert set(ids[num_tokens:]) <= {tiny_tokenizer.pad_id}
        assert row["segment_ids"] == tuple(int(first_sep < place < num_tokens) for place in range(LENGTH))


def test_every_epoch_has_its_own_order_and_masks(folder, tiny_tokenizer, num_examples):
    settings = {**SETTINGS, "batch_size": 1}
    rows = as_rows(pretraining_batches(folder, tiny_tokenizer, **settings, epochs=2))
    first, second = rows[:num_examples], rows[num_examples:]
    assert [original(row) for row in first] != [original(row) for row in second]
    assert sorted(map(original, first)) == sorted(map(original, second))
    rows = as_rows(pretraining_batches(folder, tiny_tokenizer, **settings, epochs=2, shuffle=False))
    differing = sum(
        a["mask_positions"] != b["mask_positions"]
        for a, b in zip(rows[:num_examples], rows[num_examples:], strict=True)
    )
    assert differing > num_examples // 2


def test_batches_depend_on_the_seed_and_on_nothing_else(folder, tiny_tokenizer, tmp_path):
    """Not on a global seed, on what was read before, or on the number of shards."""
    dataset = pretraining_batches(folder, tiny_tokenizer, **SETTINGS, seed=3, epochs=2)
    rows = as_rows(dataset)
    assert as_rows(dataset) == rows
    write_records(tmp_path / "one", made_documents(), tiny_tokenizer, max_sequence_length=LENGTH, num_shards=1)
    tf.random.set_seed(99)
    try:
        assert as_rows(pretraining_batches(tmp_path / "one", tiny_tokenizer, **SETTINGS, seed=3, epochs=2)) == rows
    finally:
        tf.random.set_seed(None)
    assert as_rows(pretraining_batches(folder, tiny_tokenizer, **SETTINGS, seed=4, epochs=2)) != rows


def test_without_epochs_the_records_repeat_without_end(folder, tiny_tokenizer, num_examples):
    num_batches = 3 * (num_examples // 5)
    endless = pretraining_batches(folder, tiny_tokenizer, **SETTINGS, epochs=None)
    assert endless.cardinality().numpy() == tf.data.INFINITE_CARDINALITY
    finite = pretraining_batches(folder, tiny_tokenizer, **SETTINGS, epochs=3)
    assert as_rows(endless.take(num_batches)) == as_rows(finite)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 10_000}, r"holds \d+ examples, fewer than one batch of 10000: lower the batch size"),
        ({"batch_size": 0}, "batch_size is 0; expected 1 or more"),
        ({"epochs": 0}, "epochs is 0; expected 1 or more"),
        ({"max_predictions": 0}, "max_predictions is 0"),
        ({"mask_rate": 1.5}, r"mask_rate is 1\.5"),
        ({"seed": -3}, "seed is -3"),
    ],
)
def test_pretraining_settings_out_of_range_are_refused_before_reading(folder, tiny_tokenizer, changes, message):
    with pytest.raises(InputError, match=message):
        pretraining_batches(folder, tiny_tokenizer, **{**SETTINGS, **changes})


TEXTS = ["a", "the unaffable playing a", "b c", "", "d d d d d d d d d d"]


def test_class_batches_keep_all_texts_and_pad_to_their_own_longest(tiny_tokenizer):
    dataset = classification_batches(TEXTS, [3, 0, 1, 2, 1], tiny_tokenizer, batch_size=2, max_sequence_length=8)
    features, labels = zip(*dataset.as_numpy_iterator(), strict=True)
    assert [batch["token_ids"].shape for batch in features] == [(2, 8), (2, 4), (1, 8)]
    assert features[1]["token_ids"].tolist() == [[2, 12, 13, 3], [2, 3, 0, 0]]
    assert features[1]["padding_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert features[2]["token_ids"].tolist() == [[2, *[14] * 6, 3]]
    assert [batch.tolist() for batch in labels] == [[3, 0], [1, 2], [1]]
    assert {batch.dtype for batch in labels} == {np.dtype(np.int32)}


def test_without_labels_batches_are_features_alone(tiny_tokenizer):
    dataset = classification_batches(TEXTS, None, tiny_tokenizer, batch_size=3, max_sequence_length=8)
    assert set(dataset.element_spec) == {"token_ids", "segment_ids", "padding_mask"}


def test_shuffled_class_batches_keep_text_and_label_together(tiny_tokenizer):
    texts = [word for word in WORDS for _ in range(9)]
    labels = np.repeat(np.arange(len(WORDS)), 9)
    settings = {"batch_size": 4, "max_sequence_length": 8, "shuffle": True}

    def read(seed):
        dataset = classification_batches(texts, labels, tiny_tokenizer, seed=seed, **settings)
        return [
            (ids.tolist()[1], label)
            for f, ls in dataset.as_numpy_iterator()
            for ids, label in zip(f["token_ids"], ls, strict=True)
        ]

    pairs = read(1)
    assert sorted(label for _, label in pairs) == labels.tolist()
    assert [label for _, label in pairs] != labels.tolist()
    assert len(set(pairs)) == len(WORDS)
    assert read(1) == pairs
    assert read(2) != pairs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [0, 1]}, "there are 5 texts and 2 labels"),
        ({"labels": [0, 1, "a", 1, 1]}, "label 2 is 'a', a str; expected a class number from 0: number the classes"),
        ({"labels": [0, 1.0, 1, 1, 1]}, r"label 1 is 1\.0, a float"),
        ({"labels": [0, 1, 1, True, 1]}, "label 3 is True, a bool"),
        ({"labels": [0, 1, 1, 1, -100]}, "label 4 is -100; expected a class number from 0"),
        ({"texts": [], "labels": []}, "there are no texts"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"max_sequence_length": 2}, "max_sequence_length is 2; expected 3 or more"),
        ({"texts": [*TEXTS[:4], 7]}, "text 4 is 7, a int"),
    ],
)
def test_texts_and_labels_that_cannot_be_used_are_refused_at_once(tiny_tokenizer, changes, message):
    settings = {"texts": TEXTS, "labels": [0, 1, 2, 3, 4], "batch_size": 2, "max_sequence_length": 8, **changes}
    with pytest.raises(InputError, match=message):
        classification_batches(tokenizer=tiny_tokenizer, **settings)
