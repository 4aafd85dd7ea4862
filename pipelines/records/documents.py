"""The text of records, as a stream of passages with an empty one after each document, and its blocks.

A passage is a sentence, or a paragraph that is split into sentences later. The text is read once, in order, and its
size and SHA-256 are computed on the way.

A block is a run of documents of bounded size, processed independently. Its bounds depend on the text only. Everything
random in a block is a function of (seed, document number), and a block contains all it needs. Blocks can therefore be
processed by any process, in any order, and again after a crash.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_lines import encode_sentence
from bert_keras.pipelines.corpus.text_sources import TextSource, get_total_bytes, read_source
from bert_keras.pipelines.records.settings import RecordSettings

_SENTENCE_MODES = ("lines", "split")
SPLITS = ("train", "held_out")
_NUM_ALWAYS_TRAINED = 2  # the smallest text then has a document, and another for its random next sentences
_POOL_BYTES = 1 << 16  # of an earlier document, for a block that has no second one
_MAX_POOL_PASSAGES = 1024
_MAX_PARTS = 2  # a document is cut when it makes the block this many times as large as `block_bytes`


class DocumentText:
    """Documents in memory.

    Args:
        documents: lists of sentences; read once.
        name: name of the source in the manifest.
    """

    def __init__(self, documents: Iterable[Sequence[str]], *, name: str = "documents"):
        self._documents, self._name, self._digest = documents, name, None
        self.names = [name]
        self.sentences = "lines"
        self.num_bytes_read, self.num_bytes = 0, None

    def facts(self) -> list[dict]:
        """Return `name`, `bytes` and `sha256` of the text that was read, one sentence per line."""
        return [{"name": self._name, **self._digest.facts()}]

    def reopen(self) -> "DocumentText | None":
        """Return the same text, unread; None if the documents can be read only once."""
        return None if iter(self._documents) is self._documents else DocumentText(self._documents, name=self._name)

    def passages(self) -> Iterator[str]:
        """Yield the stripped sentences, and "" after each document."""
        self._digest = _Digest()
        for document in self._documents:
            for sentence in document:
                passage = " ".join(sentence.split("\n")).strip()
                if passage:
                    yield self._read(passage)
            yield self._read("")

    def _read(self, passage: str) -> str:
        self._digest.update(encode_sentence(passage) + b"\n")
        self.num_bytes_read = self._digest.num_bytes
        return passage


class FileText:
    """Text files or standard input.

    Args:
        sources: the sources from `text_sources.find_sources`, read in this order. A document never spans two.
        field: the field of a JSON record with the text.
        sentences: "lines": each line is a sentence, a blank line ends the document, and a JSON record is a document.
            "split": running text; each file or JSON record is a document, blank lines end paragraphs, other line ends
            have no meaning, and passages are paragraphs.
    """

    def __init__(self, sources: Sequence[TextSource], *, field: str = "text", sentences: str = "lines"):
        if sentences not in _SENTENCE_MODES:
            raise InputError(f"sentences is {sentences!r}; expected one of {', '.join(_SENTENCE_MODES)}")
        self._sources, self._field, self.sentences = list(sources), field, sentences
        self.names = [_escape_name(source) for source in self._sources]
        self._digests: list[tuple[TextSource, _Digest]] = []
        self.num_bytes_read, self.num_bytes = 0, get_total_bytes(self._sources)

    def facts(self) -> list[dict]:
        """Return `name`, `bytes` and `sha256` of each source's unpacked text; `sha256sum` prints the same."""
        return [{"name": _escape_name(source), **digest.facts()} for source, digest in self._digests]

    def reopen(self) -> "FileText | None":
        """Return the same text, unread; None if a source is a pipe or standard input."""
        if self.num_bytes is None:
            return None
        return FileText(self._sources, field=self._field, sentences=self.sentences)

    def passages(self) -> Iterator[str]:
        """Yield the passages, and "" after each document.

        Raises:
            InputError: a source is not UTF-8, has NUL bytes, is damaged gzip, has a line that is not a JSON record
                with that field, or was named and has no text. The message has the file and the line.
        """
        self._digests = [(source, _Digest()) for source in self._sources]
        for source, digest in self._digests:
            yield from read_source(
                source,
                field=self._field,
                join_paragraphs=self.sentences == "split",
                on_read=self._count,
                on_line=digest.update,
            )

    def _count(self, num_bytes: int) -> None:
        self.num_bytes_read += num_bytes


class _Digest:
    """The size and SHA-256 of bytes that come in small parts."""

    def __init__(self) -> None:
        self._hash, self.num_bytes = hashlib.sha256(), 0

    def update(self, part: bytes) -> None:
        """Add a part."""
        self._hash.update(part)
        self.num_bytes += len(part)

    def facts(self) -> dict:
        """Return the size and the SHA-256 of all parts."""
        return {"bytes": self.num_bytes, "sha256": self._hash.hexdigest()}


def _escape_name(source: TextSource) -> str:
    """Return the name of a source for JSON; bytes that are not UTF-8 are escaped."""
    return str(source).encode("utf-8", "backslashreplace").decode()


