"""Tokens to model inputs: `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`, truncated and padded.

Records, `tf.data` pipelines and exported models share this implementation. It uses only `tf.gather`, `tf.where` and
arithmetic, so it runs in every TensorFlow runtime that has the tokenizer: a SavedModel with all its modes, written by
TensorFlow 2.21, gives the same numbers in 2.13. `encode_in_graph` is the counterpart of `encode` for exported models,
with windows.
"""

import types
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from bert_keras.checks import check_integer, is_integer
from bert_keras.errors import InputError
from bert_keras.pipelines.batches.encoding import TRUNCATIONS, check_lengths, choose_token_ranges, truncate_lengths
from bert_keras.pipelines.text.tokenizer import BertTokenizer

TENSORS = types.SimpleNamespace(  # the functions of NumPy that `encoding` uses
    arange=tf.range,
    cumsum=tf.cumsum,
    maximum=tf.maximum,
    minimum=tf.minimum,
    repeat=tf.repeat,
    size=tf.size,
    take=tf.gather,
    where=tf.where,
)
_CLS_INDEX, _SEP_INDEX, _PAD_INDEX = -1, -2, -3  # special tokens among the indices of tokens


def pack(
    tokenizer: BertTokenizer,
    texts: Sequence[str] | tf.Tensor,
    second_texts: Sequence[str] | tf.Tensor | None = None,
    *,
    max_sequence_length: int,
    truncation: str = "longest_first",
    pad_to_length: int | None = None,
    pad_to_multiple: int | None = None,
    pad_to_buckets: Sequence[int] | None = None,
    keep_special_tokens: bool = False,
) -> dict[str, tf.Tensor]:
    """Tokenize texts, or pairs of texts, and pack them into model inputs.

    Args:
        tokenizer: a `BertTokenizer`.
        texts: `(B,)` strings.
        second_texts: `(B,)` strings, the second text of each pair.
        max_sequence_length: maximum length in tokens, including special tokens; longer sequences are truncated.
        truncation: which text of a pair is truncated: "longest_first", "only_first" or "only_second", see
            `pack_tokens`.
        pad_to_length: S, the length of all sequences. Default: the longest sequence of the batch.
        pad_to_multiple: S is the longest sequence of the batch rounded up to a multiple of this number, at most
            `max_sequence_length`.
        pad_to_buckets: S is the first of these ascending lengths that holds the longest sequence of the batch. At
            most one of the three `pad_to` arguments may be given.
        keep_special_tokens: whether special tokens written in a text, such as "[MASK]", stay whole (see
            `BertTokenizer.tokenize`).

    Returns:
        `token_ids`, `segment_ids` and `padding_mask` (1 = real token, 0 = padding), each `(B, S)` int32.

    Raises:
        InputError: a length leaves no room for tokens, or the arguments contradict each other.

    Example:
        >>> tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
        >>> features = bk.pack(tokenizer, ["Playing", "play"], max_sequence_length=16)
        >>> features["token_ids"].numpy().tolist(), features["padding_mask"].numpy().tolist()
        ([[2, 5, 6, 3], [2, 5, 3, 0]], [[1, 1, 1, 1], [1, 1, 1, 0]])
    """
    first, second = (
        None if column is None else tokenizer.tokenize(column, keep_special_tokens=keep_special_tokens)
        for column in (texts, second_texts)
    )
    return pack_tokens(
        first,
        second,
        special_ids=(tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id),
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
    special_ids: tuple[int, int, int],
    max_sequence_length: int,
    truncation: str = "longest_first",
    pad_to_length: int | None = None,
    pad_to_multiple: int | None = None,
    pad_to_buckets: Sequence[int] | None = None,
) -> dict[str, tf.Tensor]:
    """Pack tokenized texts, or pairs of them, into model inputs.

    A text that is too long loses tokens from its end. In a pair,

    - "longest_first" removes tokens from the longer text, from the second if both are equally long, as Google's
      `_truncate_seq_pair` did when BERT was trained. Hugging Face's `tokenizers` differs by one token if both texts
      are truncated, the number of tokens is odd and A is not the longer text: it gives the odd token to B;
    - "only_first" and "only_second" truncate that text and keep the other, as in Hugging Face. If the whole text
      would have to go, Hugging Face raises an error. Here it is removed entirely, and the other text is truncated too
      if it does not fit alone, so that every sequence fits into `max_sequence_length`.

    Args:
        first: `(B, tokens)` int32, ragged.
        second: `(B, tokens)` int32, ragged, the second text of each pair.
        special_ids: the ids of [CLS], [SEP] and [PAD].
        max_sequence_length: maximum length in tokens, including special tokens.
        truncation: one of `TRUNCATIONS`. The first two are the same for single texts.
        pad_to_length, pad_to_multiple, pad_to_buckets: see `pack`.

    Returns:
        `token_ids`, `segment_ids` and `padding_mask` (1 = real token, 0 = padding), each `(B, S)` int32.

    Raises:
        InputError: a length leaves no room for the special tokens and one token of each text, `pad_to_length` or the
            last bucket is below `max_sequence_length`, or the arguments contradict each other.
    """
    num_special = 2 if second is None else 3
    check_lengths(max_sequence_length, pad_to_length, num_texts=1 if second is None else 2)
    if truncation not in TRUNCATIONS:
        raise InputError(f"truncation is {truncation!r}; expected one of {', '.join(TRUNCATIONS)}")
    if truncation == "only_second" and second is None:
        raise InputError(
            "truncation is 'only_second', but there is no second text; expected pairs: pass second_texts, or use "
            "truncation='longest_first'"
        )
    _check_padding(max_sequence_length, pad_to_length, pad_to_multiple, pad_to_buckets)
    lengths = _get_lengths(first, second)
    first_lengths, second_lengths = truncate_lengths(
        *lengths, max_sequence_length - num_special, truncation, library=tf
    )
    ends = num_special + first_lengths + second_lengths  # (B, 1): where padding starts
    if pad_to_length is None:
        pad_to_length = _get_padded_length(ends, num_special, max_sequence_length, pad_to_multiple, pad_to_buckets)
    positions = tf.range(pad_to_length)[tf.newaxis]  # (1, S)
    first_sep = 1 + first_lengths  # (B, 1): the position of the first [SEP]
    return {
        "token_ids": _gather_ids(first, second, positions, first_sep, ends, special_ids),
        "segment_ids": tf.cast((positions > first_sep) & (positions < ends), tf.int32),
        "padding_mask": tf.cast(positions < ends, tf.int32),
    }


