"""Which tokens of which texts make each row: texts cut to length, or read in windows. In the graph, and eagerly."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from bert_keras.checks import check_integer
from bert_keras.errors import InputError
from bert_keras.pipelines.batches.packing import check_lengths, truncated_lengths


class TokenRanges(NamedTuple):
    """The ranges of N rows, of one text or two each.

    Attributes:
        examples: `(N,)` int32, the number of the text, or of the pair of texts, that a row is made of.
        columns: for the first text, and for the second where there is one, its begin and end in tokens, `(N,)` int32.
    """

    examples: tf.Tensor
    columns: list[tuple[tf.Tensor, tf.Tensor]]

    def indices(self, row_starts: Sequence[tf.Tensor]) -> list[tf.RaggedTensor]:
        """Returns the index of each token of each row, `(N, tokens)` int32 for each column.

        Args:
            row_starts: for each column, where each of its texts begins among the tokens that indices are to count.
        """
        of_columns = []
        for starts, (begins, ends) in zip(row_starts, self.columns, strict=True):
            firsts = tf.gather(tf.cast(starts, tf.int32), self.examples)
            of_columns.append(tf.ragged.range(firsts + begins, firsts + ends, row_splits_dtype=tf.int64))
        return of_columns


def choose_token_ranges(
    lengths: Sequence[tf.Tensor],
    *,
    max_sequence_length: int,
    window_overlap: int | None = None,
    max_first_length: int | None = None,
) -> TokenRanges:
    """Returns what rows are made of texts, or of pairs of them.

    Args:
        lengths: for each column of texts `(B,)` integers, their tokens.
        max_sequence_length: the longest row in tokens, special tokens counted.
        window_overlap: None: longer texts are cut, of a pair the longer one first, as `pack` does. A number: the text,
            of a pair the second one, is read in windows that share so many tokens with the one before.
        max_first_length: in windows of a pair, the tokens of the first text that are kept. A first text that would
            leave no room for new tokens of the second is cut to half of the row, less if `window_overlap` asks for it.

    Raises:
        InputError: the lengths leave no room.
    """
    check_lengths(max_sequence_length, num_texts=len(lengths))
    budget = max_sequence_length - 1 - len(lengths)
    lengths = [tf.cast(of_column, tf.int32) for of_column in lengths]
    if window_overlap is None:
        return _whole(lengths, budget)
    _check_overlap(window_overlap, budget)
    if max_first_length is not None:
        check_integer("max_first_length", max_first_length)
    return _windows(lengths, budget, window_overlap, max_first_length)


def _whole(lengths: list[tf.Tensor], budget: int) -> TokenRanges:
    kept = truncated_lengths(lengths[0], lengths[1] if len(lengths) == 2 else None, budget, "longest_first")
    columns = [(tf.zeros_like(ends[:, 0]), ends[:, 0]) for ends in kept[: len(lengths)]]
    return TokenRanges(tf.range(tf.size(lengths[0])), columns)


def _windows(lengths: list[tf.Tensor], budget: int, overlap: int, max_first_length: int | None) -> TokenRanges:
    last = lengths[-1]
    fixed = [_kept_of_first(*lengths, budget, overlap, max_first_length)] if len(lengths) == 2 else []
    room = tf.fill(tf.shape(last), budget) - (fixed[0] if fixed else 0)
    steps = tf.maximum(room - overlap, 1)  # less than 1 where one row holds all
    counts = 1 + tf.maximum(0, -((room - last) // steps))  # rounded up
    examples = tf.repeat(tf.range(tf.size(last)), counts)
    numbers = tf.range(tf.size(examples)) - tf.repeat(tf.cumsum(counts, exclusive=True), counts)
    begins = numbers * tf.gather(steps, examples)
    ends = tf.minimum(begins + tf.gather(room, examples), tf.gather(last, examples))
    firsts = [(tf.zeros_like(begins), tf.gather(kept, examples)) for kept in fixed]  # it stands in every window
    return TokenRanges(examples, [*firsts, (begins, ends)])


def _kept_of_first(firsts, seconds, budget: int, overlap: int, max_first_length: int | None) -> tf.Tensor:
    """Returns how many tokens of the first text of each pair are kept, so that windows of the second have room."""
    if max_first_length is not None:
        firsts = tf.minimum(firsts, max_first_length)
    leaves_none = (firsts + seconds > budget) & (firsts + overlap >= budget)
    return tf.where(leaves_none, min(budget // 2, budget - overlap - 1), firsts)


def _check_overlap(overlap: int, budget: int) -> None:
    if check_integer("window_overlap", overlap, 0) >= budget:
        raise InputError(
            f"windows of {budget} tokens that share {overlap} leave no room for new ones; expected a smaller "
            "window_overlap, or a longer max_sequence_length"
        )
