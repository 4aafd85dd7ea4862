"""Token frequencies of records: every shard counts, not only the start of the text."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.pipelines.records import record
from bert_keras.pipelines.records.record import count_tokens


@pytest.fixture
def shards(tmp_path, monkeypatch):
    """The folder of two shards of 40 records, whose tokens are 5 and 7."""
    paths = []
    for token in (5, 7):
        paths.append(str(tmp_path / f"shard-{token}"))
        ids = tf.train.Feature(int64_list=tf.train.Int64List(value=[2, token, token, 3]))
        example = tf.train.Example(features=tf.train.Features(feature={"token_ids": ids}))
        with tf.io.TFRecordWriter(paths[-1]) as writer:
            for _ in range(40):
                writer.write(example.SerializeToString())
    monkeypatch.setattr(record, "read_manifest", lambda folder: {})
    monkeypatch.setattr(record, "list_shard_paths", lambda folder, manifest, split: paths)
    return tmp_path


def test_all_records_are_counted(shards):
    expected = np.zeros(10, "int64")
    expected[[2, 3, 5, 7]] = [80, 80, 80, 80]
    np.testing.assert_array_equal(count_tokens(shards, 10), expected)


def test_a_sample_has_records_of_every_shard(shards, monkeypatch):
    monkeypatch.setattr(record, "_MAX_RECORDS", 10)
    counts = count_tokens(shards, 10)
    assert counts.tolist() == [0, 0, 10, 10, 0, 10, 0, 10, 0, 0]
