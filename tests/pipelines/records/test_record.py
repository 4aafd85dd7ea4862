"""Rows survive the way through a record, and the fast writer writes what TensorFlow's own writes."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.pipelines.records.record import Record, parse_records, serialize_record, serialize_records

ROWS = [
    Record([1, 127, 128, 16_383, 16_384, 2**21 - 1, 0], [(3, 0), (4, 0)]),
    Record(list(range(100, 600)), [(300, 50), (100, 50)], [0, 1]),
    Record([7, 8, 9], [(1, 2)], [1]),
    Record(list(range(40_000)), [(40_000, 0)]),
    Record([], []),
]


def random_rows(num_rows=500, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 129, num_rows)
    return [Record(rng.integers(0, 30_522, n).tolist(), [(int(n) - 2, 2)], [int(n) % 2]) for n in lengths]


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], random_rows(), []])
def test_the_fast_writer_writes_the_bytes_of_tensorflow(rows):
    assert list(serialize_records(rows)) == [serialize_record(row) for row in rows]
    as_arrays = [Record(np.array(row.token_ids, np.int32), tuple(row.lengths), row.sentence_labels) for row in rows]
    assert list(serialize_records(as_arrays)) == [serialize_record(row) for row in rows]


def test_rows_are_read_back_also_in_a_graph():
    serialized = tf.constant(list(serialize_records(ROWS)))
    for parse in (parse_records, tf.function(parse_records)):
        parsed = parse(serialized)
        assert {value.dtype for value in parsed.values()} == {tf.int32}
        assert parsed["token_ids"].to_list() == [row.token_ids for row in ROWS]
        assert parsed["lengths"].to_list() == [[list(pair) for pair in row.lengths] for row in ROWS]
        assert parsed["sentence_labels"].to_list() == [list(row.sentence_labels) for row in ROWS]


@pytest.mark.parametrize("ids", [[3, -1], [3, 2**21]])
def test_an_id_that_no_vocabulary_has_is_refused(ids):
    with pytest.raises(ValueError, match="expected 0 to 2097151"):
        list(serialize_records([Record(ids, [(2, 0)])]))