class Shard(NamedTuple):
    """The records of one split of a block: a TFRecord file and the counts for the manifest."""

    content: bytes
    counts: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Block:
    """A run of documents.

    Attributes:
        index: the index of the block in the text, from 0.
        first_document: the number of its first document in the text, from 0; the others are numbered consecutively.
        first_part: 0 if that document starts in this block, otherwise the index of its part.
        text: UTF-8, one passage per line, with a blank line between documents.
        pools: for each of `SPLITS` the beginning of an earlier document, one passage per line; empty if there is none.
            If the first document of the text fills the block, the beginning of a later document.
    """

    index: int
    first_document: int
    first_part: int
    text: bytes
    pools: tuple[bytes, bytes] = (b"", b"")

    @property
    def digest(self) -> str:
        """The SHA-256 of all attributes. Blocks with equal digests give equal records."""
        head = repr((self.index, self.first_document, self.first_part, *map(len, (self.text, *self.pools))))
        return hashlib.sha256(b"".join((head.encode(), self.text, *self.pools))).hexdigest()

    def documents(self) -> Iterator[tuple[int, int, list[bytes]]]:
        """Yield (document number, part, passages) of each document in order."""
        for index, document in enumerate(self.text.split(b"\n\n") if self.text else ()):
            yield self.first_document + index, 0 if index else self.first_part, document.split(b"\n")


def is_held_out(seed: int, document: int, rate: float) -> bool:
    """Whether a document is held out from training. A hash of its number decides; the first two are always trained."""
    if rate == 0 or document < _NUM_ALWAYS_TRAINED:
        return False
    digest = hashlib.blake2b(f"{seed} {document}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") < rate * 2**64


def plan_blocks(
    passages: Iterable[str], settings: RecordSettings, reread: Callable[[], Iterable[str]] | None = None
) -> Iterator[Block]:
    """Yield the blocks of a text one at a time; about three of them are in memory.

    A block ends with the document that fills it. A document that reaches twice `block_bytes` is cut, and its next part
    starts the next block with the same document number.

    Args:
        passages: sentences or paragraphs; an empty one ends a document.
        settings: the settings of the records. The seed and the share that is held out matter too, since each split has
            its own pool.
        reread: returns the passages from their beginning, to find the pool of a block that holds only the first
            document of the text. None: such a block has no pool.
    """
    pools = _Pools(settings, reread)
    builder = _BlockBuilder()
    for passage in passages:
        builder.add(passage)
        is_full = builder.num_bytes >= settings.block_bytes and not passage
        if is_full or builder.num_bytes >= _MAX_PARTS * settings.block_bytes:
            pools.previous = builder.build(pools)
            yield pools.previous
    if builder.num_bytes:
        yield builder.build(pools)


class _BlockBuilder:
    """Collects passages, and numbers blocks, documents and their parts."""

    def __init__(self) -> None:
        self._index = self._document = self._part = 0
        self._start_block()

    def _start_block(self) -> None:
        self._first = (self._document, self._part)
        self._lines: list[str] = []
        self.num_bytes = 0

    def add(self, passage: str) -> None:
        """Add a passage; an empty one ends the document."""
        if passage:
            self._lines.append(passage)
            self.num_bytes += (len(passage) if passage.isascii() else len(passage.encode())) + 1
        elif self._lines and self._lines[-1]:
            self._lines.append("")
            self._document, self._part = self._document + 1, 0
        elif not self._lines and self._part:  # the document ended where it was cut
            self._document, self._part = self._document + 1, 0
            self._first = (self._document, 0)

    def build(self, pools: "_Pools") -> Block:
        """Return the block of the collected passages and start the next one."""
        if self._lines[-1]:
            self._part += 1
        else:
            self._lines.pop()
        document, part = self._first
        text = "\n".join(self._lines).encode()
        found = pools.find_earlier(document)
        if not found[0] and b"\n\n" not in text:
            found = (pools.find_later(document), found[1])
        block = Block(self._index, document, part, text, found)
        self._index += 1
        self._start_block()
        return block


class _Pools:
    """The beginning of the last document of each split, for blocks that have no second document."""

    def __init__(self, settings: RecordSettings, reread: Callable[[], Iterable[str]] | None):
        self._settings, self._reread = settings, reread
        self._later: bytes | None = None
        self._latest = dict.fromkeys(SPLITS, b"")
        self.previous: Block | None = None

    def find_earlier(self, document: int) -> tuple[bytes, bytes]:
        """Return for each split the latest document with a lower number; `previous` is the block before it."""
        found = {}
        for number, _, passages in self.previous.documents() if self.previous else ():
            if number < document:
                found[self._split(number)] = passages
        self._latest |= {split: _cut_pool(passages) for split, passages in found.items()}
        return tuple(self._latest.values())

    def find_later(self, document: int) -> bytes:
        """Return the beginning of the first training document with a higher number. The text is reread once."""
        if self._later is None:
            self._later = b""
            passages = self._reread() if self._reread else ()
            for number, group in itertools.groupby(_number_documents(passages), key=lambda entry: entry[0]):
                if number > document and self._split(number) == "train":
                    first = itertools.islice(group, _MAX_POOL_PASSAGES)
                    self._later = _cut_pool([passage.encode() for _, passage in first])
                    break
        return self._later

    def _split(self, document: int) -> str:
        return SPLITS[is_held_out(self._settings.seed, document, self._settings.held_out_rate)]


def _number_documents(passages: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield each passage with the number of its document."""
    number, is_inside = 0, False
    for passage in passages:
        if passage:
            yield number, passage
        number, is_inside = number + (is_inside and not passage), bool(passage)


def _cut_pool(passages: list[bytes]) -> bytes:
    """Return as many passages as fit into a pool, but at least one."""
    end, length = 0, 0
    while end < min(len(passages), _MAX_POOL_PASSAGES) and (not end or length + len(passages[end]) < _POOL_BYTES):
        length += len(passages[end]) + 1
        end += 1
    return b"\n".join(passages[:end])
