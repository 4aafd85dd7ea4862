"""Texts to rows of model inputs within a graph: what `encode` makes of a file, made of a batch by TensorFlow alone."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from bert_keras.pipelines.batches.packing import pack_tokens
from bert_keras.pipelines.batches.windows import choose_token_ranges

_CLS, _SEP, _PAD = -1, -2, -3  # stand for special tokens among the indices of tokens


class EncodedBatch(NamedTuple):
    """R rows of S tokens, made of B texts or pairs of texts.

    Attributes:
        features: `token_ids`, `segment_ids` and `padding_mask`, `(R, S)` int32.
        examples: `(R,)` int32, ascending: the number of the text that a row was made of.
        tokens: `(R, S)` int32, the index of each token among those of all first texts, and behind them of all second
            texts; below 0: a special token or padding.
        windowed: `(R, S)` bool, whether a token is one of the text that is read in windows, of a pair the second one.
    """

    features: dict[str, tf.Tensor]
    examples: tf.Tensor
    tokens: tf.Tensor
    windowed: tf.Tensor


def encode_in_graph(
    tokenizer,
    columns: Sequence[tf.RaggedTensor],
    *,
    max_sequence_length: int,
    window_overlap: int | None = None,
    max_first_length: int | None = None,
) -> EncodedBatch:
    """Returns the rows of tokenized texts, or of pairs of them; see `choose_token_ranges` for the lengths.

    Args:
        tokenizer: a `BertTokenizer`, for the ids of its special tokens.
        columns: the tokens of the texts, and of the second texts where they are pairs: `(B, tokens)` int32, ragged.
    """
    ranges = choose_token_ranges(
        [column.row_lengths() for column in columns],
        max_sequence_length=max_sequence_length,
        window_overlap=window_overlap,
        max_first_length=max_first_length,
    )
    offsets = [0, tf.size(columns[0].flat_values)]
    indices = ranges.indices([tf.cast(c.row_starts(), tf.int32) + o for c, o in zip(columns, offsets, strict=False)])
    packed = pack_tokens(*indices, cls_id=_CLS, sep_id=_SEP, pad_id=_PAD, max_sequence_length=max_sequence_length)
    tokens = packed.pop("token_ids")
    special = [tokenizer.pad_id, tokenizer.sep_id, tokenizer.cls_id]
    ids = tf.concat([special, *(column.flat_values for column in columns)], axis=0)
    features = {"token_ids": tf.gather(ids, tokens + len(special)), **packed}
    in_windowed = offsets[len(columns) - 1]
    return EncodedBatch(features, ranges.examples, tokens, (tokens >= 0) & (tokens >= in_windowed))


def has_most_context_in_graph(rows: EncodedBatch) -> tf.Tensor:
    """Returns for each token `(R, S)` whether its row is the one in which it has the most context.

    The rule of `has_most_context`: the more tokens on the side where there are fewer, and a bit for the length of the
    window; of equals the first window.
    """
    length = tf.reduce_sum(tf.cast(rows.windowed, tf.int32), axis=1, keepdims=True)  # (R, 1)
    place = tf.cumsum(tf.cast(rows.windowed, tf.int32), axis=1) - 1  # of each token in its window
    # in hundredths, the bit for the length being 0.01 of it
    context = 100 * tf.minimum(place, length - 1 - place) + length
    number = 1 + tf.maximum(tf.reduce_max(rows.tokens), -1)
    flat = tf.where(rows.windowed, rows.tokens, number)  # those that do not count together, behind all others
    best = tf.math.unsorted_segment_max(context, flat, number + 1)
    is_best = rows.windowed & (context == tf.gather(best, flat))
    row_numbers = tf.broadcast_to(tf.range(tf.shape(flat)[0])[:, tf.newaxis], tf.shape(flat))
    first = tf.math.unsorted_segment_min(tf.where(is_best, row_numbers, tf.int32.max), flat, number + 1)
    return is_best & (row_numbers == tf.gather(first, flat))
