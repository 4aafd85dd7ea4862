"""One record: a row of token ids that holds one example, or several packed behind each other.

A row is what a model will read, special tokens included and padding left out, before any token is masked.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

_MAX_ID = 1 << 21  # three bytes of varint


@dataclasses.dataclass(frozen=True)
class Record:
    """One or several examples in one row.

    Attributes:
        token_ids: all tokens of all examples, [CLS] and [SEP] included, no padding.
        lengths: for each example how many tokens its first part has, with [CLS] and its [SEP], and its second part,
            with its [SEP]; 0 where there is no second part. They sum to the length of the row.
        sentence_labels: for each example 0 = B follows A, 1 = B is random (`nsp`) or the two were swapped (`sop`);
            empty where the objective has no labels.
    """

    token_ids: Sequence[int]
    lengths: Sequence[tuple[int, int]]
    sentence_labels: Sequence[int] = ()


def serialize_record(row: Record) -> bytes:
    """Returns the row as a `tf.train.Example` of int64 lists; the same row always gives the same bytes."""
    columns = {
        "token_ids": row.token_ids,
        "lengths": [length for pair in row.lengths for length in pair],
        "sentence_labels": row.sentence_labels,
    }
    feature = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=ids)) for name, ids in columns.items()}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(deterministic=True)


def serialize_records(rows: Sequence[Record]) -> Iterator[bytes]:
    """Yields what `serialize_record` returns for each row, ten times as fast: the ids of all rows are encoded at once.

    Raises:
        ValueError: an id is below 0 or above 2**21 - 1.
    """
    columns = (
        (b"lengths", [np.ravel(row.lengths) for row in rows]),
        (b"sentence_labels", [row.sentence_labels for row in rows]),
        (b"token_ids", [row.token_ids for row in rows]),
    )
    encoded = [[_head(name, len(values)) + values for values in _varints(lists)] for name, lists in columns]
    for entries in zip(*encoded, strict=True):
        features = b"".join(entries)
        yield _field(1, len(features)) + features


def parse_records(serialized: tf.Tensor) -> dict[str, tf.RaggedTensor]:
    """Reads `(B,)` records: `token_ids` and `sentence_labels` (B, ragged), `lengths` (B, ragged, 2), all int32."""
    spec = {name: tf.io.RaggedFeature(tf.int64) for name in ("token_ids", "lengths", "sentence_labels")}
    parsed = {name: tf.cast(value, tf.int32) for name, value in tf.io.parse_example(serialized, spec).items()}
    lengths = parsed["lengths"]
    pairs = tf.RaggedTensor.from_row_lengths(tf.reshape(lengths.values, (-1, 2)), lengths.row_lengths() // 2)
    return {**parsed, "lengths": pairs}


@functools.lru_cache(1 << 12)
def _head(name: bytes, num_bytes: int) -> bytes:
    """Returns what stands before the values of a column: an entry of `Features.feature`, a map from name (1) to
    `Feature` (2), which has an `int64_list` (3), which has its values (1) unless there are none.
    """
    values = _field(1, num_bytes) if num_bytes else b""
    int64_list = _field(3, len(values) + num_bytes) + values
    feature = _field(1, len(name)) + name + _field(2, len(int64_list) + num_bytes) + int64_list
    return _field(1, len(feature) + num_bytes) + feature


@functools.lru_cache(1 << 12)
def _field(number: int, num_bytes: int) -> bytes:
    """Returns the beginning of a protobuf field of the kind "length-delimited" (2)."""
    head = bytearray([number << 3 | 2])
    while num_bytes > 0x7F:
        head.append(num_bytes & 0x7F | 0x80)
        num_bytes >>= 7
    return bytes([*head, num_bytes])


def _varints(lists: Sequence[Sequence[int]]) -> list[bytes]:
    """Returns each list as protobuf writes it, packed: 7 bits a byte, the lowest first, 0x80 = more to come."""
    values = np.concatenate([np.zeros(0, np.int64), *(np.asarray(values, np.int64) for values in lists)])
    largest = int(values.max(initial=0))
    if largest >= _MAX_ID or values.min(initial=0) < 0:
        raise ValueError(f"an id is {min(int(values.min()), largest)} or {largest}; expected 0 to {_MAX_ID - 1}")
    table, is_used, num_bytes = _varint_table(1 << largest.bit_length())
    content = table[values].view(np.uint8)[is_used[values].view(bool)].tobytes()
    ends = np.cumsum(num_bytes[values])
    borders = np.concatenate([[0], ends])[np.cumsum([0, *map(len, lists)])].tolist()
    return [content[start:end] for start, end in itertools.pairwise(borders)]


@functools.lru_cache(4)
def _varint_table(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns for each number below `size` its varint in four bytes, which of them count, and how many those are."""
    numbers = np.arange(size)
    num_bytes = 1 + sum((numbers >= 1 << 7 * place).astype(np.int64) for place in (1, 2))
    is_used = np.arange(4) < num_bytes[:, None]
    more = np.where(np.arange(4) < num_bytes[:, None] - 1, 0x80, 0)
    table = (numbers[:, None] >> 7 * np.arange(4) & 0x7F | more).astype(np.uint8)
    return table.view(np.uint32)[:, 0], is_used.view(np.uint32)[:, 0], num_bytes
