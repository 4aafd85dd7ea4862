"""How many characters of a text a vocabulary knows: cheap, since each different character is looked at once."""

import functools
import itertools
from collections.abc import Callable, Iterable

import numpy as np
from tokenizers import normalizers

from bert_keras.pipelines.records.tokenizer_spec import TokenizerSpec
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.token_splitter import TokenSplitter

_PART_BYTES = 1 << 20  # counted at a time: 2.4 ns a byte, next to 180 ns for all that is done to it; 25 MB of memory


class KnownCharacters:
    """Counts characters, those of them that stand in some token of a vocabulary, and those of words that are too long.

    Args:
        tokenizer: the vocabulary, and the rules that fold a character before it is looked up.
    """

    def __init__(self, tokenizer: TokenizerSpec):
        special_tokens = frozenset(tokenizer.special_tokens)
        tokens = (token.removeprefix("##") for token in tokenizer.vocabulary if token not in special_tokens)
        self._alphabet = set(itertools.chain.from_iterable(tokens))
        self._rules = tokenizer.rules
        self._normalize = text_normalizer(tokenizer.rules)
        self._ends_word = tokenizer.rules.spaces() | tokenizer.rules.own_words()
        self._special = TokenSplitter(tokenizer.additional_special_tokens)
        self._facts = functools.cache(self._facts_of)

    def count(self, passages: Iterable[bytes]) -> tuple[int, int, int]:
        """Return how many characters UTF-8 passages have, how many are known, and how many are in too long words.

        White space, what BERT drops, and special tokens do not count; a character that is folded to several counts as
        those. A word that is longer than `max_input_chars_per_word` becomes [UNK], whatever its characters.
        """
        totals = np.zeros(3, np.int64)
        for part in _parts(passages):
            text = "\n".join(self._special.split(part.decode()))
            codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
            counts = np.bincount(codes)
            found = np.flatnonzero(counts)
            facts = np.array([self._facts(code) for code in found.tolist()], np.int32).reshape(-1, 4)
            totals[:2] += counts[found] @ facts[:, :2]
            table = np.zeros((counts.size, 4), np.int32)
            table[found] = facts
            totals[2] += self._num_in_long_words(codes, table)
        return tuple(totals.tolist())

    def _num_in_long_words(self, codes: np.ndarray, table: np.ndarray) -> int:
        """Return how many characters of `codes` `(C,)` are in too long words; `table` has `_facts_of` by code."""
        limit = self._rules.max_input_chars_per_word
        borders = np.flatnonzero(table[:, 3].astype(bool)[codes])
        starts, ends = np.concatenate([[0], borders + 1]), np.concatenate([borders, [codes.size]])
        if ((ends - starts) * table[:, 2].max() <= limit).all():
            return 0
        lengths, numbers = (np.concatenate([[0], np.cumsum(column[codes])]) for column in table[:, [2, 0]].T)
        is_long = lengths[ends] - lengths[starts] > limit
        return int((numbers[ends] - numbers[starts])[is_long].sum())

    def _facts_of(self, code: int) -> tuple[int, int, int, int]:
        """Return of how many characters it is, how many of them are known, their length, and whether it ends a word."""
        characters = "".join(self._normalize(chr(code)).split())
        ends_word = bool(self._ends_word[[code, *map(ord, characters)]].any())
        length = len(characters.encode()) if self._rules.is_mediapipe else len(characters)
        return len(characters), sum(character in self._alphabet for character in characters), length, ends_word


def text_normalizer(rules: TextRules) -> Callable[[str], str]:
    """Return what folds case and strips accents as the rules say, without splitting anything."""
    if rules.is_mediapipe:
        return lambda text: "".join(character.lower() if character.isascii() else character for character in text)
    normalizer = normalizers.BertNormalizer(
        lowercase=rules.lowercase, strip_accents=rules.strip_accents, handle_chinese_chars=False
    )
    return normalizer.normalize_str


def _parts(passages: Iterable[bytes]) -> Iterable[bytes]:
    part, size = [], 0
    for passage in passages:
        part.append(passage)
        size += len(passage)
        if size >= _PART_BYTES:
            yield b"\n".join(part)
            part, size = [], 0
    if part:
        yield b"\n".join(part)
