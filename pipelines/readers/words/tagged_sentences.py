"""`TaggedSentence`, the words of a text, and the file that words are read from."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bert_keras.pipelines.corpus.text_lines import Line, limit_characters
from bert_keras.pipelines.readers.option_spelling import Spell
from bert_keras.pipelines.text.text_rules import TextRules

OUTSIDE = "O"
NumberedLines = Sequence[tuple[int, str]]


@dataclasses.dataclass(frozen=True)
class TaggedSentence:
    """A text, its words in order, and one tag per word.

    Every word is `text[start:end]`. Words do not overlap, with one exception: if the words of a CoNLL-U multiword token
    do not make up the token ("de" + "le" for "du"), all of them have its range and are "du".

    Attributes:
        text: the original text; for columns and lists of words, the words joined by spaces.
        words: W words.
        starts: the start of each word, in characters (Unicode code points).
        ends: the end of each word, exclusive.
        tags: W tags; None: the file has none, which is allowed in prediction.
        line: the line of the first word in the file, from 1.
    """

    text: str
    words: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    tags: tuple[str, ...] | None
    line: int

    @classmethod
    def from_ranges(
        cls, text: str, ranges: Sequence[tuple[int, int]], tags: Sequence[str] | None, line: int
    ) -> "TaggedSentence":
        """Create a sentence from a text and the (start, end) ranges of its words, at least one."""
        starts, ends = zip(*ranges, strict=True)
        words = tuple(text[start:end] for start, end in ranges)
        return cls(text, words, starts, ends, None if tags is None else tuple(tags), line)

    @classmethod
    def from_words(cls, words: Sequence[str], tags: Sequence[str] | None, line: int) -> "TaggedSentence":
        """Create a sentence from words, at least one, joined by spaces."""
        ends = list(itertools.accumulate(words, lambda end, word: end + 1 + len(word), initial=-1))[1:]
        ranges = [(end - len(word), end) for word, end in zip(words, ends, strict=True)]
        return cls.from_ranges(" ".join(words), ranges, tags, line)


def split_words(text: str, extra_ends: Iterable[int] = ()) -> list[tuple[int, int]]:
    """Return the (start, end) ranges of the words of a text, as BERT's basic tokenizer splits it.

    White space ends a word, and each punctuation or Chinese character is a word. Characters that BERT removes do not
    form a word alone.

    Args:
        text: any text.
        extra_ends: additional positions where a word ends, from 0 to the length of the text.

    Example:
        >>> split_words("it's so", extra_ends=[6])
        [(0, 2), (2, 3), (3, 4), (5, 6), (6, 7)]
    """
    if not text:
        return []
    space, dropped, own_word = _classify_code_points()
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    begins = np.zeros(len(codes) + 1, bool)
    begins[[0, *extra_ends]] = True
    begins[:-1] |= own_word[codes]
    begins[1:] |= own_word[codes]
    begins[1:-1] |= space[codes[1:]] != space[codes[:-1]]
    starts = np.flatnonzero(begins[:-1])
    seen = np.logical_or.reduceat(~(space | dropped)[codes], starts)
    ends = [*starts[1:].tolist(), len(codes)]
    return [pair for pair, is_word in zip(zip(starts.tolist(), ends, strict=True), seen, strict=True) if is_word]


@functools.cache
def _classify_code_points() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which code points are white space, removed, and single-character words, `(1114112,)` bool each."""
    rules = TextRules()
    return rules.spaces(), rules.dropped(), rules.single_words()


class WordFile(NamedTuple):
    """A file of tagged words.

    Attributes:
        name: its name in messages.
        word_column, tag_column, needs_tags, spell: as in `read_tagged_words`.
    """

    name: str
    word_column: int | str | None
    tag_column: int | str | None
    needs_tags: bool
    spell: Spell


def split_paragraphs(lines: Iterable[Line], name: str) -> Iterator[list[Line]]:
    """Yield the lines between blank lines; a -DOCSTART- line counts as blank. `name` is the file's name in messages."""

    def is_text(line: Line) -> bool:
        return bool(line.text.strip() or line.error) and not line.text.startswith("-DOCSTART-")

    for has_text, run in itertools.groupby(lines, key=is_text):
        if has_text:
            yield list(limit_characters(run, name, "sentence"))


def split_lines(lines: Iterable[Line], name: str) -> Iterator[list[Line]]:
    """Yield each line that is not blank."""
    return ([line] for line in lines if line.text.strip() or line.error)


def find_first_missing(tags: Sequence[str], needs_tags: bool) -> int | None:
    """Return the index of the first empty tag; None if no tag is empty, or if all are and none is needed."""
    return tags.index("") if "" in tags and (needs_tags or any(tags)) else None
