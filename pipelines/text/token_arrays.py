"""Batches of texts and of their tokens as NumPy arrays, without TensorFlow, for every tokenizer."""

import dataclasses
import functools
from typing import Any

import numpy as np

from bert_keras.checks import quote
from bert_keras.errors import InputError


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


def as_text_array(texts: Any) -> np.ndarray:
    """Return a batch of texts as an object array `(B,)` of strings.

    Raises:
        InputError: `texts` is not a batch of valid strings.
    """
    array = np.asarray(texts, dtype=object)
    if array.ndim != 1:
        kind = "one text" if isinstance(texts, str | bytes) else f"an array of {array.ndim} dimensions"
        raise InputError(f"the tokenizer received {kind}; expected a batch of texts, shape (B,): pass a list of texts")
    for index, text in enumerate(array):
        if not isinstance(text, str | bytes):
            raise InputError(f"text {index} is {quote(text)}, a {type(text).__name__}; expected a string: convert it")
        if isinstance(text, str) and not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(f"text {index} has half a surrogate pair; expected valid Unicode: repair the text")
    return array
