"""A record: the token ids of one example, or of several packed examples, serialized for a TFRecord file.

A record holds everything the model gets, including special tokens but no padding, before tokens are masked.
"""

import dataclasses
import functools
import itertools
import os
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from bert_keras.pipelines.records.manifest import list_shard_paths, read_manifest

_MAX_ID = 1 << 21  # three bytes of varint
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


def serialize_records(records: Sequence[Record]) -> Iterator[bytes]:
    """Yield each record as a `tf.train.Example` of int64 lists; equal records give equal bytes.

    All ids are encoded at once, which is ten times as fast as TensorFlow's own serialization.

    Raises:
        ValueError: an id is below 0 or above 2**21 - 1.
    """
    columns = (
        (b"lengths", [np.ravel(record.lengths) for record in records]),
        (b"sentence_labels", [record.sentence_labels for record in records]),
        (b"token_ids", [record.token_ids for record in records]),
    )
    encoded = [
        [_encode_header(name, len(values)) + values for values in _encode_varints(lists)] for name, lists in columns
    ]
    for entries in zip(*encoded, strict=True):
        features = b"".join(entries)
        yield _encode_field(1, len(features)) + features


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


@functools.lru_cache(1 << 12)
def _encode_header(name: bytes, num_bytes: int) -> bytes:
    """Return the bytes before the values of a column.

    They are an entry of `Features.feature`, a map from name (1) to `Feature` (2), which has an `int64_list` (3), which
    has its values (1) unless it is empty.
    """
    values = _encode_field(1, num_bytes) if num_bytes else b""
    int64_list = _encode_field(3, len(values) + num_bytes) + values
    feature = _encode_field(1, len(name)) + name + _encode_field(2, len(int64_list) + num_bytes) + int64_list
    return _encode_field(1, len(feature) + num_bytes) + feature


@functools.lru_cache(1 << 12)
def _encode_field(number: int, num_bytes: int) -> bytes:
    """Return the tag and length of a protobuf field of wire type 2, "length-delimited"."""
    head = bytearray([number << 3 | 2])
    while num_bytes > 0x7F:
        head.append(num_bytes & 0x7F | 0x80)
        num_bytes >>= 7
    return bytes([*head, num_bytes])


def _encode_varints(lists: Sequence[Sequence[int]]) -> list[bytes]:
    """Return each list as packed varints: 7 bits per byte, the lowest first; 0x80 marks that another byte follows."""
    values = np.concatenate([np.zeros(0, np.int64), *(np.asarray(values, np.int64) for values in lists)])
    largest = int(values.max(initial=0))
    if largest >= _MAX_ID or values.min(initial=0) < 0:
        raise ValueError(f"ids are from {int(values.min())} to {largest}; expected 0 to {_MAX_ID - 1}")
    table, is_used, num_bytes = _varint_table(1 << largest.bit_length())
    content = table[values].view(np.uint8)[is_used[values].view(bool)].tobytes()
    ends = np.cumsum(num_bytes[values])
    bounds = np.concatenate([[0], ends])[np.cumsum([0, *map(len, lists)])].tolist()
    return [content[start:end] for start, end in itertools.pairwise(bounds)]


@functools.lru_cache(4)
def _varint_table(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each number below `size` its varint in four bytes, which bytes are used, and how many."""
    numbers = np.arange(size)
    num_bytes = 1 + sum((numbers >= 1 << 7 * index).astype(np.int64) for index in (1, 2))
    is_used = np.arange(4) < num_bytes[:, None]
    continues = np.where(np.arange(4) < num_bytes[:, None] - 1, 0x80, 0)
    table = (numbers[:, None] >> 7 * np.arange(4) & 0x7F | continues).astype(np.uint8)
    return table.view(np.uint32)[:, 0], is_used.view(np.uint32)[:, 0], num_bytes
