"""Pieces to model inputs: `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`, cut to length and padded.

One implementation for records, `tf.data` and exported models. Only `tf.gather`, `tf.where`
and arithmetic, so every TensorFlow runtime that has the tokenizer can run it.
"""

import tensorflow as tf

from bert_keras.errors import InputError


def pack(
    tokenizer,
    texts,
    second_texts=None,
    *,
    max_sequence_length: int,
    pad_to_length: int | None = None,
) -> dict[str, tf.Tensor]:
    """Tokenizes texts, or pairs of texts, and packs them into model inputs (see `pack_tokens`).

    Args:
        tokenizer: a `BertTokenizer`.
        texts: `(B,)` strings.
        second_texts: `(B,)` strings, the second of each pair.
        max_sequence_length: the longest sequence in pieces, special tokens counted; longer ones are cut.
        pad_to_length: S. Default: the longest sequence of this batch.

    Example:
        >>> pack(tokenizer, ["Playing"], max_sequence_length=16)["token_ids"].numpy().tolist()
        [[2, 5, 6, 3]]
    """
    return pack_tokens(
        tokenizer.tokenize(texts),
        None if second_texts is None else tokenizer.tokenize(second_texts),
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
        max_sequence_length=max_sequence_length,
        pad_to_length=pad_to_length,
    )


def pack_tokens(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None = None,
    *,
    cls_id: int,
    sep_id: int,
    pad_id: int,
    max_sequence_length: int,
    pad_to_length: int | None = None,
) -> dict[str, tf.Tensor]:
    """Packs tokenized texts, or pairs of them, into model inputs.

    A pair that is too long loses pieces from the end of its longer text, and from the second when
    they are equal, as in Google's `_truncate_seq_pair`.

    Args:
        first: `(B, pieces)` int32, ragged.
        second: `(B, pieces)` int32, ragged, the second text of each pair.
        cls_id, sep_id, pad_id: ids of the special tokens.
        max_sequence_length: the longest sequence in pieces, special tokens counted.
        pad_to_length: S. Default: the longest sequence of this batch.

    Returns:
        `token_ids`, `segment_ids` and `padding_mask` (1 = real token, 0 = padding), each `(B, S)` int32.

    Raises:
        InputError: a length has no room for the special tokens and a piece of each text, or
            `pad_to_length` is below `max_sequence_length`.
    """
    num_special = 2 if second is None else 3
    check_lengths(max_sequence_length, pad_to_length, num_texts=1 if second is None else 2)
    first_lengths, second_lengths = _truncated_lengths(first, second, max_sequence_length - num_special)
    ends = num_special + first_lengths + second_lengths  # (B, 1): where padding begins
    positions = tf.range(_sequence_length(ends, num_special, pad_to_length))[tf.newaxis]  # (1, S)
    first_sep = 1 + first_lengths  # (B, 1): the position of the first [SEP]
    in_first = (positions > 0) & (positions < first_sep)
    in_second = (positions > first_sep) & (positions < ends - 1)

    # Every position becomes an index into one row of candidates: A's pieces, B's pieces, [CLS], [SEP], [PAD].
    candidates = [first.flat_values, [] if second is None else second.flat_values, [cls_id, sep_id, pad_id]]
    candidates = tf.concat([tf.cast(part, tf.int32) for part in candidates], axis=0)
    pad_index = tf.size(candidates) - 1
    index = tf.where(positions < ends, pad_index - 1, pad_index)
    index = tf.where(positions == 0, pad_index - 2, index)
    index = tf.where(in_first, _column(first.row_starts()) + positions - 1, index)
    if second is not None:
        second_starts = tf.size(first.flat_values) + _column(second.row_starts())
        index = tf.where(in_second, second_starts + positions - first_sep - 1, index)
    return {
        "token_ids": tf.gather(candidates, index),
        "segment_ids": tf.cast((positions > first_sep) & (positions < ends), tf.int32),
        "padding_mask": tf.cast(positions < ends, tf.int32),
    }


def _truncated_lengths(first, second, budget: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how many pieces of each text stay, `(B, 1)` each: at most `budget` together, longest cut first."""
    if second is None:
        lengths = tf.minimum(_column(first.row_lengths()), budget)
        return lengths, tf.zeros_like(lengths)
    # tf.stack refuses two batches of different sizes, where broadcasting would pair one text with all
    lengths = tf.stack([first.row_lengths(), second.row_lengths()], axis=1)
    first_lengths, second_lengths = tf.split(tf.cast(lengths, tf.int32), 2, axis=1)
    second_lengths = tf.minimum(second_lengths, tf.maximum(budget // 2, budget - first_lengths))
    return tf.minimum(first_lengths, budget - second_lengths), second_lengths


def _sequence_length(ends: tf.Tensor, num_special: int, pad_to_length: int | None):
    """Returns S: fixed, or the longest of the batch (`num_special` for a batch without rows)."""
    if pad_to_length is not None:
        return pad_to_length
    return tf.reduce_max(tf.concat([tf.reshape(ends, [-1]), [num_special]], axis=0))


def _column(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(values, tf.int32)[:, tf.newaxis]


def check_lengths(max_sequence_length: int, pad_to_length: int | None = None, *, num_texts: int = 1) -> None:
    """Raises `InputError` unless the lengths have room for special tokens and one piece of each text."""
    shortest = 1 + 2 * num_texts
    if max_sequence_length < shortest:
        raise InputError(
            f"max_sequence_length is {max_sequence_length}; expected {shortest} or more, for the special tokens and "
            "one piece of each text"
        )
    if pad_to_length is not None and pad_to_length < max_sequence_length:
        raise InputError(
            f"pad_to_length is {pad_to_length}, below max_sequence_length {max_sequence_length}; expected at least as "
            "much, since padding cuts nothing off: lower max_sequence_length too"
        )
