"""Tokens to model inputs: `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`, cut to length and padded.

One implementation for records, `tf.data` and exported models. Only `tf.gather`, `tf.where`
and arithmetic, so every TensorFlow runtime that has the tokenizer can run it: with all its modes in one
SavedModel, TensorFlow 2.13 gives the same numbers as 2.21, which wrote it.
"""

from collections.abc import Sequence

import tensorflow as tf

from bert_keras.checks import check_integer, describe_integer, is_integer, quote
from bert_keras.errors import InputError

TRUNCATIONS = ("longest_first", "only_first", "only_second")  # Hugging Face's names


def pack(
    tokenizer,
    texts,
    second_texts=None,
    *,
    max_sequence_length: int,
    truncation: str = "longest_first",
    pad_to_length: int | None = None,
    pad_to_multiple: int | None = None,
    pad_to_buckets: Sequence[int] | None = None,
    keep_special_tokens: bool = False,
) -> dict[str, tf.Tensor]:
    """Tokenizes texts, or pairs of texts, and packs them into model inputs (see `pack_tokens`, also for lengths).

    Args:
        tokenizer: a `BertTokenizer`.
        texts: `(B,)` strings.
        second_texts: `(B,)` strings, the second of each pair.
        max_sequence_length: the longest sequence in tokens, special tokens counted; longer ones are cut.
        truncation: which text of a pair is cut: one of `TRUNCATIONS`.
        pad_to_length, pad_to_multiple, pad_to_buckets: S, by one of them at most. Default: this batch's longest.
        keep_special_tokens: special tokens written in a text ("[MASK]") stay whole (see `BertTokenizer.tokenize`).

    Example:
        >>> pack(tokenizer, ["Playing"], max_sequence_length=16)["token_ids"].numpy().tolist()
        [[2, 5, 6, 3]]
    """
    first, second = (
        None if given is None else tokenizer.tokenize(given, keep_special_tokens=keep_special_tokens)
        for given in (texts, second_texts)
    )
    return pack_tokens(
        first,
        second,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
        max_sequence_length=max_sequence_length,
        truncation=truncation,
        pad_to_length=pad_to_length,
        pad_to_multiple=pad_to_multiple,
        pad_to_buckets=pad_to_buckets,
    )


def pack_tokens(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None = None,
    *,
    cls_id: int,
    sep_id: int,
    pad_id: int,
    max_sequence_length: int,
    truncation: str = "longest_first",
    pad_to_length: int | None = None,
    pad_to_multiple: int | None = None,
    pad_to_buckets: Sequence[int] | None = None,
) -> dict[str, tf.Tensor]:
    """Packs tokenized texts, or pairs of them, into model inputs.

    A text that is too long loses tokens from its end. Of a pair,
    - "longest_first" cuts the text that is longer at that moment, the second when they are equal, as in Google's
      `_truncate_seq_pair`, with which BERT was trained. Hugging Face's `tokenizers` differs by one token where both
      texts are cut, the number of tokens is odd and A is not the longer: it leaves the odd token to B;
    - "only_first" and "only_second" cut that text and keep the other, as Hugging Face does. Where the text would have
      to be cut away entirely, Hugging Face raises an error; here nothing of it stays, and the other
      text is cut too if it does not fit alone. So every row fits into `max_sequence_length`.

    Args:
        first: `(B, tokens)` int32, ragged.
        second: `(B, tokens)` int32, ragged, the second text of each pair.
        cls_id, sep_id, pad_id: ids of the special tokens.
        max_sequence_length: the longest sequence in tokens, special tokens counted.
        truncation: one of `TRUNCATIONS`; a single text is cut alike by the first two.
        pad_to_length: S. Default: the longest sequence of this batch.
        pad_to_multiple: S is the batch's longest sequence rounded up to a multiple of this, or
            `max_sequence_length` where that is less.
        pad_to_buckets: S is the first of these ascending lengths that holds the batch's longest sequence.

    Returns:
        `token_ids`, `segment_ids` and `padding_mask` (1 = real token, 0 = padding), each `(B, S)` int32.

    Raises:
        InputError: a length has no room for the special tokens and a token of each text, `pad_to_length` or the
            last bucket is below `max_sequence_length`, or the settings contradict each other.
    """
    num_special = 2 if second is None else 3
    check_lengths(max_sequence_length, pad_to_length, num_texts=1 if second is None else 2)
    _check_truncation(truncation, second)
    _check_padding(max_sequence_length, pad_to_length, pad_to_multiple, pad_to_buckets)
    lengths = [None if tokens is None else tokens.row_lengths() for tokens in (first, second)]
    first_lengths, second_lengths = truncated_lengths(*lengths, max_sequence_length - num_special, truncation)
    ends = num_special + first_lengths + second_lengths  # (B, 1): where padding begins
    if pad_to_length is None:
        longest = _longest(ends, num_special)
        sequence_length = _padded_length(longest, max_sequence_length, pad_to_multiple, pad_to_buckets)
    else:
        sequence_length = pad_to_length
    positions = tf.range(sequence_length)[tf.newaxis]  # (1, S)
    first_sep = 1 + first_lengths  # (B, 1): the position of the first [SEP]
    in_first = (positions > 0) & (positions < first_sep)
    in_second = (positions > first_sep) & (positions < ends - 1)

    # Every position becomes an index into one row of candidates: A's tokens, B's tokens, [CLS], [SEP], [PAD].
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


