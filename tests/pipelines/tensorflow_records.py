"""The second implementation of `serialize_records`, with TensorFlow's own protocol buffers."""

import tensorflow as tf

from bert_keras.pipelines.records.record import Record


def serialize_with_tensorflow(record: Record) -> bytes:
    """Return a record as a `tf.train.Example` of int64 lists."""
    columns = {
        "token_ids": record.token_ids,
        "lengths": [length for pair in record.lengths for length in pair],
        "sentence_labels": record.sentence_labels,
    }
    feature = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=ids)) for name, ids in columns.items()}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(deterministic=True)
