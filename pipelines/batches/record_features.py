"""Parsed records to model features: padding, segments and the bounds of packed examples."""

import tensorflow as tf


def pad_records(
    records: dict[str, tf.RaggedTensor], *, max_sequence_length: int, max_examples: int, pad_id: int
) -> dict[str, tf.Tensor]:
    """Pad records to sequences, and mark which segment and packed example each position belongs to.

    Args:
        records: B records from `parse_records`.
        max_sequence_length: S, at least the length of the longest record.
        max_examples: K, at least the number of examples of any record.
        pad_id: id of [PAD].

    Returns:
        `token_ids`, `segment_ids`, `padding_mask` (1 = real token, 0 = padding) and `pack_ids` (0 = padding),
        `(B, S)` int32; `pack_starts` `(B, K)` int32.
    """
    token_ids = records["token_ids"].to_tensor(pad_id, shape=(None, max_sequence_length))
    num_records = tf.shape(token_ids)[0]
    # part 2k is [CLS] A [SEP] of example k, and part 2k + 1 its B [SEP]
    lengths = tf.reshape(records["lengths"].to_tensor(shape=(None, max_examples, 2)), (-1, 2 * max_examples))
    ends = tf.cumsum(lengths, axis=1)
    positions = tf.broadcast_to(tf.range(max_sequence_length), (num_records, max_sequence_length))
    # side="right" skips empty parts, which end where they start; positions after the last part get 2K, the padding
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


def pad_sentence_labels(records: dict[str, tf.RaggedTensor], *, max_examples: int) -> dict[str, tf.Tensor]:
    """Return `next_sentence_labels` `(B, K)` int32 and `next_sentence_weights` `(B, K)` float32 of packed examples."""
    labels = records["sentence_labels"]
    return {
        "next_sentence_labels": labels.to_tensor(shape=(None, max_examples)),
        "next_sentence_weights": tf.sequence_mask(labels.row_lengths(), max_examples, tf.float32),
    }
