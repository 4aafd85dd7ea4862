"""Splitting text at special tokens in Python, at the same leftmost-longest matches as in the tokenizer."""

import re
from collections.abc import Iterable


class TokenSplitter:
    """Split text at tokens.

    The text is searched for the first characters of tokens, and tokens are looked up only there. A regular expression
    with all tokens as alternatives tries one after the other: 7.4 us per byte with 4,000 tokens.

    Args:
        tokens: the tokens, none of which is empty.
    """

    def __init__(self, tokens: Iterable[str]):
        self._tokens = frozenset(tokens)
        lengths: dict[str, set[int]] = {}
        for token in self._tokens:
            lengths.setdefault(token[0], set()).add(len(token))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        self._first = re.compile("[" + "".join(map(re.escape, sorted(lengths))) + "]") if lengths else None

    def split(self, text: str) -> list[str]:
        """Return the parts of a text between tokens, including empty ones: one part more than tokens."""
        if self._first is None:
            return [text]
        parts, end = [], 0
        for match in self._first.finditer(text):
            start = match.start()
            if start >= end and (length := self._length_at(text, start)):
                parts.append(text[end:start])
                end = start + length
        return [*parts, text[end:]]

    def _length_at(self, text: str, start: int) -> int:
        """Return the length of the longest token at `start`, or 0."""
        lengths = self._lengths[text[start]]
        return next((length for length in lengths if text[start : start + length] in self._tokens), 0)
