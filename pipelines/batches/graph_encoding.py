"""Tokenized texts to sequences inside a TensorFlow graph: the counterpart of `encode` for exported models."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from bert_keras.pipelines.batches.packing import TENSORS, pack_tokens
from bert_keras.pipelines.batches.windows import choose_token_ranges
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_CLS_INDEX, _SEP_INDEX, _PAD_INDEX = -1, -2, -3  # special tokens among the indices of tokens


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
    special = {"cls_id": _CLS_INDEX, "sep_id": _SEP_INDEX, "pad_id": _PAD_INDEX}
    packed = pack_tokens(*indices, **special, max_sequence_length=max_sequence_length)
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
