"""One record: a row of piece ids that holds one example, or several packed behind each other.

A row is what a model will read, special tokens included and padding left out, before any piece is masked.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Row:
    """One or several examples in one row.

    Attributes:
        token_ids: all pieces of all examples, [CLS] and [SEP] included, no padding.
        lengths: for each example how many pieces its first part has, with [CLS] and its [SEP], and its second part,
            with its [SEP]; 0 where there is no second part. They sum to the length of the row.
        sentence_labels: for each example 0 = B follows A, 1 = B is random (`nsp`) or the two were swapped (`sop`);
            empty where the objective has no labels.
    """

    token_ids: Sequence[int]
    lengths: Sequence[tuple[int, int]]
    sentence_labels: Sequence[int] = ()


def serialize_row(row: Row) -> bytes:
    """Returns the row as a `tf.train.Example` of int64 lists; the same row always gives the same bytes."""
    columns = {
        "token_ids": row.token_ids,
        "lengths": [length for pair in row.lengths for length in pair],
        "sentence_labels": row.sentence_labels,
    }
    feature = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=ids)) for name, ids in columns.items()}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(deterministic=True)


def parse_rows(serialized: tf.Tensor) -> dict[str, tf.RaggedTensor]:
    """Reads `(B,)` records: `token_ids` and `sentence_labels` (B, ragged), `lengths` (B, ragged, 2), all int32."""
    spec = {name: tf.io.RaggedFeature(tf.int64) for name in ("token_ids", "lengths", "sentence_labels")}
    parsed = {name: tf.cast(value, tf.int32) for name, value in tf.io.parse_example(serialized, spec).items()}
    lengths = parsed["lengths"]
    pairs = tf.RaggedTensor.from_row_lengths(tf.reshape(lengths.values, (-1, 2)), lengths.row_lengths() // 2)
    return {**parsed, "lengths": pairs}
