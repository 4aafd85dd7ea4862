"""Features of records have the right segment and packed example at every position."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.pipelines.batches.pretraining_batches import pad_records, pad_sentence_labels
from bert_keras.pipelines.records.record import Record, parse_records, serialize_records

RECORDS = [
    Record([2, 5, 3, 6, 7, 3], [(3, 3)], [1]),
    Record([2, 5, 5, 3, 6, 3, 2, 7, 3, 8, 3], [(4, 2), (3, 2)], [0, 1]),
    Record([2, 5, 3, 2, 6, 3], [(3, 0), (3, 0)]),
]
FEATURES = {
    "token_ids": [
        [2, 5, 3, 6, 7, 3, 9, 9, 9, 9, 9],
        [2, 5, 5, 3, 6, 3, 2, 7, 3, 8, 3],
        [2, 5, 3, 2, 6, 3, 9, 9, 9, 9, 9],
    ],
    "segment_ids": [
        [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ],
    "padding_mask": [
        [1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0],
    ],
    "pack_ids": [
        [1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2],
        [1, 1, 1, 2, 2, 2, 0, 0, 0, 0, 0],
    ],
    "pack_starts": [[0, 0, 0, 0], [0, 6, 0, 0], [0, 3, 0, 0]],
}


def make_features(serialized, length=11, max_examples=4):
    return pad_records(parse_records(serialized), max_sequence_length=length, max_examples=max_examples, pad_id=9)


@pytest.mark.parametrize("run", [lambda function: function, tf.function], ids=["eager", "graph"])
def test_features_equal_the_expected_table(run):
    features = run(make_features)(tf.constant(list(serialize_records(RECORDS))))
    assert {name: value.numpy().tolist() for name, value in features.items()} == FEATURES
    assert {value.dtype for value in features.values()} == {tf.int32}


def test_unused_labels_have_weight_0():
    labels = pad_sentence_labels(parse_records(tf.constant(list(serialize_records(RECORDS)))), max_examples=3)
    assert labels["next_sentence_labels"].numpy().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert labels["next_sentence_weights"].numpy().tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0]]
    assert labels["next_sentence_weights"].dtype == tf.float32


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.lists(st.tuples(st.integers(2, 6), st.integers(0, 5)), min_size=1, max_size=5), max_size=4))
def test_lengths_determine_segments_and_examples(lengths):
    records = [Record(list(range(10, 10 + sum(map(sum, pairs)))), pairs) for pairs in lengths]
    serialized = tf.constant(list(serialize_records(records)), tf.string)
    features = {name: value.numpy() for name, value in make_features(serialized, length=57, max_examples=5).items()}
    assert features["token_ids"].shape == (len(records), 57)
    for index, record in enumerate(records):
        num_tokens = len(record.token_ids)
        assert features["token_ids"][index].tolist() == [*record.token_ids, *[9] * (57 - num_tokens)]
        parts = [(number, segment) for number, pair in enumerate(record.lengths, 1) for segment in (0, 1)]
        repeats = [length for pair in record.lengths for length in pair]
        expected = np.repeat(np.array(parts), repeats, axis=0)
        assert features["pack_ids"][index, :num_tokens].tolist() == expected[:, 0].tolist()
        assert features["segment_ids"][index, :num_tokens].tolist() == expected[:, 1].tolist()
        assert features["padding_mask"][index].sum() == num_tokens
        assert not features["pack_ids"][index, num_tokens:].any()
        assert not features["segment_ids"][index, num_tokens:].any()
        starts = np.cumsum([0, *map(sum, record.lengths)])[:-1].tolist()
        assert features["pack_starts"][index].tolist() == starts + [0] * (5 - len(starts))
