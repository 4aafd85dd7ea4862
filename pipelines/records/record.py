"""A record: the token ids of one example, or of several packed examples, serialized for a TFRecord file.

A record holds everything the model gets, including special tokens but no padding, before tokens are masked.
"""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from bert_keras.pipelines.records.manifest import list_shard_paths, read_manifest

_MAX_RECORDS = 100_000  # 74,000 records with 8 million tokens take 1.1 s
_BATCH_SIZE = 1024


@dataclasses.dataclass(frozen=True)
class Record:
    """One example, or several packed examples.

    Attributes:
        token_ids: the tokens of all examples, including [CLS] and [SEP], without padding.
        lengths: for each example the lengths of its two parts, `[CLS] A [SEP]` and `B [SEP]`; 0 if there is no B. They
            sum to the length of the record.
        sentence_labels: for each example 0 = B follows A, 1 = B is random ("nsp") or A and B are swapped ("sop");
            empty if the objective has no labels.
    """

    token_ids: Sequence[int]
    lengths: Sequence[tuple[int, int]]
    sentence_labels: Sequence[int] = ()


def serialize_records(records: Iterable[Record]) -> Iterator[bytes]:
    """Yield each record as a `tf.train.Example` of int64 lists; equal records give equal bytes."""
    for record in records:
        example = tf.train.Example()
        for field in dataclasses.fields(record):
            # a list of Python integers: a NumPy array takes three times as long
            values = np.ravel(getattr(record, field.name)).tolist()
            example.features.feature[field.name].int64_list.value.extend(values)
        yield example.SerializeToString(deterministic=True)


def parse_records(serialized: tf.Tensor) -> dict[str, tf.RaggedTensor]:
    """Parse `(B,)` records: `token_ids` and `sentence_labels` (B, ragged), `lengths` (B, ragged, 2), all int32."""
    spec = {name: tf.io.RaggedFeature(tf.int64) for name in ("token_ids", "lengths", "sentence_labels")}
    parsed = {name: tf.cast(value, tf.int32) for name, value in tf.io.parse_example(serialized, spec).items()}
    lengths = parsed["lengths"]
    pairs = tf.RaggedTensor.from_row_lengths(tf.reshape(lengths.values, (-1, 2)), lengths.row_lengths() // 2)
    return {**parsed, "lengths": pairs}


def count_tokens(folder: str | os.PathLike, vocabulary_size: int) -> np.ndarray:
    """Count the tokens of up to 100,000 training records, the first ones of each shard.

    Args:
        folder: the records folder.
        vocabulary_size: V, the number of ids.

    Returns:
        The number of occurrences of each id, int64 `(V,)`, without padding. [CLS] and [SEP] are tokens of a record.
    """
    paths = list_shard_paths(folder, read_manifest(folder), "train")
    share = -(-_MAX_RECORDS // len(paths))  # of each shard, because shards are in the order of the text
    shards = tf.data.Dataset.from_tensor_slices(paths)
    serialized = shards.flat_map(lambda path: tf.data.TFRecordDataset(path).take(share)).batch(_BATCH_SIZE)
    counts = np.zeros(vocabulary_size, "int64")
    for ids in serialized.map(lambda batch: parse_records(batch)["token_ids"].flat_values):
        counts += np.bincount(ids.numpy(), minlength=vocabulary_size)
    return counts
