"""Records survive serialization, and lists and arrays give the same bytes as TensorFlow's own constructors."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.pipelines.records.record import Record, parse_records, serialize_records
from tests.pipelines.tensorflow_records import serialize_with_tensorflow

RECORDS = [
    Record([1, 127, 128, 16_383, 16_384, 2**21 - 1, 0], [(3, 0), (4, 0)]),
    Record(list(range(100, 600)), [(300, 50), (100, 50)], [0, 1]),
    Record([7, 8, 9], [(1, 2)], [1]),
    Record(list(range(40_000)), [(40_000, 0)]),
    Record([], []),
]


def draw_records(num_records=500, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 129, num_records)
    return [Record(rng.integers(0, 30_522, n).tolist(), [(int(n) - 2, 2)], [int(n) % 2]) for n in lengths]


@pytest.mark.parametrize("records", [RECORDS, RECORDS[:1], draw_records(), []])
def test_serialize_records_gives_the_bytes_of_tensorflow(records):
    assert list(serialize_records(records)) == [serialize_with_tensorflow(record) for record in records]
    as_arrays = [
        Record(np.array(record.token_ids, np.int32), tuple(record.lengths), record.sentence_labels)
        for record in records
    ]
    assert list(serialize_records(as_arrays)) == [serialize_with_tensorflow(record) for record in records]


def test_records_are_parsed_eagerly_and_in_a_graph():
    serialized = tf.constant(list(serialize_records(RECORDS)))
    for parse in (parse_records, tf.function(parse_records)):
        parsed = parse(serialized)
        assert {value.dtype for value in parsed.values()} == {tf.int32}
        assert parsed["token_ids"].to_list() == [record.token_ids for record in RECORDS]
        assert parsed["lengths"].to_list() == [[list(pair) for pair in record.lengths] for record in RECORDS]
        assert parsed["sentence_labels"].to_list() == [list(record.sentence_labels) for record in RECORDS]
