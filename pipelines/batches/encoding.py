"""`encode`: tokenize texts, or pairs of texts, once and turn them into sequences, truncated or cut into windows.

Fine-tuning reads the same texts in every epoch and needs their lengths in advance, so all sequences stay in memory
without padding: 8 bytes per token, and 16 more with offsets.

`choose_token_ranges` chooses the tokens of each sequence, here with NumPy and in exported graphs with TensorFlow. It
uses only arithmetic and eight functions of NumPy, which `packing.TENSORS` has too. This module does not import
TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bert_keras.checks import check_integer, describe_integer, is_integer, quote
from bert_keras.errors import InputError
from bert_keras.pipelines.text.token_arrays import TokenArrays

if TYPE_CHECKING:
    import tensorflow as tf

    from bert_keras.pipelines.text.portable_tokenizer import PortableTokenizer
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

    Array = np.ndarray | tf.Tensor
    Tokenizer = BertTokenizer | PortableTokenizer

_CLS_INDEX, _SEP_INDEX = -1, -2  # special tokens among the indices of tokens
_OFFSETS = ("starts", "ends", "word_starts", "word_ends")
_TOKEN_COLUMNS = ("token_ids", "text_positions", *_OFFSETS)
TRUNCATIONS = ("longest_first", "only_first", "only_second")  # Hugging Face's names


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedSequences:
    """N sequences, `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`, concatenated without padding to P tokens.

    Attributes:
        token_ids: `(P,)` int32.
        row_splits: `(N + 1,)` int64; sequence n is `token_ids[row_splits[n]:row_splits[n + 1]]`.
        second_starts: `(N,)` int32, the position of the second text in each sequence; the length of the sequence if
            it has no second text.
        examples: `(N,)` int64, the index of each sequence's text. All windows of a text have the same index.
        text_positions: `(P,)` int32, the position of each token in its text; -1 for special tokens.
        pad_id: the id of [PAD].
        starts, ends: `(P,)` int32, the range of characters of each token in its text; -1 for special tokens. None
            unless offsets were requested.
        word_starts, word_ends: the same for the whole word of each token. A punctuation mark is a word.
        prompt_lengths: `(N,)` int32, the number of leading tokens of each sequence that a sentence vector excludes.
            None: no tokens are excluded.
    """

    token_ids: np.ndarray
    row_splits: np.ndarray
    second_starts: np.ndarray
    examples: np.ndarray
    text_positions: np.ndarray
    pad_id: int
    starts: np.ndarray | None = None
    ends: np.ndarray | None = None
    word_starts: np.ndarray | None = None
    word_ends: np.ndarray | None = None
    prompt_lengths: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.examples)

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """Length of each sequence in tokens, including special tokens, `(N,)`."""
        return self.row_splits[1:] - self.row_splits[:-1]

    @property
    def sequence_indices(self) -> np.ndarray:
        """Index of each token's sequence, `(P,)`."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def is_second(self) -> np.ndarray:
        """Whether each token, `(P,)`, belongs to the second text or is its [SEP]."""
        positions = np.arange(len(self.token_ids)) - self.row_splits[:-1][self.sequence_indices]
        return positions >= self.second_starts[self.sequence_indices]

    def slice(self, begin: int, end: int) -> EncodedSequences:
        """Return the sequences `begin` to `end`; their examples are numbered from 0."""
        row_splits = self.row_splits[begin : end + 1]
        tokens = slice(row_splits[0], row_splits[-1])
        columns = [(name, getattr(self, name)) for name in _TOKEN_COLUMNS]
        return EncodedSequences(
            row_splits=row_splits - row_splits[0],
            second_starts=self.second_starts[begin:end],
            examples=self.examples[begin:end] - (self.examples[begin] if end > begin else 0),
            pad_id=self.pad_id,
            prompt_lengths=None if self.prompt_lengths is None else self.prompt_lengths[begin:end],
            **{name: None if values is None else values[tokens] for name, values in columns},
        )

    @staticmethod
    def concatenate(parts: Sequence[EncodedSequences]) -> EncodedSequences:
        """Return the sequences of all parts, with their examples numbered consecutively.

        Args:
            parts: sequences of one tokenizer, with at least one sequence per example; all of them, or none, have
                offsets and prompt lengths.
        """
        if len(parts) == 1:
            return parts[0]
        num_examples = [int(part.examples[-1]) + 1 if len(part) else 0 for part in parts]
        first_examples = np.cumsum([0, *num_examples[:-1]])
        names = (*_TOKEN_COLUMNS, "second_starts", "prompt_lengths")
        columns = {name: [getattr(part, name) for part in parts] for name in names}
        return EncodedSequences(
            row_splits=np.cumsum(np.concatenate([[0], *(part.lengths for part in parts)])),
            examples=np.concatenate([part.examples + first for part, first in zip(parts, first_examples, strict=True)]),
            pad_id=parts[0].pad_id,
            **{name: None if values[0] is None else np.concatenate(values) for name, values in columns.items()},
        )


