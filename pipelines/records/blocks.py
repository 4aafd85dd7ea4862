"""Blocks: bounded runs of documents, each worked on by itself, whose borders depend on the text alone.

Everything random in a block is a function of (seed, document number), and everything a block needs stands in it, so
blocks can be made by anybody, in any order, and again after a crash.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

SPLITS = ("train", "held_out")
_NUM_ALWAYS_TRAINED = 2  # so that the smallest text has a document, and another one for its wrong next sentences
_POOL_BYTES = 1 << 16  # of a document seen before, for a block that has no second one
_MAX_POOL_PASSAGES = 1024
_MAX_PARTS = 2  # a document may lengthen a block to this many times its size, then it is cut


class Shard(NamedTuple):
    """The rows of one split of a block: `content` is a TFRecord file, `counts` all counts of `manifest`."""

    content: bytes
    counts: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Block:
    """A run of documents.

    Attributes:
        index: the place of the block in the text, from 0.
        first_document: the number of its first document in the text, from 0; the others count up from it.
        first_part: 0 if that document begins here, else which part of it this is.
        text: UTF-8, a passage a line, a blank line between documents.
        pools: for each of `SPLITS` the beginning of an earlier document, a passage a line; empty if there was none.
            Where the text's first document fills the block, that of a later one.
    """

    index: int
    first_document: int
    first_part: int
    text: bytes
    pools: tuple[bytes, bytes] = (b"", b"")

    @property
    def digest(self) -> str:
        """The SHA-256 of everything above: equal blocks give equal rows."""
        head = repr((self.index, self.first_document, self.first_part, *map(len, (self.text, *self.pools))))
        return hashlib.sha256(b"".join((head.encode(), self.text, *self.pools))).hexdigest()

    def documents(self) -> Iterator[tuple[int, int, list[bytes]]]:
        """Yields (document number, part, passages) of the documents in their order."""
        for place, document in enumerate(self.text.split(b"\n\n") if self.text else ()):
            yield self.first_document + place, 0 if place else self.first_part, document.split(b"\n")


def is_held_out(seed: int, document: int, rate: float) -> bool:
    """Whether the document of this number is kept from training: a hash decides, but the first two never are."""
    if rate == 0 or document < _NUM_ALWAYS_TRAINED:
        return False
    digest = hashlib.blake2b(f"{seed} {document}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") < rate * 2**64


def plan_blocks(
    passages: Iterable[str],
    *,
    block_bytes: int,
    seed: int,
    held_out_rate: float,
    read_again: Callable[[], Iterable[str]] | None = None,
) -> Iterator[Block]:
    """Yields the blocks of a text, one at a time, in memory of about three of them.

    A block ends with the document that fills it. A document that reaches twice `block_bytes` is cut there, and its next
    part begins the next block; both parts keep its number.

    Args:
        passages: see `text`; an empty one ends a document.
        block_bytes: how much text fills a block.
        seed, held_out_rate: which documents are held out, so that each split gets a pool of its own.
        read_again: gives the passages from their beginning once more: where a block holds the text's first document
            alone, its pool is looked for behind it. None: such a block has no pool.
    """
    pools = _Pools(seed, held_out_rate, read_again)
    builder = _Builder()
    for passage in passages:
        builder.add(passage)
        is_full = builder.num_bytes >= block_bytes and not passage
        if is_full or builder.num_bytes >= _MAX_PARTS * block_bytes:
            block = builder.finished(pools)
            pools.remember(block)
            yield block
    if builder.num_bytes:
        yield builder.finished(pools)


class _Builder:
    """Gathers passages, and numbers blocks, documents and their parts."""

    def __init__(self):
        self._index = self._document = self._part = 0
        self._start_anew()

    def _start_anew(self) -> None:
        self._first = (self._document, self._part)
        self._lines: list[str] = []
        self.num_bytes = 0

    def add(self, passage: str) -> None:
        if passage:
            self._lines.append(passage)
            self.num_bytes += (len(passage) if passage.isascii() else len(passage.encode())) + 1
        elif self._lines and self._lines[-1]:
            self._lines.append("")
            self._document, self._part = self._document + 1, 0
        elif not self._lines and self._part:  # the document ended where it was cut
            self._document, self._part = self._document + 1, 0
            self._first = (self._document, 0)

    def finished(self, pools: "_Pools") -> Block:
        """Returns the block that was gathered, and starts the next one."""
        if self._lines[-1]:
            self._part += 1
        else:
            self._lines.pop()
        document, part = self._first
        text = "\n".join(self._lines).encode()
        found = pools.before(document)
        if not found[0] and b"\n\n" not in text:
            found = (pools.behind(document), found[1])
        block = Block(self._index, document, part, text, found)
        self._index += 1
        self._start_anew()
        return block


class _Pools:
    """The last documents of each split, in short, for blocks that have no second document."""

    def __init__(self, seed: int, held_out_rate: float, read_again: Callable[[], Iterable[str]] | None):
        self._seed, self._rate, self._read_again = seed, held_out_rate, read_again
        self._behind: bytes | None = None
        self._latest: dict[str, list[tuple[int, bytes]]] = {split: [] for split in SPLITS}

    def remember(self, block: Block) -> None:
        documents = [(number, passages) for number, _, passages in block.documents()]
        for split, latest in self._latest.items():
            of_split = [entry for entry in documents if self._split_of(entry[0]) == split][-2:]
            numbers = {number for number, _ in of_split}
            kept = [entry for entry in latest if entry[0] not in numbers]
            latest[:] = [*kept, *((number, _beginning(passages)) for number, passages in of_split)][-2:]

    def before(self, document: int) -> tuple[bytes, bytes]:
        """Returns for each split the latest document with a lower number."""
        found = dict.fromkeys(SPLITS, b"")
        for split, latest in self._latest.items():
            for number, text in latest:
                if number < document:
                    found[split] = text
        return tuple(found.values())

    def behind(self, document: int) -> bytes:
        """Returns the beginning of the first document to train on with a higher number; the text is read again once."""
        if self._behind is None:
            self._behind = b""
            passages = self._read_again() if self._read_again else ()
            for number, group in itertools.groupby(_numbered(passages), key=lambda entry: entry[0]):
                if number > document and self._split_of(number) == "train":
                    first = itertools.islice(group, _MAX_POOL_PASSAGES)
                    self._behind = _beginning([passage.encode() for _, passage in first])
                    break
        return self._behind

    def _split_of(self, document: int) -> str:
        return SPLITS[is_held_out(self._seed, document, self._rate)]


def _numbered(passages: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yields each passage with the number of its document."""
    number, is_inside = 0, False
    for passage in passages:
        if passage:
            yield number, passage
        number, is_inside = number + (is_inside and not passage), bool(passage)


def _beginning(passages: list[bytes]) -> bytes:
    """Returns as many passages as fit the pool, the first one in any case."""
    end, length = 0, 0
    while end < min(len(passages), _MAX_POOL_PASSAGES) and (not end or length + len(passages[end]) < _POOL_BYTES):
        length += len(passages[end]) + 1
        end += 1
    return b"\n".join(passages[:end])
