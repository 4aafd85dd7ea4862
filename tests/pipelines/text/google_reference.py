"""Google's `tokenization.py` (package bert-tensorflow 1.0.4), the reference for the tokenizer's ids.

It uses Python's `unicodedata`, which has Unicode 14.0.0 only in Python 3.11. With another Python, `select_comparable`
leaves out texts with one of the few characters whose properties have changed.
"""

import functools
import pathlib
import unicodedata
from collections.abc import Iterable, Sequence

import bert_keras.pipelines
from bert_keras.pipelines.text.text_rules import UNICODE_VERSION

from .make_unicode_table import table_lines

TABLE_PATH = pathlib.Path(bert_keras.pipelines.__file__).with_name("text") / (f"unicode_{UNICODE_VERSION}.txt")


class GoogleTokenizer:
    """Google's two tokenizers in sequence, with a cache of the ids of each word.

    Args:
        vocabulary: the tokens in the order of their ids.
        lowercase: Google's `do_lower_case`.
        max_input_chars_per_word: longer words become [UNK].
        basic: another word splitter with a method `tokenize`, for settings that Google's does not have.
    """

    def __init__(
        self, vocabulary: Sequence[str], *, lowercase: bool = True, max_input_chars_per_word: int = 100, basic=None
    ):
        tokenization = _tokenization()
        self._ids = {token: index for index, token in enumerate(vocabulary)}
        self._basic = basic or tokenization.BasicTokenizer(lowercase)
        self._word_piece = tokenization.WordpieceTokenizer(self._ids, max_input_chars_per_word=max_input_chars_per_word)
        self._word_token_ids: dict[str, list[int]] = {}

    def words(self, text: str | bytes) -> list[str]:
        """Return the words and punctuation marks, normalized."""
        return self._basic.tokenize(text.decode("utf-8", "ignore") if isinstance(text, bytes) else text)

    def word_token_ids(self, word: str) -> list[int]:
        """Return the token ids of one word."""
        if word not in self._word_token_ids:
            self._word_token_ids[word] = [self._ids[token] for token in self._word_piece.tokenize(word)]
        return self._word_token_ids[word]

    def ids(self, text: str | bytes) -> list[int]:
        """Return the token ids of a text."""
        return [index for word in self.words(text) for index in self.word_token_ids(word)]

    def word_ids(self, text: str | bytes) -> list[int]:
        """Return the index of the word of each token."""
        return [place for place, word in enumerate(self.words(text)) for _ in self.word_token_ids(word)]


@functools.cache
def _tokenization():
    from absl import flags

    flags.FLAGS.mark_as_parsed()  # it reads a flag for every word
    from bert import tokenization

    return tokenization


def select_comparable(texts: Iterable[str | bytes]) -> list[str | bytes]:
    """Return the texts whose characters have the same properties in this Python and in our Unicode table."""
    changed = _changed_characters()
    if not changed:
        return list(texts)
    return [
        text for text in texts if changed.isdisjoint(text if isinstance(text, str) else text.decode("utf-8", "ignore"))
    ]


@functools.cache
def _changed_characters() -> frozenset[str]:
    if unicodedata.unidata_version == UNICODE_VERSION:
        return frozenset()
    return changed_characters(TABLE_PATH.read_text(encoding="ascii").splitlines(), table_lines())


def changed_characters(lines: Iterable[str], other_lines: Iterable[str]) -> frozenset[str]:
    """Return the characters that differ between two Unicode tables, and those that become one of them."""
    facts, other_facts = (set(_facts(some)) for some in (lines, other_lines))
    changed = {chr(code) for _, code, _ in facts ^ other_facts}
    return frozenset(changed | {chr(code) for _, code, becomes in facts if not changed.isdisjoint(becomes)})


def _facts(lines: Iterable[str]):
    """Yield (property, code point, the string that it becomes)."""
    for line in lines:
        match line.split("\t"):
            case [name, code, becomes]:
                yield name, int(code, 16), "".join(chr(int(part, 16)) for part in becomes.split())
            case [name, ranges]:
                for part in ranges.split():
                    first, _, last = part.partition("-")
                    for code in range(int(first, 16), int(last or first, 16) + 1):
                        yield name, code, ""
