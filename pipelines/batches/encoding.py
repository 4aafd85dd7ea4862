"""`encode`: texts, or pairs of them, as whole rows of tokens, tokenized once; cut to length or in windows.

Fine-tuning reads the same texts in every epoch and wants to know their lengths beforehand, so all rows are kept in
memory, without padding: 8 bytes a token, and 8 more with places.

TensorFlow is imported where texts are encoded, so that a command can read its files, and refuse them, before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_keras.errors import InputError

if TYPE_CHECKING:
    from bert_keras.pipelines.batches.windows import TokenRanges

IGNORED_LABEL = -100  # a token that does not count
_CLS, _SEP, _PAD = -1, -2, -3  # stand for special tokens among the indices of tokens
_ROWS_A_CHUNK = 4096  # packed at once, padded to the longest of them: 25 MB at 512 tokens


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedSequences:
    """N rows of P tokens in all, `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`, one after the other and not padded.

    Attributes:
        token_ids: `(P,)` int32.
        row_splits: `(N + 1,)` int64; row n is `token_ids[row_splits[n]:row_splits[n + 1]]`.
        second_starts: `(N,)` int32, the place in each row where the second text begins; the row's length if none does.
        examples: `(N,)` int64, the number of the text that a row was made of: several rows where it is in windows.
        numbers: `(P,)` int32, the number of a token in its text; -1 for special tokens.
        pad_id: the id of [PAD].
        starts, ends: `(P,)` int32, the range of characters of its text that a token was made of; -1 for special
            tokens. None unless places were asked for.
        word_starts, word_ends: the same of the whole word that a token belongs to. A punctuation mark is a word.
        prompt_lengths: `(N,)` int32, how many tokens at the beginning of each row a sentence vector is not made of;
            None: none.
    """

    token_ids: np.ndarray
    row_splits: np.ndarray
    second_starts: np.ndarray
    examples: np.ndarray
    numbers: np.ndarray
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
        """Tokens of each row `(N,)`, special tokens counted."""
        return np.diff(self.row_splits)

    @property
    def sequence_indices(self) -> np.ndarray:
        """The row of each token `(P,)`."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def is_second(self) -> np.ndarray:
        """Whether each token `(P,)` belongs to the second text, its [SEP] too."""
        places = np.arange(len(self.token_ids)) - self.row_splits[:-1][self.sequence_indices]
        return places >= self.second_starts[self.sequence_indices]


def encode(
    tokenizer,
    texts: Sequence[str],
    second_texts: Sequence[str] | None = None,
    *,
    max_sequence_length: int,
    window_overlap: int | None = None,
    max_first_length: int | None = None,
    with_places: bool = False,
) -> EncodedSequences:
    """Tokenizes texts, or pairs of texts.

    Args:
        tokenizer: a `BertTokenizer`.
        texts: N texts.
        second_texts: the second text of each pair.
        max_sequence_length: the longest row in tokens, special tokens counted.
        window_overlap: None: longer texts are cut, of a pair the longer one first, as `pack` does. A number: the text,
            of a pair the second one, is read in windows that share so many tokens with the one before.
        max_first_length: in windows of a pair, the tokens of the first text that are kept. A first text that would
            leave no room for new tokens of the second is cut to half of the row, less if `window_overlap` asks for it.
        with_places: whether to find the characters that each token was made of.

    Returns:
        The rows of the texts in their order, and of each text its windows in theirs.

    Raises:
        InputError: a text is no string, a second text is missing, or the lengths leave no room.

    Example:
        >>> rows = encode(tokenizer, ["Playing", "the unaffable"], max_sequence_length=5)
        >>> rows.lengths.tolist()
        [4, 5]
    """
    from bert_keras.pipelines.batches.windows import choose_token_ranges

    if second_texts is not None and len(texts) != len(second_texts):
        raise InputError(
            f"there are {len(texts)} texts and {len(second_texts)} second texts; expected a second text for each"
        )
    columns = [_Tokens.of(tokenizer, column, with_places) for column in (texts, second_texts) if column is not None]
    ranges = choose_token_ranges(
        [column.lengths for column in columns],
        max_sequence_length=max_sequence_length,
        window_overlap=window_overlap,
        max_first_length=max_first_length,
    )
    return _rows(tokenizer, columns, ranges, max_sequence_length)