def truncated_lengths(first, second, budget: int, truncation: str) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how many tokens of each text stay, `(B, 1)` each: at most `budget` together.

    Args:
        first, second: `(B,)` integers, the tokens of each text; `second` is None where there is one text.
        budget: tokens that fit beside the special tokens.
        truncation: one of `TRUNCATIONS`.
    """
    if second is None:
        lengths = tf.minimum(_column(first), budget)
        return lengths, tf.zeros_like(lengths)
    # tf.stack refuses two batches of different sizes, where broadcasting would pair one text with all
    first_lengths, second_lengths = tf.split(tf.cast(tf.stack([first, second], axis=1), tf.int32), 2, axis=1)
    # the tokens that B keeps however long A is; beyond them B has what A leaves
    reserved = {"longest_first": budget // 2, "only_first": budget, "only_second": 0}[truncation]
    second_lengths = tf.minimum(second_lengths, tf.maximum(reserved, budget - first_lengths))
    return tf.minimum(first_lengths, budget - second_lengths), second_lengths


def _longest(ends: tf.Tensor, num_special: int) -> tf.Tensor:
    """Returns the length of the batch's longest sequence (`num_special` for a batch without rows)."""
    return tf.reduce_max(tf.concat([tf.reshape(ends, [-1]), [num_special]], axis=0))


def _padded_length(longest: tf.Tensor, max_sequence_length: int, multiple: int | None, buckets: Sequence[int] | None):
    """Returns S for a batch whose longest sequence is `longest`."""
    if multiple is not None:
        return tf.minimum((longest + multiple - 1) // multiple * multiple, max_sequence_length)
    if buckets is not None:
        buckets = tf.constant(buckets, tf.int32)
        return tf.gather(buckets, tf.reduce_sum(tf.cast(buckets < longest, tf.int32)))
    return longest


def _column(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(values, tf.int32)[:, tf.newaxis]


def check_lengths(max_sequence_length: int, pad_to_length: int | None = None, *, num_texts: int = 1) -> None:
    """Raises `InputError` unless the lengths have room for special tokens and one token of each text."""
    shortest = 1 + 2 * num_texts
    if not is_integer(max_sequence_length, shortest):
        raise InputError(
            f"max_sequence_length is {quote(max_sequence_length)}; expected {describe_integer(shortest)}, for the "
            "special tokens and one token of each text"
        )
    if pad_to_length is not None and check_integer("pad_to_length", pad_to_length) < max_sequence_length:
        raise InputError(
            f"pad_to_length is {pad_to_length}, below max_sequence_length {max_sequence_length}; expected at least as "
            "much, since padding cuts nothing off: lower max_sequence_length too"
        )


def _check_truncation(truncation: str, second: tf.RaggedTensor | None) -> None:
    if truncation not in TRUNCATIONS:
        raise InputError(f"truncation is {truncation!r}; expected one of {', '.join(TRUNCATIONS)}")
    if truncation == "only_second" and second is None:
        raise InputError(
            "truncation is 'only_second' and there is no second text; expected pairs: give the second texts, or let "
            "truncation be 'longest_first'"
        )


def _check_padding(max_sequence_length, pad_to_length, pad_to_multiple, pad_to_buckets) -> None:
    settings = {"pad_to_length": pad_to_length, "pad_to_multiple": pad_to_multiple, "pad_to_buckets": pad_to_buckets}
    given = [name for name, value in settings.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} are given together; expected one of them at most: leave out the rest")
    if pad_to_multiple is not None:
        check_integer("pad_to_multiple", pad_to_multiple)
    if pad_to_buckets is not None:
        _check_buckets(pad_to_buckets, max_sequence_length)


def _check_buckets(buckets: Sequence[int], max_sequence_length: int) -> None:
    lengths = list(buckets) if isinstance(buckets, Sequence) else []
    is_valid = bool(lengths) and all(is_integer(length, 1) for length in lengths)
    if not is_valid or lengths != sorted(set(lengths)):
        raise InputError(
            f"pad_to_buckets is {buckets!r}; expected lengths in ascending order, each once: for example (32, 64, 128)"
        )
    if lengths[-1] < max_sequence_length:
        raise InputError(
            f"pad_to_buckets ends with {lengths[-1]}, below max_sequence_length {max_sequence_length}; expected a "
            f"bucket for the longest sequence: add {max_sequence_length}, or lower max_sequence_length"
        )
