"""`TokenArrays`: the tokens of a column of texts as NumPy arrays, whichever tokenizer made them."""

import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class TokenArrays:
    """The tokens of N texts, concatenated to P tokens, without special tokens around the texts.

    Attributes:
        token_ids: `(P,)` int32.
        row_splits: `(N + 1,)` int64; text n has the tokens `row_splits[n]` to `row_splits[n + 1]`.
        starts, ends: `(P,)` int32, the range of characters of its text that became each token. None unless offsets
            were requested.
        word_ids: `(P,)` int32, the index of each token's word in its text. A punctuation mark is a word. None unless
            offsets were requested.
    """

    token_ids: np.ndarray
    row_splits: np.ndarray
    starts: np.ndarray | None = None
    ends: np.ndarray | None = None
    word_ids: np.ndarray | None = None

    @property
    def lengths(self) -> np.ndarray:
        """Length of each text in tokens, `(N,)`."""
        return np.diff(self.row_splits)

    @property
    def text_positions(self) -> np.ndarray:
        """Position of each token in its text, `(P,)`."""
        return np.arange(len(self.token_ids)) - np.repeat(self.row_splits[:-1], self.lengths)

    @property
    def word_starts(self) -> np.ndarray:
        """Start of each token's word in its text, `(P,)`."""
        first_tokens, _, words = self._words
        return self.starts[first_tokens[words]]

    @property
    def word_ends(self) -> np.ndarray:
        """End of each token's word in its text, `(P,)`."""
        _, last_tokens, words = self._words
        return self.ends[last_tokens[words]]

    @functools.cached_property
    def _words(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first and the last token of each word of all texts, and the word of each token."""
        is_first = np.ones(len(self.word_ids), bool)
        is_first[1:] = self.word_ids[1:] != self.word_ids[:-1]
        is_first[self.row_splits[:-1][self.lengths > 0]] = True  # words of two texts can have the same id
        first_tokens = np.flatnonzero(is_first)
        return first_tokens, np.append(first_tokens[1:], len(self.word_ids)) - 1, np.cumsum(is_first) - 1
