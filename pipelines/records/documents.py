"""The text of records, as a stream of passages with an empty one after each document.

A passage is a sentence, or a paragraph that is split into sentences later. The text is read once, in order, and its
size and SHA-256 are computed on the way.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from bert_keras.checks import quote
from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_sources import TextSource, get_total_bytes, read_source

_SENTENCE_MODES = ("lines", "split")


class DocumentText:
    """Documents in memory.

    Args:
        documents: lists of sentences; read once.
        name: name of the source in the manifest.
    """

    def __init__(self, documents: Iterable[Sequence[str]], *, name: str = "documents"):
        self._documents, self._name, self._digest = documents, name, None
        self.sentences = "lines"
        self.num_bytes_read, self.num_bytes = 0, None

    @property
    def names(self) -> list[str]:
        """The name of the source, in a list of one."""
        return [self._name]

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
        try:
            self._digest.update(f"{passage}\n".encode())
        except UnicodeEncodeError:
            raise InputError(
                f"the sentence {quote(passage)} has half a surrogate pair; expected valid Unicode: repair the text"
            ) from None
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
        self._digests: list[tuple[TextSource, _Digest]] = []
        self.num_bytes_read, self.num_bytes = 0, get_total_bytes(self._sources)

    @property
    def names(self) -> list[str]:
        """The names of the sources."""
        return [_escape_name(source) for source in self._sources]

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
