"""Choose the tokens of each sequence: texts cut to length, or cut into windows. Works in a graph and eagerly."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.pipelines.batches.packing import check_lengths, pack_tokens, truncated_lengths

CLS_INDEX, SEP_INDEX, PAD_INDEX = -1, -2, -3  # special tokens among the indices of tokens


class TokenRanges(NamedTuple):
    """The ranges of tokens that make N sequences of one text or a pair of texts each.

    Attributes:
        examples: `(N,)` int32, the index of the text, or of the pair of texts, of each sequence.
        columns: for the first texts, and for the second texts of pairs, the start and end in tokens, `(N,)` int32.
    """

    examples: tf.Tensor
    columns: list[tuple[tf.Tensor, tf.Tensor]]

    def indices(self, text_starts: Sequence[tf.Tensor]) -> list[tf.RaggedTensor]:
        """Return the index of each token of each sequence, `(N, tokens)` int32 for each column.

        Args:
            text_starts: for each column, the index of the first token of each text.
        """
        indices = []
        for starts, (begins, ends) in zip(text_starts, self.columns, strict=True):
            firsts = tf.gather(tf.cast(starts, tf.int32), self.examples)
            indices.append(tf.ragged.range(firsts + begins, firsts + ends, row_splits_dtype=tf.int64))
        return indices


def choose_token_ranges(
    lengths: Sequence[tf.Tensor],
    *,
    max_sequence_length: int,
    window_overlap: int | None = None,
    max_first_length: int | None = None,
) -> TokenRanges:
    """Choose the ranges of tokens of each sequence.

    Args:
        lengths: for each column of texts, their lengths in tokens, `(B,)` integers.
        max_sequence_length: maximum length in tokens, including special tokens.
        window_overlap: number of tokens that consecutive windows of a long text share; of a pair, the second text is
            cut into windows. None: long texts are truncated, of a pair the longer one first, as in `pack`.
        max_first_length: with windows of a pair, the maximum length of the first text. A first text that leaves no
            room for new tokens of the second is truncated to half of the sequence, or less for a large overlap.

    Raises:
        InputError: the lengths leave no room for tokens.
    """
    check_lengths(max_sequence_length, num_texts=len(lengths))
    budget = max_sequence_length - 1 - len(lengths)
    lengths = [tf.cast(column, tf.int32) for column in lengths]
    if window_overlap is None:
        return _truncate(lengths, budget)
    _check_overlap(window_overlap, budget)
    if max_first_length is not None:
        check_integer("max_first_length", max_first_length)
    return _cut_into_windows(lengths, budget, window_overlap, max_first_length)


def pack_indices(indices: Sequence[tf.RaggedTensor], max_sequence_length: int) -> dict[str, tf.Tensor]:
    """Pack indices of tokens like token ids (see `pack_tokens`); special tokens have negative indices."""
    special = {"cls_id": CLS_INDEX, "sep_id": SEP_INDEX, "pad_id": PAD_INDEX}
    return pack_tokens(*indices, **special, max_sequence_length=max_sequence_length)


def _truncate(lengths: list[tf.Tensor], budget: int) -> TokenRanges:
    second = lengths[1] if len(lengths) == 2 else None
    truncated = truncated_lengths(lengths[0], second, budget, "longest_first")
    columns = [(tf.zeros_like(ends[:, 0]), ends[:, 0]) for ends in truncated[: len(lengths)]]
    return TokenRanges(tf.range(tf.size(lengths[0])), columns)


def _cut_into_windows(lengths: list[tf.Tensor], budget: int, overlap: int, max_first_length: int | None) -> TokenRanges:
    last = lengths[-1]  # the texts that are cut into windows
    first = [_truncate_first(*lengths, budget, overlap, max_first_length)] if len(lengths) == 2 else []
    room = tf.fill(tf.shape(last), budget) - (first[0] if first else 0)
    steps = tf.maximum(room - overlap, 1)  # room is below the overlap only if one window holds the whole text
    num_windows = 1 + tf.maximum(0, -((room - last) // steps))  # rounded up
    examples = tf.repeat(tf.range(tf.size(last)), num_windows)
    windows = tf.range(tf.size(examples)) - tf.repeat(tf.cumsum(num_windows, exclusive=True), num_windows)
    begins = windows * tf.gather(steps, examples)
    ends = tf.minimum(begins + tf.gather(room, examples), tf.gather(last, examples))
    columns = [(tf.zeros_like(begins), tf.gather(length, examples)) for length in first]  # repeated in every window
    return TokenRanges(examples, [*columns, (begins, ends)])


def _truncate_first(
    first: tf.Tensor, second: tf.Tensor, budget: int, overlap: int, max_first_length: int | None
) -> tf.Tensor:
    """Return the length of each pair's first text that leaves room for windows of the second, `(B,)`."""
    if max_first_length is not None:
        first = tf.minimum(first, max_first_length)
    has_no_room = (first + second > budget) & (first + overlap >= budget)
    return tf.where(has_no_room, min(budget // 2, budget - overlap - 1), first)


def _check_overlap(overlap: int, budget: int) -> None:
    if check_integer("window_overlap", overlap, 0) >= budget:
        raise InputError(
            f"window_overlap is {overlap}, and a window holds {budget} tokens; expected fewer, so that each window has "
            "new tokens: lower window_overlap, or raise max_sequence_length"
        )