def _get_lengths(first: tf.RaggedTensor, second: tf.RaggedTensor | None) -> list[tf.Tensor | None]:
    """Return the length of each text in tokens, `(B, 1)` int32; None for single texts' second texts."""
    if second is None:
        return [_to_column(first.row_lengths()), None]
    # tf.stack rejects columns of different sizes; broadcasting would pair one text with all others
    lengths = tf.stack([first.row_lengths(), second.row_lengths()], axis=1)
    return tf.split(tf.cast(lengths, tf.int32), 2, axis=1)


def _gather_ids(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None,
    positions: tf.Tensor,
    first_sep: tf.Tensor,
    ends: tf.Tensor,
    special_ids: tuple[int, int, int],
) -> tf.Tensor:
    """Return the token ids `(B, S)` by one lookup in [all tokens of A, all tokens of B, [CLS], [SEP], [PAD]]."""
    table = [first.flat_values, [] if second is None else second.flat_values, special_ids]
    table = tf.concat([tf.cast(part, tf.int32) for part in table], axis=0)
    pad_index = tf.size(table) - 1
    index = tf.where(positions < ends, pad_index - 1, pad_index)  # [SEP], until a text replaces it
    index = tf.where(positions == 0, pad_index - 2, index)
    in_first = (positions > 0) & (positions < first_sep)
    index = tf.where(in_first, _to_column(first.row_starts()) + positions - 1, index)
    if second is not None:
        in_second = (positions > first_sep) & (positions < ends - 1)
        second_starts = tf.size(first.flat_values) + _to_column(second.row_starts())
        index = tf.where(in_second, second_starts + positions - first_sep - 1, index)
    return tf.gather(table, index)


