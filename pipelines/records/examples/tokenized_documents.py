"""The documents of a block as token ids: one flat array, with the places where sentences and documents begin."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from bert_keras.pipelines.records.blocks import SPLITS, Block, is_held_out
from bert_keras.pipelines.records.known_characters import KnownCharacters


@dataclasses.dataclass(frozen=True)
class Document:
    """A document, or a part of one, within `TokenizedText`.

    Attributes:
        number: its number in the whole text; parts of one document share it.
        part: which part, from 0.
        start, end: its sentences, as indices of `TokenizedText.starts`.
    """

    number: int
    part: int
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class TokenizedText:
    """The documents of one split of a block.

    Attributes:
        ids: `(tokens,)` int32, all sentences behind each other; none is empty.
        starts: where each sentence begins in `ids`, and behind them where the last one ends; plain ints, for `bisect`.
        documents: those to make examples of.
        others: documents of elsewhere, that a wrong next sentence may be drawn from where there is no second one here.
        quality_counts: see `manifest.QUALITY_COUNTS`; of `documents`, not of `others`.
    """

    ids: np.ndarray
    starts: list[int]
    documents: list[Document]
    others: list[Document]
    quality_counts: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)

    @property
    def num_sentences(self) -> int:
        """The sentences of `documents`."""
        return sum(document.end - document.start for document in self.documents)

    @classmethod
    def from_sentences(cls, documents: Sequence[Sequence[Sequence[int]]]) -> "TokenizedText":
        """Makes one of documents of sentences of ids, numbered from 0; what is empty is left out."""
        documents = [[sentence for sentence in document if len(sentence)] for document in documents]
        sentences = [sentence for document in documents for sentence in document]
        borders = [0, *itertools.accumulate(map(len, documents))]
        ids = np.array([token for sentence in sentences for token in sentence], np.int32)
        starts = [0, *itertools.accumulate(map(len, sentences))]
        places = [Document(number, 0, *ends) for number, ends in enumerate(itertools.pairwise(borders))]
        return cls(ids, starts, [place for place in places if place.start < place.end], [])


def tokenize_block(
    block: Block,
    tokenize: Callable,
    *,
    unk_id: int,
    known_characters: KnownCharacters,
    split_sentences: Callable[[str], list[str]] | None,
    seed: int,
    held_out_rate: float,
) -> dict[str, TokenizedText]:
    """Returns the block's documents for each of `SPLITS`.

    Args:
        block: the text.
        tokenize: `BertTokenizer.tokenize`.
        unk_id: the id of [UNK], which is counted.
        known_characters: counts characters.
        split_sentences: makes sentences of a passage; None if passages are sentences.
        seed, held_out_rate: which documents are held out.
    """
    plan = [
        (SPLITS[is_held_out(seed, number, held_out_rate)], number, part, passages)
        for number, part, passages in block.documents()
    ]
    pools = zip(SPLITS, block.pools, strict=True)
    plan += [(f"{split} pool", -1, 0, pool.split(b"\n")) for split, pool in pools if pool]
    sentences = [_sentences(passages, split_sentences) for *_, passages in plan]
    ragged = tokenize([sentence for document in sentences for sentence in document])
    lengths = ragged.row_lengths().numpy()
    has_tokens = lengths > 0
    starts = [0, *np.cumsum(lengths[has_tokens]).tolist()]
    borders = np.cumsum([0, *map(len, sentences)])
    borders = np.concatenate([[0], np.cumsum(has_tokens)])[borders].tolist()
    groups: dict[str, list[Document]] = {name: [] for split in SPLITS for name in (split, f"{split} pool")}
    for (group, number, part, _), start, end in zip(plan, borders[:-1], borders[1:], strict=True):
        if start < end:
            groups[group].append(Document(number, part, start, end))
    ids = ragged.flat_values.numpy()
    num_unknown = np.concatenate([[0], np.cumsum(ids == unk_id)])
    texts = {}
    for split in SPLITS:
        characters = known_characters.count(
            passage for name, *_, passages in plan if name == split for passage in passages
        )
        tokens = _token_counts(groups[split], starts, num_unknown)
        texts[split] = TokenizedText(ids, starts, groups[split], _others(groups, split), (*tokens, *characters))
    return texts


def _token_counts(documents: list[Document], starts: list[int], num_unknown: np.ndarray) -> tuple[int, int]:
    """Returns how many tokens documents have, and how many are [UNK]; `num_unknown` is how many are before each."""
    first = [starts[document.start] for document in documents]
    last = [starts[document.end] for document in documents]
    return sum(last) - sum(first), int((num_unknown[last] - num_unknown[first]).sum())


def _others(groups: dict[str, list[Document]], split: str) -> list[Document]:
    """Returns the documents to borrow from if the split has but one: never held-out text for training."""
    if len(groups[split]) != 1:
        return []
    if groups[f"{split} pool"] or split == "train":
        return groups[f"{split} pool"]
    return groups["train"] or groups["train pool"]


def _sentences(passages: list[bytes], split_sentences: Callable[[str], list[str]] | None) -> list:
    if split_sentences is None:
        return passages
    return [sentence for passage in passages for sentence in split_sentences(passage.decode())]
