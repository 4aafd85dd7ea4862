"""Rows of records to the features of a model: padded, with segments, and with the borders of packed examples."""

import tensorflow as tf


def pad_records(
    rows: dict[str, tf.RaggedTensor], *, max_sequence_length: int, max_examples: int, pad_id: int
) -> dict[str, tf.Tensor]:
    """Pads rows and says what each position belongs to.

    Args:
        rows: what `records.parse_records` gave for B rows.
        max_sequence_length: S, at least the longest row.
        max_examples: K, at least the examples of any row.
        pad_id: what stands in the padding.

    Returns:
        `token_ids`, `segment_ids`, `padding_mask` and `pack_ids` `(B, S)` int32, `pack_starts` `(B, K)` int32.
    """
    token_ids = rows["token_ids"].to_tensor(pad_id, shape=(None, max_sequence_length))
    num_records = tf.shape(token_ids)[0]
    # [CLS] A [SEP] and B [SEP] are the two parts of an example: part 2k is A of the example k, part 2k + 1 is its B
    lengths = tf.reshape(rows["lengths"].to_tensor(shape=(None, max_examples, 2)), (-1, 2 * max_examples))
    ends = tf.cumsum(lengths, axis=1)
    positions = tf.broadcast_to(tf.range(max_sequence_length), (num_records, max_sequence_length))
    # an empty part ends where it begins, so it is passed over; behind the last one comes number 2K, the padding
    parts = tf.searchsorted(ends, positions, side="right")
    padding_mask = tf.cast(parts < 2 * max_examples, tf.int32)
    starts = tf.where(lengths > 0, ends - lengths, 0)[:, ::2]
    return {
        "token_ids": token_ids,
        "segment_ids": parts % 2,
        "padding_mask": padding_mask,
        "pack_ids": (parts // 2 + 1) * padding_mask,
        "pack_starts": starts,
    }


def sentence_labels(rows: dict[str, tf.RaggedTensor], *, max_examples: int) -> dict[str, tf.Tensor]:
    """Returns `next_sentence_labels` `(B, K)` int32 and `next_sentence_weights` `(B, K)` float32 of packed rows."""
    labels = rows["sentence_labels"]
    return {
        "next_sentence_labels": labels.to_tensor(shape=(None, max_examples)),
        "next_sentence_weights": tf.sequence_mask(labels.row_lengths(), max_examples, tf.float32),
    }