def has_most_context(rows: EncodedSequences) -> np.ndarray:
    """Returns for each token `(P,)` whether its row is the one in which it has the most context.

    A token lies in several windows; the best one has the most tokens of its text on that side where there are fewer,
    and a bit for its length, as in Google's run_squad.py. Special tokens and first texts of pairs are False.
    """
    of_window = (rows.numbers >= 0) & (rows.is_second | (rows.second_starts == rows.lengths)[rows.sequence_indices])
    places = np.flatnonzero(of_window)
    row_of = rows.sequence_indices[places]
    firsts, lasts = _extremes(rows.numbers[places], row_of, len(rows))
    numbers = rows.numbers[places]
    before, after = numbers - firsts[row_of], lasts[row_of] - numbers
    context = np.minimum(before, after) + 0.01 * (lasts - firsts + 1)[row_of]
    order = np.lexsort((row_of, -context, numbers, rows.examples[row_of]))
    keys = np.stack([rows.examples[row_of][order], numbers[order]])
    is_best = np.ones(len(order), bool)
    is_best[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    best = np.zeros(len(rows.token_ids), bool)
    best[places[order[is_best]]] = True
    return best


@dataclasses.dataclass(frozen=True, eq=False)
class _Tokens:
    """The tokens of a column of texts, one after the other."""

    token_ids: np.ndarray
    row_splits: np.ndarray
    starts: np.ndarray | None = None
    ends: np.ndarray | None = None
    word_starts: np.ndarray | None = None
    word_ends: np.ndarray | None = None

    @classmethod
    def of(cls, tokenizer, texts: Sequence[str], with_places: bool) -> _Tokens:
        if not with_places:
            ids = tokenizer.tokenize(texts)
            return cls(ids.flat_values.numpy(), ids.row_splits.numpy())
        tokens = tokenizer.tokenize_with_offsets(texts)
        ids, row_splits = tokens.token_ids.flat_values.numpy(), tokens.token_ids.row_splits.numpy()
        starts, ends = tokens.starts.flat_values.numpy(), tokens.ends.flat_values.numpy()
        return cls(ids, row_splits, starts, ends, *_ranges_of_words(tokens, starts, ends))

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.row_splits)

    @property
    def numbers(self) -> np.ndarray:
        return np.arange(len(self.token_ids)) - np.repeat(self.row_splits[:-1], self.lengths)


def _rows(tokenizer, columns: list[_Tokens], ranges: TokenRanges, max_sequence_length: int) -> EncodedSequences:
    """Packs the numbers of tokens instead of their ids, and then looks up everything that is known of each."""
    from bert_keras.pipelines.batches.packing import pack_tokens

    offsets = np.cumsum([0, *(len(column.token_ids) for column in columns)])
    row_starts = [column.row_splits[:-1] + offset for column, offset in zip(columns, offsets, strict=False)]
    indices = ranges.indices(row_starts)
    chunks = []
    for begin in range(0, max(len(ranges.examples), 1), _ROWS_A_CHUNK):
        packed = [of_column[begin : begin + _ROWS_A_CHUNK] for of_column in indices]
        features = pack_tokens(*packed, cls_id=_CLS, sep_id=_SEP, pad_id=_PAD, max_sequence_length=max_sequence_length)
        features = {name: values.numpy() for name, values in features.items()}
        is_real = features["padding_mask"] == 1
        lengths = is_real.sum(axis=1)
        chunks.append((features["token_ids"][is_real], lengths, lengths - features["segment_ids"].sum(axis=1)))
    indices, lengths, second_starts = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
    return _looked_up(tokenizer, columns, indices, lengths, second_starts, ranges.examples.numpy().astype(np.int64))


def _looked_up(tokenizer, columns, indices, lengths, second_starts, examples) -> EncodedSequences:
    special = np.zeros(3, np.int32)
    special[[_CLS, _SEP, _PAD]] = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id

    def table(parts, of_special) -> np.ndarray:
        return np.concatenate([*parts, of_special]).astype(np.int32)[indices]  # a negative index counts from the end

    none = np.full(3, -1)
    has_places = columns[0].starts is not None
    return EncodedSequences(
        token_ids=table([column.token_ids for column in columns], special),
        row_splits=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        second_starts=second_starts.astype(np.int32),
        examples=examples,
        numbers=table([column.numbers for column in columns], none),
        pad_id=tokenizer.pad_id,
        starts=table([column.starts for column in columns], none) if has_places else None,
        ends=table([column.ends for column in columns], none) if has_places else None,
        word_starts=table([column.word_starts for column in columns], none) if has_places else None,
        word_ends=table([column.word_ends for column in columns], none) if has_places else None,
    )


def _ranges_of_words(tokens, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the word of each token begins and ends in its text, `(P,)` each."""
    word_ids, row_splits = tokens.word_ids.flat_values.numpy(), tokens.word_ids.row_splits.numpy()
    begins = np.ones(len(word_ids), bool)
    begins[1:] = word_ids[1:] != word_ids[:-1]
    begins[row_splits[:-1][np.diff(row_splits) > 0]] = True  # two texts may meet at words of one number
    first_tokens = np.flatnonzero(begins)
    last_tokens = np.append(first_tokens[1:], len(word_ids)) - 1
    words = np.cumsum(begins) - 1
    return starts[first_tokens[words]], ends[last_tokens[words]]


def _extremes(numbers: np.ndarray, row_of: np.ndarray, num_sequences: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first and the last token `(N,)` of the text that stand in each row."""
    firsts = np.full(num_sequences, np.iinfo(np.int32).max, np.int64)
    lasts = np.full(num_sequences, -1, np.int64)
    np.minimum.at(firsts, row_of, numbers)
    np.maximum.at(lasts, row_of, numbers)
    return firsts, lasts
