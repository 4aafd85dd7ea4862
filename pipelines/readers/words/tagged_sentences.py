"""Sentences of tagged words, the tags they may have, and the words of a text."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from bert_keras.pipelines.text.text_rules import TextRules

OUTSIDE = "O"


@dataclasses.dataclass(frozen=True)
class TaggedSentence:
    """A text, its words in order, and a tag for each.

    `text[start:end]` is the word, for every word. Words do not overlap, with one exception: words of a CoNLL-U
    multiword token whose forms do not make up the token ("de" + "le" for "du") all have its range and are all "du".

    Attributes:
        text: the text as it was written; for columns and lists of words, which do not tell it, the words with a
            space between.
        words: what stands at the ranges.
        starts: where each word begins, in characters (Unicode code points).
        ends: where each word ends, exclusive.
        tags: as many as words; None where the file has none, which it may for prediction.
        line: where the first word is in the file, from 1.
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
        """Returns the sentence of a text whose words stand at these ranges, one or more."""
        starts, ends = zip(*ranges, strict=True)
        words = tuple(text[start:end] for start, end in ranges)
        return cls(text, words, starts, ends, None if tags is None else tuple(tags), line)

    @classmethod
    def from_words(cls, words: Sequence[str], tags: Sequence[str] | None, line: int) -> "TaggedSentence":
        """Returns the sentence of words, one or more, with a space between."""
        ends = list(itertools.accumulate(words, lambda end, word: end + 1 + len(word), initial=-1))[1:]
        ranges = [(end - len(word), end) for word, end in zip(words, ends, strict=True)]
        return cls.from_ranges(" ".join(words), ranges, tags, line)


def split_words(text: str, borders: Iterable[int] = ()) -> list[tuple[int, int]]:
    """Returns the ranges of a text's words, as BERT's tokenizer has words.

    White space ends a word; each punctuation character and each Chinese one is a word; characters that BERT drops
    are no word alone.

    Args:
        text: any text.
        borders: places where a word ends in any case, from 0 to the text's length.

    Example:
        >>> split_words("it's so", borders=[6])
        [(0, 2), (2, 3), (3, 4), (5, 6), (6, 7)]
    """
    if not text:
        return []
    space, dropped, own_word = _character_kinds()
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    begins = np.zeros(len(codes) + 1, bool)
    begins[[0, *borders]] = True
    begins[:-1] |= own_word[codes]
    begins[1:] |= own_word[codes]
    begins[1:-1] |= space[codes[1:]] != space[codes[:-1]]
    starts = np.flatnonzero(begins[:-1])
    seen = np.logical_or.reduceat(~(space | dropped)[codes], starts)
    ends = [*starts[1:].tolist(), len(codes)]
    return [pair for pair, is_word in zip(zip(starts.tolist(), ends, strict=True), seen, strict=True) if is_word]


@functools.cache
def _character_kinds() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns which code points are white space, dropped, and words of their own, `(1114112,)` bool each."""
    rules = TextRules()
    return rules.spaces(), rules.dropped(), rules.own_words()