def _get_padded_length(
    ends: tf.Tensor, num_special: int, max_sequence_length: int, multiple: int | None, buckets: Sequence[int] | None
) -> tf.Tensor:
    """Return S for sequences of the lengths `ends`; an empty batch counts as a sequence of special tokens."""
    longest = tf.reduce_max(tf.concat([tf.reshape(ends, [-1]), [num_special]], axis=0))
    if multiple is not None:
        return tf.minimum((longest + multiple - 1) // multiple * multiple, max_sequence_length)
    if buckets is not None:
        buckets = tf.constant(buckets, tf.int32)
        return tf.gather(buckets, tf.reduce_sum(tf.cast(buckets < longest, tf.int32)))
    return longest


def _to_column(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(values, tf.int32)[:, tf.newaxis]


def _check_padding(
    max_sequence_length: int,
    pad_to_length: int | None,
    pad_to_multiple: int | None,
    pad_to_buckets: Sequence[int] | None,
) -> None:
    settings = {"pad_to_length": pad_to_length, "pad_to_multiple": pad_to_multiple, "pad_to_buckets": pad_to_buckets}
    given = [name for name, value in settings.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} are given together; expected at most one of them: leave out the rest")
    if pad_to_multiple is not None:
        check_integer("pad_to_multiple", pad_to_multiple)
    if pad_to_buckets is None:
        return
    lengths = list(pad_to_buckets) if isinstance(pad_to_buckets, Sequence) else []
    is_valid = bool(lengths) and all(is_integer(length, 1) for length in lengths)
    if not is_valid or lengths != sorted(set(lengths)):
        raise InputError(
            f"pad_to_buckets is {pad_to_buckets!r}; expected distinct lengths in ascending order, for example "
            "(32, 64, 128)"
        )
    if lengths[-1] < max_sequence_length:
        raise InputError(
            f"pad_to_buckets ends with {lengths[-1]}, below max_sequence_length {max_sequence_length}; expected a "
            f"bucket for the longest sequence: add {max_sequence_length}, or lower max_sequence_length"
        )


class EncodedBatch(NamedTuple):
    """R sequences of S tokens made of B texts or pairs of texts.

    Attributes:
        features: `token_ids`, `segment_ids` and `padding_mask` (1 = real token, 0 = padding), `(R, S)` int32.
        examples: `(R,)` int32, ascending: the index of each sequence's text.
        tokens: `(R, S)` int32, the index of each token among the tokens of all first texts, followed by those of all
            second texts; negative for special tokens and padding.
        windowed: `(R, S)` bool, the tokens of the text that is cut into windows: the second text of a pair.
    """

    features: dict[str, tf.Tensor]
    examples: tf.Tensor
    tokens: tf.Tensor
    windowed: tf.Tensor


def encode_in_graph(
    tokenizer: BertTokenizer,
    columns: Sequence[tf.RaggedTensor],
    *,
    max_sequence_length: int,
    window_overlap: int | None = None,
    max_first_length: int | None = None,
) -> EncodedBatch:
    """Make sequences of tokenized texts or pairs of texts. See `choose_token_ranges` for the lengths.

    Args:
        tokenizer: a `BertTokenizer`, for the ids of its special tokens.
        columns: the tokens of the texts, and of the second texts of pairs: `(B, tokens)` int32, ragged.
    """
    ranges = choose_token_ranges(
        [tf.cast(column.row_lengths(), tf.int32) for column in columns],
        max_sequence_length=max_sequence_length,
        window_overlap=window_overlap,
        max_first_length=max_first_length,
        library=TENSORS,
    )
    offsets = [0, tf.size(columns[0].flat_values)]
    indices = []  # of each token of each sequence, ragged (R, tokens) for each column
    for column, offset, (begins, ends) in zip(columns, offsets, ranges.columns, strict=False):
        text_starts = tf.cast(column.row_starts(), tf.int32) + offset
        firsts = tf.gather(text_starts, ranges.examples)
        indices.append(tf.ragged.range(firsts + begins, firsts + ends, row_splits_dtype=tf.int64))
    special = (_CLS_INDEX, _SEP_INDEX, _PAD_INDEX)
    packed = pack_tokens(*indices, special_ids=special, max_sequence_length=max_sequence_length)
    tokens = packed.pop("token_ids")
    special_ids = [tokenizer.pad_id, tokenizer.sep_id, tokenizer.cls_id]  # the indices -3, -2 and -1
    ids = tf.concat([special_ids, *(column.flat_values for column in columns)], axis=0)
    features = {"token_ids": tf.gather(ids, tokens + len(special_ids)), **packed}
    first_windowed = offsets[len(columns) - 1]
    return EncodedBatch(features, ranges.examples, tokens, (tokens >= 0) & (tokens >= first_windowed))


def has_most_context_in_graph(batch: EncodedBatch) -> tf.Tensor:
    """Return whether each token `(R, S)` has more context in its sequence than in any other, as `has_most_context`.

    Context is the number of tokens on the shorter side plus 0.01 times the length of the window; the first of equal
    windows wins.
    """
    windowed = tf.cast(batch.windowed, tf.int32)
    length = tf.reduce_sum(windowed, axis=1, keepdims=True)  # (R, 1)
    position = tf.cumsum(windowed, axis=1) - 1  # in the window, (R, S)
    context = 100 * tf.minimum(position, length - 1 - position) + length  # in hundredths
    num_tokens = 1 + tf.maximum(tf.reduce_max(batch.tokens), -1)
    tokens = tf.where(batch.windowed, batch.tokens, num_tokens)  # all other positions share the last segment
    best = tf.math.unsorted_segment_max(context, tokens, num_tokens + 1)
    is_best = batch.windowed & (context == tf.gather(best, tokens))
    sequences = tf.broadcast_to(tf.range(tf.shape(tokens)[0])[:, tf.newaxis], tf.shape(tokens))
    first = tf.math.unsorted_segment_min(tf.where(is_best, sequences, tf.int32.max), tokens, num_tokens + 1)
    return is_best & (sequences == tf.gather(first, tokens))
