"""Probe inputs for the parity check: varied sequences of ids and texts, in which every input of a model matters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bert_keras.features import FEATURES

if TYPE_CHECKING:
    from bert_keras.config import BertConfig
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

NUM_SEQUENCES, NUM_TEXTS = 200, 100  # in the thorough set

# The default set. Base takes 1.2 ms per token, so two sequences of full length and one of half the length take half of
# the time. They are in the first, small batches: one alone, one with a short sequence that needs padding.
_SHORT_LENGTHS = (2, 1, 3, 4, 5, 9, 6, 13, 7, 8, 10, 17, 11, 12, 15, 21, 4, 26, 33)
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

# two of each, for example requests and warm-up requests
EXAMPLE_TEXTS = {  # keyed by input name
    "text": ["The weather is fine today.", "Ein zweiter Text: 東京 😀"],
    "second_text": ["It is sunny.", "Tokyo is a city."],
    "question": ["Where is the tower?", "Who wrote the book?"],
    "context": ["The tower is in Paris.", "The book was written by a teacher in 1921."],
}
EXAMPLE_MASKED_TEXTS = {"text": ["The [MASK] is fine today.", "[MASK] and [MASK]"]}
EXAMPLE_IDS = {
    "input_ids": [[2, 1, 3], [2, 3, 0]],  # valid in any vocabulary; the second sequence is padded
    "attention_mask": [[1, 1, 1], [1, 1, 0]],
    "token_type_ids": [[0, 0, 0], [0, 0, 0]],
}


class IdSequence(NamedTuple):
    """One sequence of n token ids, without padding.

    Attributes:
        token_ids: `(n,)` int32.
        segment_ids: `(n,)` int32; 0 = first text, 1 = second text.
    """

    token_ids: np.ndarray
    segment_ids: np.ndarray


@dataclasses.dataclass(frozen=True)
class ProbeSet:
    """The inputs that an artifact is compared on.

    Attributes:
        thorough: 200 sequences and 100 texts of random lengths instead of 24 and 16 chosen ones.
    """

    thorough: bool = False

    @property
    def name(self) -> str:
        """The name of the set in `parity.json`."""
        return "thorough" if self.thorough else "default"

    def sequences(self, config: BertConfig, tokenizer: BertTokenizer, max_length: int) -> list[IdSequence]:
        """Return sequences of 1 to `max_length` ids, singles and pairs, twins last (see `end_with_twins`)."""
        if self.thorough:
            return end_with_twins(draw_sequences(config, tokenizer, max_length))
        return draw_default_sequences(config, tokenizer, max_length)

    def texts(self, tokenizer: BertTokenizer, max_length: int) -> list[str]:
        """Return odd texts and texts of vocabulary words, at least one of them longer than `max_length` tokens."""
        return (draw_texts if self.thorough else draw_default_texts)(tokenizer, max_length)


DEFAULT_PROBES, THOROUGH_PROBES = ProbeSet(), ProbeSet(thorough=True)


def draw_default_sequences(
    config: BertConfig, tokenizer: BertTokenizer, max_length: int, seed: int = 0
) -> list[IdSequence]:
    """Draw the 24 sequences of the default set: full length as pair and single, half of it, short ones, and twins.

    Every other sequence is a pair if it is long enough for two texts.
    """
    rng = np.random.default_rng(seed)
    lengths = [max_length, max_length - 1, _SHORT_LENGTHS[0], max_length // 2, *_SHORT_LENGTHS[1:], _TWIN_LENGTH]
    lengths = np.clip(lengths, 1, max_length).tolist()
    sequences = [
        _draw_sequence(rng, config, tokenizer, length, is_pair=number % 2 == 0) for number, length in enumerate(lengths)
    ]
    return [*sequences, _as_single(sequences[-1])]


def draw_sequences(
    config: BertConfig, tokenizer: BertTokenizer, max_length: int, number: int = NUM_SEQUENCES, seed: int = 0
) -> list[IdSequence]:
    """Draw sequences of 1 to `max_length` random ids between [CLS] and [SEP], half of them pairs."""
    rng = np.random.default_rng(seed)
    lengths = [1, 2, 3, max_length - 1, max_length]
    lengths += np.exp(rng.uniform(0, np.log(max_length + 1), number)).astype(int).tolist()
    lengths = np.clip(lengths[:number], 1, max_length).tolist()
    return [_draw_sequence(rng, config, tokenizer, length) for length in lengths]


def _draw_sequence(
    rng: np.random.Generator, config: BertConfig, tokenizer: BertTokenizer, length: int, is_pair: bool | None = None
) -> IdSequence:
    """Draw a sequence of random ids: a pair of texts if `is_pair` (None: half of the time) and if there is room."""
    ids = rng.integers(0, config.vocabulary_size, length).astype(np.int32)
    ids[-1], ids[0] = tokenizer.sep_id, tokenizer.cls_id
    segments = np.zeros(length, np.int32)
    if length > 3 and config.type_vocabulary_size > 1 and (rng.random() < 0.5 if is_pair is None else is_pair):
        middle = int(rng.integers(1, length - 1))
        ids[middle] = tokenizer.sep_id
        segments[middle + 1 :] = 1
    return IdSequence(ids, segments)


def end_with_twins(sequences: Sequence[IdSequence]) -> list[IdSequence]:
    """Move the longest pair to the end and replace the sequence after it by its twin: the same ids as a single text.

    If the checkpoint's outputs differ for twins, the artifact's must differ too, however few bits its weights have.
    """
    pairs = [number for number, sequence in enumerate(sequences) if sequence.segment_ids.any()]
    if not pairs:
        return list(sequences)
    last = max(pairs, key=lambda number: len(sequences[number].token_ids))
    others = [sequence for number, sequence in enumerate(sequences) if number != last]
    return [*others[:-1], sequences[last], _as_single(sequences[last])]


def _as_single(sequence: IdSequence) -> IdSequence:
    return IdSequence(sequence.token_ids, np.zeros_like(sequence.segment_ids))


def are_twins(one: IdSequence, other: IdSequence) -> bool:
    """Return whether two sequences have the same token ids but different segment ids."""
    return np.array_equal(one.token_ids, other.token_ids) and not np.array_equal(one.segment_ids, other.segment_ids)


def draw_default_texts(tokenizer: BertTokenizer, max_length: int, seed: int = 1) -> list[str]:
    """Draw the 16 texts of the default set: odd ones, one with capitals and accents, short ones, and two long ones."""
    rng = np.random.default_rng(seed)
    words = _choose_words(tokenizer)
    counts = [*_WORD_COUNTS, max_length // 2, max_length + max_length // 3]
    return [*_ODD_TEXTS, _add_capitals_and_accents(words), *(_draw_text(rng, words, count) for count in counts)]


def _add_capitals_and_accents(words: Sequence[str]) -> str:
    """Return nine words, changed so that only the tokenizer's own rules for case and accents find them again."""
    chosen = words[:: max(1, len(words) // 9)][:9]
    changes = (str.upper, lambda word: f"{word}\u0301", lambda word: f"{word[0].upper()}\u0308{word[1:]}")
    return " ".join(changes[number % len(changes)](word) for number, word in enumerate(chosen))


def draw_texts(tokenizer: BertTokenizer, max_length: int, number: int = NUM_TEXTS, seed: int = 1) -> list[str]:
    """Draw odd texts and texts of vocabulary words, some of them longer than `max_length` tokens."""
    rng = np.random.default_rng(seed)
    words = _choose_words(tokenizer)
    counts = np.exp(rng.uniform(0, np.log(2 * max_length), number - len(_ODD_TEXTS))).astype(int)
    return [*_ODD_TEXTS, *(_draw_text(rng, words, count) for count in counts)]


def _choose_words(tokenizer: BertTokenizer) -> list[str]:
    return [token for token in tokenizer.vocabulary if token.isalpha()] or list(_ODD_WORDS)


def _draw_text(rng: np.random.Generator, words: Sequence[str], count: int) -> str:
    """Draw a text of `count` words, a tenth of them odd ones."""
    numbers, odd = rng.integers(0, len(words), count), rng.integers(0, len(_ODD_WORDS), count)
    draws = zip(numbers, odd, rng.random(count) < 0.1, strict=True)
    return " ".join(_ODD_WORDS[other] if is_odd else words[number] for number, other, is_odd in draws)


def insert_masks(texts: Sequence[str], seed: int = 2) -> list[str]:
    """Insert one to three [MASK] tokens between the first words of each text."""
    rng = np.random.default_rng(seed)
    masked = []
    for text in texts:
        words = text.split(" ")
        for _ in range(int(rng.integers(1, 4))):
            words.insert(int(rng.integers(0, min(len(words), 5) + 1)), "[MASK]")
        masked.append(" ".join(words))
    return masked


def split_into_batches(number: int) -> list[list[int]]:
    """Split the indices 0 to `number` - 1 into batches of different sizes; the last two, the twins, share a batch."""
    batches, begin = [], 0
    while begin < number:
        end = min(begin + _BATCH_SIZES[len(batches) % len(_BATCH_SIZES)], number)
        batches.append(list(range(begin, end)))
        begin = end
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [batches[-2] + batches[-1]]
    return batches


def pad_sequences(sequences: Sequence[IdSequence], pad_id: int, length: int | None = None) -> dict[str, np.ndarray]:
    """Pad sequences to inputs `(B, S)` under Hugging Face names. S is `length`, or that of the longest sequence."""
    length = length or max(len(sequence.token_ids) for sequence in sequences)
    inputs = {
        "token_ids": np.full((len(sequences), length), pad_id, np.int32),
        "padding_mask": np.zeros((len(sequences), length), np.int32),
        "segment_ids": np.zeros((len(sequences), length), np.int32),
    }
    for number, sequence in enumerate(sequences):
        end = len(sequence.token_ids)
        inputs["token_ids"][number, :end] = sequence.token_ids
        inputs["padding_mask"][number, :end] = 1
        inputs["segment_ids"][number, :end] = sequence.segment_ids
    return {FEATURES[name].huggingface_name: values for name, values in inputs.items()}


def to_bytes_array(texts: Sequence[str]) -> np.ndarray:
    """Return texts as an array of UTF-8 `bytes` objects, `(B,)`."""
    strings = np.empty(len(texts), object)
    strings[:] = [text.encode("utf-8") for text in texts]
    return strings
