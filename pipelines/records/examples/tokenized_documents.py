"""The documents of a block as token ids: one flat array with the starts of sentences and documents."""

import dataclasses
from collections.abc import Callable

import numpy as np

from bert_keras.pipelines.records.blocks import SPLITS, Block, is_held_out
from bert_keras.pipelines.records.known_characters import KnownCharacters


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
    """Tokenize the documents of a block and return them keyed by split.

    Args:
        block: the block of text.
        tokenize: `BertTokenizer.tokenize`.
        unk_id: the id of [UNK], for the counts.
        known_characters: the counter of characters.
        split_sentences: splits a passage into sentences; None if passages are sentences.
        seed, held_out_rate: determine which documents are held out.
    """
    plan = [
        (SPLITS[is_held_out(seed, number, held_out_rate)], number, part, passages)
        for number, part, passages in block.documents()
    ]
    pools = zip(SPLITS, block.pools, strict=True)
    plan += [(f"{split} pool", -1, 0, pool.split(b"\n")) for split, pool in pools if pool]
    sentences = [_split_passages(passages, split_sentences) for *_, passages in plan]
    ragged = tokenize([sentence for document in sentences for sentence in document])
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
    num_unknown = np.concatenate([[0], np.cumsum(ids == unk_id)])
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


def _split_passages(passages: list[bytes], split_sentences: Callable[[str], list[str]] | None) -> list[bytes | str]:
    if split_sentences is None:
        return passages
    return [sentence for passage in passages for sentence in split_sentences(passage.decode())]
