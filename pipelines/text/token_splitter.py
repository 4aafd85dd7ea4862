"""Text split at special tokens in Python, the leftmost first, and of those the longest, as the tokenizer finds them."""

import re
from collections.abc import Iterable


class TokenSplitter:
    """Splits text at tokens.

    A text is searched for the characters that begin a token, and only there tokens are looked up. An alternation of all
    tokens as a regular expression tries one after the other: 7.4 us a byte with 4,000 of them.

    Args:
        tokens: none is empty.
    """

    def __init__(self, tokens: Iterable[str]):
        self._tokens = frozenset(tokens)
        lengths: dict[str, set[int]] = {}
        for token in self._tokens:
            lengths.setdefault(token[0], set()).add(len(token))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        self._first = re.compile("[" + "".join(map(re.escape, sorted(lengths))) + "]") if lengths else None

    def split(self, text: str) -> list[str]:
        """Return the parts of a text between the tokens, empty ones too: one more than it has tokens."""
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
        """Return the length of the longest token at a place, 0 if there is none."""
        lengths = self._lengths[text[start]]
        return next((length for length in lengths if text[start : start + length] in self._tokens), 0)
