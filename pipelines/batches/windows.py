"""Choose the tokens of each sequence: texts cut to length, or cut into windows.

`encode` does this with NumPy, an exported graph with TensorFlow. Both run the functions of this module, which use only
arithmetic and the few functions of an `ArrayLibrary`. This module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from bert_keras.checks import check_integer, describe_integer, is_integer, quote
from bert_keras.errors import InputError

if TYPE_CHECKING:
    import tensorflow as tf

    Array = np.ndarray | tf.Tensor

TRUNCATIONS = ("longest_first", "only_first", "only_second")  # Hugging Face's names


class ArrayLibrary(Protocol):
    """The functions of NumPy that are used here; `np` is one, and `packing.TENSORS` another."""

    arange: Any
    cumsum: Any
    maximum: Any
    minimum: Any
    repeat: Any
    size: Any
    take: Any
    where: Any


class TokenRanges(NamedTuple):
    """The ranges of tokens that make N sequences of one text or a pair of texts each.

    Attributes:
        examples: `(N,)` integers, the index of the text, or of the pair of texts, of each sequence.
        columns: for the first texts, and for the second texts of pairs, the start and end in tokens, `(N,)` integers.
    """

    examples: Array
    columns: list[tuple[Array, Array]]


def choose_token_ranges(
    lengths: Sequence[Array],
    *,
    max_sequence_length: int,
    window_overlap: int | None = None,
    max_first_length: int | None = None,
    library: ArrayLibrary = np,
) -> TokenRanges:
    """Choose the ranges of tokens of each sequence.

    Args:
        lengths: for each column of texts, their lengths in tokens, `(B,)` integers.
        max_sequence_length: maximum length in tokens, including special tokens.
        window_overlap: number of tokens that consecutive windows of a long text share; of a pair, the second text is
            cut into windows. None: long texts are truncated, of a pair the longer one first, as in `pack`.
        max_first_length: with windows of a pair, the maximum length of the first text. A first text that leaves no
            room for new tokens of the second is truncated to half of the sequence, or less for a large overlap.
        library: computes with the lengths.

    Raises:
        InputError: the lengths leave no room for tokens.
    """
    check_lengths(max_sequence_length, num_texts=len(lengths))
    budget = max_sequence_length - 1 - len(lengths)
    if window_overlap is None:
        second = lengths[1] if len(lengths) == 2 else None
        ends = truncate_lengths(lengths[0], second, budget, "longest_first", library=library)
        columns = [(0 * end, end) for end in ends[: len(lengths)]]
        return TokenRanges(library.arange(library.size(lengths[0])), columns)
    _check_overlap(window_overlap, budget)
    if max_first_length is not None:
        check_integer("max_first_length", max_first_length)
    return _cut_into_windows(lengths, budget, window_overlap, max_first_length, library)


def truncate_lengths(
    first: Array, second: Array | None, budget: int, truncation: str, *, library: ArrayLibrary = np
) -> tuple[Array, Array]:
    """Return the truncated length of each text. The two of a pair sum to at most `budget`.

    Args:
        first, second: integers of one shape, the length of each text in tokens; `second` is None for single texts.
        budget: maximum number of tokens without special tokens.
        truncation: one of `TRUNCATIONS`.
        library: computes with the lengths.

    Returns:
        The lengths of the first texts and of the second texts, which are 0 for single texts.
    """
    if second is None:
        return library.minimum(first, budget), 0 * first
    # the number of tokens that B keeps for any length of A; A's unused share of the budget goes to B
    reserved = {"longest_first": budget // 2, "only_first": budget, "only_second": 0}[truncation]
    second = library.minimum(second, library.maximum(reserved, budget - first))
    return library.minimum(first, budget - second), second


def check_lengths(max_sequence_length: int, pad_to_length: int | None = None, *, num_texts: int = 1) -> None:
    """Raise `InputError` unless the lengths have room for the special tokens and one token of each text."""
    shortest = 1 + 2 * num_texts
    if not is_integer(max_sequence_length, shortest):
        raise InputError(
            f"max_sequence_length is {quote(max_sequence_length)}; expected {describe_integer(shortest)}, for the "
            "special tokens and one token of each text"
        )
    if pad_to_length is not None and check_integer("pad_to_length", pad_to_length) < max_sequence_length:
        raise InputError(
            f"pad_to_length is {pad_to_length}, below max_sequence_length {max_sequence_length}; expected at least as "
            "much, since padding does not truncate: lower max_sequence_length too"
        )


def _cut_into_windows(
    lengths: Sequence[Array], budget: int, overlap: int, max_first_length: int | None, library: ArrayLibrary
) -> TokenRanges:
    last = lengths[-1]  # the texts that are cut into windows
    first = [_truncate_first(*lengths, budget, overlap, max_first_length, library)] if len(lengths) == 2 else []
    room = 0 * last + budget - (first[0] if first else 0)
    steps = library.maximum(room - overlap, 1)  # room is below the overlap only if one window holds the whole text
    num_windows = 1 + library.maximum(0, -((room - last) // steps))  # rounded up
    examples = library.repeat(library.arange(library.size(last)), num_windows)
    first_windows = library.cumsum(num_windows) - num_windows
    windows = library.arange(library.size(examples)) - library.repeat(first_windows, num_windows)
    begins = windows * library.take(steps, examples)
    ends = library.minimum(begins + library.take(room, examples), library.take(last, examples))
    columns = [(0 * begins, library.take(length, examples)) for length in first]  # repeated in every window
    return TokenRanges(examples, [*columns, (begins, ends)])


def _truncate_first(
    first: Array, second: Array, budget: int, overlap: int, max_first_length: int | None, library: ArrayLibrary
) -> Array:
    """Return the length of each pair's first text that leaves room for windows of the second, `(B,)`."""
    if max_first_length is not None:
        first = library.minimum(first, max_first_length)
    has_no_room = (first + second > budget) & (first + overlap >= budget)
    return library.where(has_no_room, min(budget // 2, budget - overlap - 1), first)


def _check_overlap(overlap: int, budget: int) -> None:
    if check_integer("window_overlap", overlap, 0) >= budget:
        raise InputError(
            f"window_overlap is {overlap}, and a window holds {budget} tokens; expected fewer, so that each window has "
            "new tokens: lower window_overlap, or raise max_sequence_length"
        )
