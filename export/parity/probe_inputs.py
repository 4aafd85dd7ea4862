"""Probe inputs for the parity check: sequences of ids and texts, so varied that no two inputs could change places."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bert_keras.features import FEATURES

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

NUM_ROWS, NUM_TEXTS = 200, 100  # of the thorough set

# The default set. Long sequences are what costs: base takes 1.2 ms a token, so two full ones and one of half the
# length are half of its time. They stand in the first, small batches: one alone, one beside a short mate.
_LENGTHS = (2, 1, 3, 4, 5, 9, 6, 13, 7, 8, 10, 17, 11, 12, 15, 21, 4, 26, 33)  # of the short ones
_TWIN_LENGTH = 24
_WORD_COUNTS = (3, 7, 25)  # of the short texts; two long ones follow
_BATCH_SIZES = (1, 2, 3, 5, 8, 13)
_ODD_TEXTS = (
    "",
    "a",
    "The cat sat on the mat.",
    "naïve café cafe\u0301 😀 ﬁ ① 中文 текст İß ς",
    "[MASK] and [SEP] are words here",
    "1,234.56 $ % ^ & * ( ) _ + tabs\tand\nlines\u00a0\u200b\ufeff",
    "Unaffable pneumonoultramicroscopicsilicovolcanoconiosis " * 3,
    " \t\n ",
    "\u0378\U0010ffff \ue000",
    "x" * 300,
)
_ODD_WORDS = ("naïve", "cafe\u0301", "😀", "中文", "ΣΑΣ", "don't", "3.14", "#tag", "\u0301", "ﬁn", "-", "?!", "ǅ")


class IdRow(NamedTuple):
    """A row of n ids.

    Attributes:
        token_ids: `(n,)` int32.
        segment_ids: `(n,)` int32; 1: the second text.
    """

    token_ids: np.ndarray
    segment_ids: np.ndarray


@dataclasses.dataclass(frozen=True)
class ProbeSet:
    """Which inputs an artifact is compared on.

    Attributes:
        thorough: whether to take 200 sequences and 100 texts of random lengths instead of 24 and 16 chosen ones.
    """

    thorough: bool = False

    @property
    def name(self) -> str:
        """The name that stands in `parity.json`."""
        return "thorough" if self.thorough else "default"

    def sequences(self, config, tokenizer: BertTokenizer, longest: int) -> list[IdRow]:
        """Returns sequences of 1 to `longest` ids, singles and pairs, the twins last (see `with_twin`)."""
        if self.thorough:
            return with_twin(id_rows(config, tokenizer, longest))
        return chosen_rows(config, tokenizer, longest)

    def texts(self, tokenizer: BertTokenizer, longest: int) -> list[str]:
        """Returns odd texts and texts of words of the vocabulary, one or more of them longer than `longest` tokens."""
        return (texts if self.thorough else chosen_texts)(tokenizer, longest)


DEFAULT, THOROUGH = ProbeSet(), ProbeSet(thorough=True)


def chosen_rows(config, tokenizer: BertTokenizer, longest: int, seed: int = 0) -> list[IdRow]:
    """Returns 24 sequences: a pair and a single of full length, one of half of it, short ones, and twins.

    Every other one is a pair, of those with room for two texts.
    """
    rng = np.random.default_rng(seed)
    lengths = [longest, longest - 1, _LENGTHS[0], longest // 2, *_LENGTHS[1:], _TWIN_LENGTH]
    clipped = [int(np.clip(length, 1, longest)) for length in lengths]
    rows = [_row(rng, config, tokenizer, length, number % 2 == 0) for number, length in enumerate(clipped)]
    return [*rows, _as_single(rows[-1])]


def id_rows(config, tokenizer: BertTokenizer, longest: int, number: int = NUM_ROWS, seed: int = 0) -> list[IdRow]:
    """Returns rows of random ids of 1 to `longest` tokens, [CLS] and [SEP] in their places, half of them pairs."""
    rng = np.random.default_rng(seed)
    lengths = [1, 2, 3, longest - 1, longest, *np.exp(rng.uniform(0, np.log(longest + 1), number)).astype(int)]
    return [_row(rng, config, tokenizer, int(np.clip(length, 1, longest))) for length in lengths[:number]]


def _row(rng: np.random.Generator, config, tokenizer: BertTokenizer, length: int, is_pair: bool | None = None) -> IdRow:
    """Returns a sequence of random ids, as a pair if it is to be one and is long enough; None: half of them are."""
    ids = rng.integers(0, config.vocabulary_size, length).astype(np.int32)
    ids[-1], ids[0] = tokenizer.sep_id, tokenizer.cls_id
    segments = np.zeros(length, np.int32)
    if length > 3 and config.type_vocabulary_size > 1 and (rng.random() < 0.5 if is_pair is None else is_pair):
        border = int(rng.integers(1, length - 1))
        ids[border] = tokenizer.sep_id
        segments[border + 1 :] = 1
    return IdRow(ids, segments)


def with_twin(rows: Sequence[IdRow]) -> list[IdRow]:
    """Returns as many rows, the longest pair put last, and behind it the same ids as a single text.

    However few the bits of an artifact, it has to give something else for the two, if its checkpoint does.
    """
    pairs = [number for number, row in enumerate(rows) if row.segment_ids.any()]
    if not pairs:
        return list(rows)
    last = max(pairs, key=lambda number: len(rows[number].token_ids))
    pair = rows[last]
    others = [row for number, row in enumerate(rows) if number != last]
    return [*others[:-1], pair, _as_single(pair)]


def _as_single(row: IdRow) -> IdRow:
    return IdRow(row.token_ids, np.zeros_like(row.segment_ids))


def are_twins(row: IdRow, other: IdRow) -> bool:
    """Tells whether two rows have the same ids and other segments."""
    return np.array_equal(row.token_ids, other.token_ids) and not np.array_equal(row.segment_ids, other.segment_ids)


def chosen_texts(tokenizer: BertTokenizer, longest: int, seed: int = 1) -> list[str]:
    """Returns 16 texts: odd ones, one of capitals and accents, some of few words, a long one, and one that is cut."""
    rng = np.random.default_rng(seed)
    words = _words(tokenizer)
    counts = [*_WORD_COUNTS, longest // 2, longest + longest // 3]
    return [*_ODD_TEXTS, _with_capitals_and_accents(words), *(_drawn(rng, words, count) for count in counts)]


def _with_capitals_and_accents(words: Sequence[str]) -> str:
    """Returns nine words of a vocabulary, written so that only its own rules of case and accents find them there."""
    chosen = words[:: max(1, len(words) // 9)][:9]
    changes = (str.upper, lambda word: f"{word}\u0301", lambda word: f"{word[0].upper()}\u0308{word[1:]}")
    return " ".join(changes[number % len(changes)](word) for number, word in enumerate(chosen))


def texts(tokenizer: BertTokenizer, longest: int, number: int = NUM_TEXTS, seed: int = 1) -> list[str]:
    """Returns odd texts, and others of words of the vocabulary, some of them longer than `longest` tokens."""
    rng = np.random.default_rng(seed)
    words = _words(tokenizer)
    counts = np.exp(rng.uniform(0, np.log(2 * longest), number - len(_ODD_TEXTS))).astype(int)
    return [*_ODD_TEXTS, *(_drawn(rng, words, count) for count in counts)]


def _words(tokenizer: BertTokenizer) -> list[str]:
    return [token for token in tokenizer.vocabulary if token.isalpha()] or list(_ODD_WORDS)


def _drawn(rng: np.random.Generator, words: Sequence[str], count: int) -> str:
    """Returns a text of so many words, every tenth an odd one."""
    places, odd = rng.integers(0, len(words), count), rng.integers(0, len(_ODD_WORDS), count)
    pairs = zip(places, odd, rng.random(count) < 0.1, strict=True)
    return " ".join(_ODD_WORDS[other] if is_odd else words[place] for place, other, is_odd in pairs)


def with_masks(given: Sequence[str], seed: int = 2) -> list[str]:
    """Returns texts with one to three [MASK] among their words."""
    rng = np.random.default_rng(seed)
    masked = []
    for text in given:
        words = text.split(" ")
        for _ in range(int(rng.integers(1, 4))):
            words.insert(int(rng.integers(0, min(len(words), 5) + 1)), "[MASK]")
        masked.append(" ".join(words))
    return masked


def batches(number: int) -> list[list[int]]:
    """Returns 0 to `number` - 1 in batches of different sizes, single ones among them; the last two, twins, in one."""
    cut, size = [], 0
    while sum(map(len, cut)) < number:
        begin = sum(map(len, cut))
        cut.append(list(range(begin, min(begin + _BATCH_SIZES[size % len(_BATCH_SIZES)], number))))
        size += 1
    if len(cut) > 1 and len(cut[-1]) == 1:
        cut[-2:] = [cut[-2] + cut[-1]]
    return cut


def id_inputs(rows: Sequence[IdRow], pad_id: int, length: int | None = None) -> dict[str, np.ndarray]:
    """Returns rows as inputs by the names of the border `(B, S)`, S being `length`, or that of the longest row."""
    length = length or max(len(row.token_ids) for row in rows)
    inputs = {
        "token_ids": np.full((len(rows), length), pad_id, np.int32),
        "padding_mask": np.zeros((len(rows), length), np.int32),
        "segment_ids": np.zeros((len(rows), length), np.int32),
    }
    for number, row in enumerate(rows):
        end = len(row.token_ids)
        inputs["token_ids"][number, :end] = row.token_ids
        inputs["padding_mask"][number, :end] = 1
        inputs["segment_ids"][number, :end] = row.segment_ids
    return {FEATURES[name].huggingface_name: values for name, values in inputs.items()}


def as_strings(given: Sequence[str]) -> np.ndarray:
    """Returns texts as an array of `bytes`."""
    strings = np.empty(len(given), object)
    strings[:] = [text.encode("utf-8") for text in given]
    return strings
