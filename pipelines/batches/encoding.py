"""`encode`: tokenize texts, or pairs of texts, once and turn them into sequences, truncated or cut into windows.

Fine-tuning reads the same texts in every epoch and needs their lengths in advance, so all sequences stay in memory
without padding: 8 bytes per token, and 16 more with offsets.

TensorFlow is imported when texts are encoded, so a command can read and check its files before that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_keras.errors import InputError

if TYPE_CHECKING:
    from bert_keras.pipelines.batches.windows import TokenRanges
    from bert_keras.pipelines.text.tokenizer import BertTokenizer, Tokens

_SEQUENCES_PER_CHUNK = 4096  # packed at once, padded to the longest of them: 25 MB at 512 tokens
_OFFSETS = ("starts", "ends", "word_starts", "word_ends")


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

    @property
    def lengths(self) -> np.ndarray:
        """Length of each sequence in tokens, including special tokens, `(N,)`."""
        return np.diff(self.row_splits)

    @property
    def sequence_indices(self) -> np.ndarray:
        """Index of each token's sequence, `(P,)`."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def is_second(self) -> np.ndarray:
        """Whether each token, `(P,)`, belongs to the second text or is its [SEP]."""
        positions = np.arange(len(self.token_ids)) - self.row_splits[:-1][self.sequence_indices]
        return positions >= self.second_starts[self.sequence_indices]


def encode(
    tokenizer: BertTokenizer,
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
        tokenizer: a `BertTokenizer`.
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
        >>> sequences = encode(tokenizer, ["Playing", "the unaffable"], max_sequence_length=5)
        >>> sequences.lengths.tolist()
        [4, 5]
    """
    from bert_keras.pipelines.batches.windows import choose_token_ranges

    if second_texts is not None and len(texts) != len(second_texts):
        raise InputError(
            f"there are {len(texts)} texts and {len(second_texts)} second texts; expected a second text for each"
        )
    columns = [
        _TokenizedTexts.tokenize(tokenizer, column, with_offsets)
        for column in (texts, second_texts)
        if column is not None
    ]
    ranges = choose_token_ranges(
        [column.lengths for column in columns],
        max_sequence_length=max_sequence_length,
        window_overlap=window_overlap,
        max_first_length=max_first_length,
    )
    indices, lengths, second_starts = _pack_in_chunks(columns, ranges, max_sequence_length)
    return EncodedSequences(
        row_splits=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        second_starts=second_starts.astype(np.int32),
        examples=ranges.examples.numpy().astype(np.int64),
        pad_id=tokenizer.pad_id,
        **_look_up(tokenizer, columns, indices),
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


@dataclasses.dataclass(frozen=True, eq=False)
class _TokenizedTexts:
    """The tokens of a column of texts, concatenated."""

    token_ids: np.ndarray
    row_splits: np.ndarray
    starts: np.ndarray | None = None
    ends: np.ndarray | None = None
    word_starts: np.ndarray | None = None
    word_ends: np.ndarray | None = None

    @classmethod
    def tokenize(cls, tokenizer: BertTokenizer, texts: Sequence[str], with_offsets: bool) -> _TokenizedTexts:
        """Tokenize a column of texts."""
        if not with_offsets:
            ids = tokenizer.tokenize(texts)
            return cls(ids.flat_values.numpy(), ids.row_splits.numpy())
        tokens = tokenizer.tokenize_with_offsets(texts)
        ids, row_splits = tokens.token_ids.flat_values.numpy(), tokens.token_ids.row_splits.numpy()
        starts, ends = tokens.starts.flat_values.numpy(), tokens.ends.flat_values.numpy()
        return cls(ids, row_splits, starts, ends, *_find_words(tokens, starts, ends))

    @property
    def lengths(self) -> np.ndarray:
        """Length of each text in tokens."""
        return np.diff(self.row_splits)

    @property
    def text_positions(self) -> np.ndarray:
        """Position of each token in its text."""
        return np.arange(len(self.token_ids)) - np.repeat(self.row_splits[:-1], self.lengths)


def _pack_in_chunks(columns: list[_TokenizedTexts], ranges: TokenRanges, max_sequence_length: int) -> list[np.ndarray]:
    """Return the index of each packed token, `(P,)`, and the length and second start of each sequence, `(N,)`.

    Indices count the tokens of all columns; those of special tokens are negative.
    """
    from bert_keras.pipelines.batches.windows import pack_indices

    offsets = np.cumsum([0, *(len(column.token_ids) for column in columns)])
    text_starts = [column.row_splits[:-1] + offset for column, offset in zip(columns, offsets, strict=False)]
    indices = ranges.indices(text_starts)
    chunks = []
    for begin in range(0, max(len(ranges.examples), 1), _SEQUENCES_PER_CHUNK):
        features = pack_indices(
            [column[begin : begin + _SEQUENCES_PER_CHUNK] for column in indices], max_sequence_length
        )
        features = {name: values.numpy() for name, values in features.items()}
        is_real = features["padding_mask"] == 1
        lengths = is_real.sum(axis=1)
        chunks.append((features["token_ids"][is_real], lengths, lengths - features["segment_ids"].sum(axis=1)))
    return [np.concatenate(parts) for parts in zip(*chunks, strict=True)]


def _look_up(tokenizer: BertTokenizer, columns: list[_TokenizedTexts], indices: np.ndarray) -> dict[str, np.ndarray]:
    """Return the id, position and offsets of each packed token, `(P,)` int32 each."""
    from bert_keras.pipelines.batches.windows import CLS_INDEX, PAD_INDEX, SEP_INDEX

    special = np.zeros(3, np.int32)
    special[[CLS_INDEX, SEP_INDEX, PAD_INDEX]] = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
    absent = np.full(3, -1)
    names = ("text_positions", *(_OFFSETS if columns[0].starts is not None else ()))
    special_columns = {"token_ids": special} | dict.fromkeys(names, absent)
    # special tokens are last, so a negative index finds them
    return {
        name: np.concatenate([*(getattr(column, name) for column in columns), values]).astype(np.int32)[indices]
        for name, values in special_columns.items()
    }


def _find_words(tokens: Tokens, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the start and end of each token's word in its text, `(P,)` each."""
    word_ids, row_splits = tokens.word_ids.flat_values.numpy(), tokens.word_ids.row_splits.numpy()
    is_first = np.ones(len(word_ids), bool)
    is_first[1:] = word_ids[1:] != word_ids[:-1]
    is_first[row_splits[:-1][np.diff(row_splits) > 0]] = True  # words of two texts can have the same id
    first_tokens = np.flatnonzero(is_first)
    last_tokens = np.append(first_tokens[1:], len(word_ids)) - 1
    words = np.cumsum(is_first) - 1
    return starts[first_tokens[words]], ends[last_tokens[words]]


def _find_bounds(positions: np.ndarray, indices: np.ndarray, num_sequences: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest text position in each sequence, `(N,)` each."""
    firsts = np.full(num_sequences, np.iinfo(np.int32).max, np.int64)
    lasts = np.full(num_sequences, -1, np.int64)
    np.minimum.at(firsts, indices, positions)
    np.maximum.at(lasts, indices, positions)
    return firsts, lasts