def encode(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    second_texts: Sequence[str] | None = None,
    *,
    max_sequence_length: int,
    window_overlap: int | None = None,
    max_first_length: int | None = None,
    with_offsets: bool = False,
) -> EncodedSequences:
    """Tokenize texts, or pairs of texts, and turn them into sequences.

    Args:
        tokenizer: a `BertTokenizer` or a `PortableTokenizer`.
        texts: the texts.
        second_texts: the second text of each pair.
        max_sequence_length: maximum length in tokens, including special tokens.
        window_overlap: number of tokens that consecutive windows of a long text share; of a pair, the second text is
            cut into windows. None: long texts are truncated, of a pair the longer one first, as in `pack`.
        max_first_length: with windows of a pair, the maximum length of the first text. A first text that leaves no
            room for new tokens of the second is truncated to half of the sequence, or less for a large overlap.
        with_offsets: whether to compute the range of characters of each token.

    Returns:
        The sequences in the order of the texts, the windows of each text in their order.

    Raises:
        InputError: a text is not a string, a second text is missing, or the lengths leave no room for tokens.

    Example:
        >>> tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
        >>> sequences = encode(tokenizer, ["Playing", "play play play play"], max_sequence_length=5)
        >>> sequences.lengths.tolist()
        [4, 5]
    """
    if second_texts is not None and len(texts) != len(second_texts):
        raise InputError(
            f"there are {len(texts)} texts and {len(second_texts)} second texts; expected a second text for each"
        )
    columns = [
        tokenizer.tokenize_to_arrays(column, with_offsets=with_offsets)
        for column in (texts, second_texts)
        if column is not None
    ]
    ranges = choose_token_ranges(
        [column.lengths for column in columns],
        max_sequence_length=max_sequence_length,
        window_overlap=window_overlap,
        max_first_length=max_first_length,
    )
    indices, lengths = _pack(columns, ranges)
    first_lengths = ranges.columns[0][1] - ranges.columns[0][0]
    return EncodedSequences(
        row_splits=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        second_starts=(lengths if second_texts is None else 2 + first_lengths).astype(np.int32),
        examples=ranges.examples.astype(np.int64),
        pad_id=tokenizer.pad_id,
        **_look_up(tokenizer, columns, indices, with_offsets),
    )


