"""The documents of a block as token ids, and how many of their characters the vocabulary covers.

The ids are one flat array with the starts of sentences and documents.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from bert_keras.pipelines.records.documents import SPLITS, Block, is_held_out
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec, make_normalizer
from bert_keras.pipelines.text.vocabulary import TokenSplitter

if TYPE_CHECKING:
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

_PART_BYTES = 1 << 20  # counted at once: 2.4 ns per byte, of 180 ns per byte for everything else; 25 MB of memory


@dataclasses.dataclass(frozen=True)
class Document:
    """A document, or a part of one, in a `TokenizedText`.

    Attributes:
        number: its number in the whole text; parts of a document have the same number.
        part: the index of the part, from 0.
        start, end: its sentences, as indices into `TokenizedText.starts`.
    """

    number: int
    part: int
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class TokenizedText:
    """The documents of one split of a block.

    Attributes:
        ids: `(tokens,)` int32, all sentences concatenated; no sentence is empty.
        starts: the index in `ids` of the first token of each sentence, followed by the end of the last one. Python
            integers, for `bisect`.
        documents: the documents to make examples of.
        others: documents for random next sentences if `documents` has only one.
        quality_counts: the counts of `documents`, in the order of `manifest.QUALITY_COUNTS`.
    """

    ids: np.ndarray
    starts: list[int]
    documents: list[Document]
    others: list[Document]
    quality_counts: tuple[int, ...] = ()

    @property
    def num_sentences(self) -> int:
        """Number of sentences in `documents`."""
        return sum(document.end - document.start for document in self.documents)


class KnownCharacters:
    """Counter of characters, of those that occur in tokens of a vocabulary, and of those in words that are too long.

    It is fast, since each distinct character is classified once.

    Args:
        tokenizer: the vocabulary, and the rules that normalize a character before it is looked up.
    """

    def __init__(self, tokenizer: TokenizerSpec):
        special_tokens = frozenset(tokenizer.special_tokens)
        tokens = (token.removeprefix("##") for token in tokenizer.vocabulary if token not in special_tokens)
        self._alphabet = set(itertools.chain.from_iterable(tokens))
        self._rules = tokenizer.rules
        self._normalize = make_normalizer(tokenizer.rules)
        self._ends_word = tokenizer.rules.spaces() | tokenizer.rules.single_words()
        self._special = TokenSplitter(tokenizer.additional_special_tokens)
        self._classify = functools.cache(self._classify_character)

    def count(self, passages: Iterable[bytes]) -> tuple[int, int, int]:
        """Return the number of characters in UTF-8 passages, of known ones, and of those in words that are too long.

        White space, characters that BERT drops, and special tokens do not count. A character that is normalized to
        several counts as several. A word longer than `max_input_chars_per_word` becomes [UNK].
        """
        totals = np.zeros(3, np.int64)
        for part in _join_parts(passages):
            text = "\n".join(self._special.split(part.decode()))
            codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
            counts = np.bincount(codes)
            found = np.flatnonzero(counts)
            classes = np.array([self._classify(code) for code in found.tolist()], np.int32).reshape(-1, 4)
            totals[:2] += counts[found] @ classes[:, :2]
            table = np.zeros((counts.size, 4), np.int32)
            table[found] = classes
            totals[2] += self._count_in_long_words(codes, table)
        return tuple(totals.tolist())

    def _count_in_long_words(self, codes: np.ndarray, table: np.ndarray) -> int:
        """Return the number of characters in words that are too long.

        Args:
            codes: `(C,)`, the code points of the text.
            table: `(code points, 4)`, the result of `_classify_character` for each code point.
        """
        limit = self._rules.max_input_chars_per_word
        word_ends = np.flatnonzero(table[:, 3].astype(bool)[codes])
        starts, ends = np.concatenate([[0], word_ends + 1]), np.concatenate([word_ends, [codes.size]])
        if ((ends - starts) * table[:, 2].max() <= limit).all():
            return 0
        lengths, numbers = (np.concatenate([[0], np.cumsum(column[codes])]) for column in table[:, [2, 0]].T)
        is_long = lengths[ends] - lengths[starts] > limit
        return int((numbers[ends] - numbers[starts])[is_long].sum())

    def _classify_character(self, code: int) -> tuple[int, int, int, int]:
        """Return the number of normalized characters, of known ones, their length, and whether they end a word."""
        characters = "".join(self._normalize(chr(code)).split())
        ends_word = bool(self._ends_word[[code, *map(ord, characters)]].any())
        length = len(characters.encode()) if self._rules.is_mediapipe else len(characters)
        return len(characters), sum(character in self._alphabet for character in characters), length, ends_word


def _join_parts(passages: Iterable[bytes]) -> Iterator[bytes]:
    """Join passages to parts of about 1 MiB."""
    part, size = [], 0
    for passage in passages:
        part.append(passage)
        size += len(passage)
        if size >= _PART_BYTES:
            yield b"\n".join(part)
            part, size = [], 0
    if part:
        yield b"\n".join(part)


def tokenize_block(
    block: Block,
    tokenizer: "BertTokenizer",
    settings: RecordSettings,
    known_characters: KnownCharacters,
    split_sentences: Callable[[str], list[str]] | None,
) -> dict[str, TokenizedText]:
    """Tokenize the documents of a block and return them keyed by split.

    Args:
        block: the block of text.
        tokenizer: a `BertTokenizer`.
        settings: the settings of the records, which determine the documents that are held out.
        known_characters: the counter of characters.
        split_sentences: splits a passage into sentences; None if passages are sentences.
    """
    plan = [
        (SPLITS[is_held_out(settings.seed, number, settings.held_out_rate)], number, part, passages)
        for number, part, passages in block.documents()
    ]
    pools = zip(SPLITS, block.pools, strict=True)
    plan += [(f"{split} pool", -1, 0, pool.split(b"\n")) for split, pool in pools if pool]
    sentences = [passages for *_, passages in plan]
    if split_sentences is not None:
        sentences = [[*itertools.chain(*(split_sentences(one.decode()) for one in passages))] for passages in sentences]
    ragged = tokenizer.tokenize([sentence for document in sentences for sentence in document])
    lengths = ragged.row_lengths().numpy()
    has_tokens = lengths > 0
    starts = [0, *np.cumsum(lengths[has_tokens]).tolist()]
    bounds = np.cumsum([0, *map(len, sentences)])
    bounds = np.concatenate([[0], np.cumsum(has_tokens)])[bounds].tolist()  # without the empty sentences
    groups: dict[str, list[Document]] = {name: [] for split in SPLITS for name in (split, f"{split} pool")}
    for (group, number, part, _), start, end in zip(plan, bounds[:-1], bounds[1:], strict=True):
        if start < end:
            groups[group].append(Document(number, part, start, end))
    ids = ragged.flat_values.numpy()
    num_unknown = np.concatenate([[0], np.cumsum(ids == tokenizer.unk_id)])
    texts = {}
    for split in SPLITS:
        passages = (passage for group, *_, passages in plan if group == split for passage in passages)
        counts = (*_count_tokens(groups[split], starts, num_unknown), *known_characters.count(passages))
        texts[split] = TokenizedText(ids, starts, groups[split], _choose_others(groups, split), counts)
    return texts


def _count_tokens(documents: list[Document], starts: list[int], num_unknown: np.ndarray) -> tuple[int, int]:
    """Return the number of tokens in documents, and of [UNK]; `num_unknown` counts the [UNK] before each token."""
    first = [starts[document.start] for document in documents]
    last = [starts[document.end] for document in documents]
    return sum(last) - sum(first), int((num_unknown[last] - num_unknown[first]).sum())


def _choose_others(groups: dict[str, list[Document]], split: str) -> list[Document]:
    """Return the documents to borrow from if the split has only one. Training never borrows held-out text."""
    if len(groups[split]) != 1:
        return []
    if groups[f"{split} pool"] or split == "train":
        return groups[f"{split} pool"]
    return groups["train"] or groups["train pool"]