def has_most_context(sequences: EncodedSequences) -> np.ndarray:
    """Return whether each token, `(P,)`, has more context in its sequence than in any other window.

    Context is the number of tokens on the shorter side plus 0.01 times the length of the window, as in Google's
    `run_squad.py`. False for special tokens and for the first texts of pairs.
    """
    has_no_second = (sequences.second_starts == sequences.lengths)[sequences.sequence_indices]
    is_windowed = (sequences.text_positions >= 0) & (sequences.is_second | has_no_second)
    places = np.flatnonzero(is_windowed)
    indices, positions = sequences.sequence_indices[places], sequences.text_positions[places]
    firsts, lasts = _find_bounds(positions, indices, len(sequences))
    context = np.minimum(positions - firsts[indices], lasts[indices] - positions)
    context = context + 0.01 * (lasts - firsts + 1)[indices]
    examples = sequences.examples[indices]
    order = np.lexsort((indices, -context, positions, examples))  # the best sequence of each token comes first
    keys = np.stack([examples[order], positions[order]])
    is_best = np.ones(len(order), bool)
    is_best[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    best = np.zeros(len(sequences.token_ids), bool)
    best[places[order[is_best]]] = True
    return best


def _pack(columns: Sequence[TokenArrays], ranges: TokenRanges) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of each packed token, `(P,)`, and the length of each sequence, `(N,)`.

    Indices count the tokens of all columns; those of special tokens are negative.
    """
    offsets = np.cumsum([0, *(len(column.token_ids) for column in columns)])
    single = np.ones(len(ranges.examples), np.int64)
    starts, lengths = [_CLS_INDEX * single], [single]  # of the parts of each sequence: [CLS], A, [SEP], B, [SEP]
    for column, offset, (begins, ends) in zip(columns, offsets, ranges.columns, strict=False):
        starts += [offset + column.row_splits[ranges.examples] + begins, _SEP_INDEX * single]
        lengths += [ends - begins, single]
    part_starts, part_lengths = np.stack(starts, axis=1).ravel(), np.stack(lengths, axis=1).ravel()
    part_ends = np.cumsum(part_lengths)
    indices = np.arange(part_lengths.sum()) + np.repeat(part_starts - (part_ends - part_lengths), part_lengths)
    return indices, sum(lengths)


def _look_up(
    tokenizer: Tokenizer, columns: Sequence[TokenArrays], indices: np.ndarray, with_offsets: bool
) -> dict[str, np.ndarray]:
    """Return the id, position and offsets of each packed token, `(P,)` int32 each."""
    special = np.zeros(2, np.int32)
    special[[_CLS_INDEX, _SEP_INDEX]] = tokenizer.cls_id, tokenizer.sep_id
    absent = np.full(2, -1)
    names = ("text_positions", *(_OFFSETS if with_offsets else ()))
    special_columns = {"token_ids": special} | dict.fromkeys(names, absent)
    # special tokens are last, so a negative index finds them
    return {
        name: np.concatenate([*(getattr(column, name) for column in columns), values]).astype(np.int32)[indices]
        for name, values in special_columns.items()
    }


def _find_bounds(positions: np.ndarray, indices: np.ndarray, num_sequences: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest text position in each sequence, `(N,)` each."""
    firsts = np.full(num_sequences, np.iinfo(np.int32).max, np.int64)
    lasts = np.full(num_sequences, -1, np.int64)
    np.minimum.at(firsts, indices, positions)
    np.maximum.at(lasts, indices, positions)
    return firsts, lasts


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
    library: Any = np,
) -> TokenRanges:
    """Choose the ranges of tokens of each sequence.

    Args:
        lengths: for each column of texts, their lengths in tokens, `(B,)` integers.
        max_sequence_length, window_overlap, max_first_length: see `encode`.
        library: computes with the lengths: `np` or `packing.TENSORS`.

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
    if check_integer("window_overlap", window_overlap, 0) >= budget:
        raise InputError(
            f"window_overlap is {window_overlap}, and a window holds {budget} tokens; expected fewer, so that each "
            "window has new tokens: lower window_overlap, or raise max_sequence_length"
        )
    if max_first_length is not None:
        check_integer("max_first_length", max_first_length)
    return _cut_into_windows(lengths, budget, window_overlap, max_first_length, library)


def truncate_lengths(
    first: Array, second: Array | None, budget: int, truncation: str, *, library: Any = np
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
    lengths: Sequence[Array], budget: int, overlap: int, max_first_length: int | None, library: Any
) -> TokenRanges:
    last = lengths[-1]  # the texts that are cut into windows
    room = 0 * last + budget
    if first := list(lengths[:-1]):  # the length of the first text of each pair that leaves room for the second
        if max_first_length is not None:
            first = [library.minimum(first[0], max_first_length)]
        has_no_room = (first[0] + last > budget) & (first[0] + overlap >= budget)
        first = [library.where(has_no_room, min(budget // 2, budget - overlap - 1), first[0])]
        room = room - first[0]
    steps = library.maximum(room - overlap, 1)  # room is below the overlap only if one window holds the whole text
    num_windows = 1 + library.maximum(0, -((room - last) // steps))  # rounded up
    examples = library.repeat(library.arange(library.size(last)), num_windows)
    first_windows = library.cumsum(num_windows) - num_windows
    windows = library.arange(library.size(examples)) - library.repeat(first_windows, num_windows)
    begins = windows * library.take(steps, examples)
    ends = library.minimum(begins + library.take(room, examples), library.take(last, examples))
    columns = [(0 * begins, library.take(length, examples)) for length in first]  # repeated in every window
    return TokenRanges(examples, [*columns, (begins, ends)])
