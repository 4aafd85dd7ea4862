"""BERT's text rules as one number per character: its replacement, and its effect on its neighbours.

A `CharacterTable` applies `TextRules` to every code point once, for one vocabulary, so that the graph only looks up
characters (`characters.py`).

The rewritten text has a separate alphabet: printable ASCII does not change, each other character of the vocabulary is
replaced by a stand-in, and all other characters share one stand-in that is in no token. The stand-ins of letters are in
Unicode's private use areas, which no library treats as spaces or marks; those of single-character words are Chinese
characters, which tensorflow-text splits off by fixed ranges. So the ids do not depend on any library's Unicode version.
"""

import functools
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from bert_keras.errors import InputError
from bert_keras.pipelines.text.text_rules import CHINESE, TextRules
from bert_keras.pipelines.text.unicode_table import unicode_table

# The code of a character has 31 bits. The low 21 are its stand-in or, with SEVERAL, the index of its sequence of codes.
LOW_BITS = (1 << 21) - 1
IN_WORD = 1 << 21  # part of a word: neither a space nor a single-character word
DROPPED = 1 << 22
SEVERAL = 1 << 23
NOT_STARTER = 1 << 24  # NFD may move characters across it
RANK_SHIFT, MAX_RANK = 25, 7  # rank of the canonical combining class, of the few marks that are not dropped
CASED = 1 << 28
IGNORABLE = 1 << 29  # skipped in the search for the next cased character
SIGMA = 1 << 30  # capital sigma: its lower case depends on its neighbours
COMPLEX = DROPPED | SEVERAL | SIGMA | MAX_RANK << RANK_SHIFT  # needs more than a replacement by its stand-in

_CAPITAL_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2
_PRIVATE_USE = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
_UNKNOWN_LETTER, _UNKNOWN_WORD = _PRIVATE_USE[0][0], CHINESE[0][0]  # the stand-ins of characters in no token
_UNKNOWN = _UNKNOWN_LETTER | IN_WORD
_BLOCK = 256  # code points, as in `characters.py`


class CharacterTable:
    """The code of every character, for one set of text rules and one vocabulary.

    Args:
        rules: the text rules.
        tokens: the vocabulary.
        special_tokens: the tokens that are matched before text is split.

    Attributes:
        blocks: `(4352,)` int32, the index in `codes` of each block of 256 code points.
        codes: `(different blocks, 256)` int32.
        sequence_starts: `(sequences + 1,)` int32, the start of each sequence in `sequence_codes`.
        sequence_codes: `(codes of all sequences,)` int32.
        unknown: the code of a letter that is in no token.
        final_sigma: the code of a final sigma.
        special: the code of each of `special_tokens`, which are single-character words.

    Raises:
        InputError: the tokens have more different characters than there are stand-ins.
    """

    def __init__(self, rules: TextRules, tokens: Sequence[str], special_tokens: Sequence[str]):
        single_words = rules.single_words()
        self._stand_ins = _choose_stand_ins(tokens, single_words, len(special_tokens))
        self.unknown = _UNKNOWN
        self.special = [_UNKNOWN_WORD + 1 + index for index in range(len(special_tokens))]
        self.final_sigma = _make_code(_FINAL_SIGMA, single_words, self._stand_ins)
        self.blocks, self.codes, self.sequence_starts, self.sequence_codes = _make_arrays(
            rules, tuple(self._stand_ins.items())
        )

    def rewrite_token(self, token: str) -> str:
        """Return a token of the vocabulary in the alphabet of the rewritten text."""
        return "".join(chr(self._stand_ins.get(ord(character), ord(character))) for character in token)

    def normalize(self, text: str) -> tuple[int, ...]:
        """Return the stand-ins of a text, without the rules for a final sigma and the order of marks."""
        found = []
        for point in map(ord, text):
            code = int(self.codes[self.blocks[point // _BLOCK], point % _BLOCK])
            if code & SEVERAL:
                start, end = self.sequence_starts[code & LOW_BITS :][:2]
                found += self.sequence_codes[start:end].tolist()
            elif not code & DROPPED:
                found.append(code)
        return tuple(code & LOW_BITS for code in found)

    def is_known(self, stand_ins: Iterable[int]) -> bool:
        """Whether all characters are in the vocabulary, so that each has its own stand-in."""
        return not {_UNKNOWN_LETTER, _UNKNOWN_WORD} & set(stand_ins)


@functools.lru_cache(maxsize=4)  # takes 0.15 s; vocabularies with the same alphabet share it
def _make_arrays(rules: TextRules, stand_ins: tuple[tuple[int, int], ...]) -> tuple[np.ndarray, ...]:
    """Return `blocks`, `codes`, `sequence_starts` and `sequence_codes` of a `CharacterTable`, read-only.

    Args:
        rules: the text rules.
        stand_ins: each character of the vocabulary beyond printable ASCII, with its stand-in.
    """
    codes, sequences = _make_codes(rules, dict(stand_ins))
    different: dict[bytes, int] = {}
    blocks = [different.setdefault(block.tobytes(), len(different)) for block in codes.reshape(-1, _BLOCK)]
    packed = (
        np.array(blocks, np.int32),
        np.frombuffer(b"".join(different), np.int32).reshape(-1, _BLOCK),
        np.cumsum([0, *map(len, sequences)]).astype(np.int32),
        np.array([*itertools.chain.from_iterable(sequences)], np.int32),
    )
    for array in packed:
        array.flags.writeable = False
    return packed


def _make_codes(rules: TextRules, stand_ins: dict[int, int]) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """Return the code of each code point, and the sequences of those that become several characters."""
    unicode, single_words = unicode_table(), rules.single_words()
    unchanged = np.where(single_words, _UNKNOWN_WORD, _UNKNOWN).astype(np.int32)
    for code in (*range(0x21, 0x7F), *stand_ins):
        unchanged[code] = _make_code(code, single_words, stand_ins)
    if rules.strip_accents:
        unchanged[unicode.mark] = DROPPED
        unchanged |= np.where(unicode.combining_class > 0, NOT_STARTER, 0) | _rank_classes() << RANK_SHIFT
    codes = unchanged.copy()
    sequences: list[tuple[int, ...]] = [(_UNKNOWN,)]  # never used; a lookup needs a table that is not empty
    for code, becomes in rules.changes().items():
        codes[code] = _combine([int(unchanged[part]) for part in becomes], sequences)
    if rules.lowercase and not rules.is_mediapipe:
        codes |= np.where(unicode.cased, CASED, 0) | np.where(unicode.case_ignorable, IGNORABLE, 0)
        codes[_CAPITAL_SIGMA] |= SIGMA
    codes[rules.dropped()] = DROPPED | NOT_STARTER | IGNORABLE
    codes[rules.spaces()] = ord(" ")
    return codes, sequences


def _make_code(code: int, single_words: np.ndarray, stand_ins: dict[int, int]) -> int:
    """Return the code of a character that normalization does not change."""
    is_single_word = bool(single_words[code])
    unknown = _UNKNOWN_WORD if is_single_word else _UNKNOWN_LETTER
    stand_in = code if 0x21 <= code < 0x7F else stand_ins.get(code, unknown)
    return stand_in if is_single_word else stand_in | IN_WORD


def _combine(parts: list[int], sequences: list[tuple[int, ...]]) -> int:
    """Return the code of a character that becomes several, from their codes, and append to `sequences` if needed."""
    remaining = tuple(part for part in parts if not part & DROPPED)
    if len(remaining) == 1:
        return remaining[0]
    if not remaining:
        return DROPPED | (NOT_STARTER if all(part & NOT_STARTER for part in parts) else 0)
    sequences.append(remaining)
    return SEVERAL | (len(sequences) - 1)


def _choose_stand_ins(tokens: Sequence[str], single_words: np.ndarray, num_special: int) -> dict[int, int]:
    """Return a stand-in for each character of the vocabulary beyond printable ASCII."""
    alphabet = sorted({ord(character) for token in tokens for character in token if not "\x21" <= character <= "\x7e"})
    letters = itertools.islice(_expand_ranges(_PRIVATE_USE), 1, None)  # the first one is the unknown letter
    words = itertools.islice(_expand_ranges(CHINESE), 1 + num_special, None)
    try:
        return {code: next(words if single_words[code] else letters) for code in alphabet}
    except StopIteration:
        raise InputError(
            f"the vocabulary has {len(alphabet):,} different characters; expected at most 80,000 that are separate "
            "words and 137,000 others: this is not a WordPiece vocabulary, so name another file"
        ) from None


def _expand_ranges(ranges: Iterable[tuple[int, int]]) -> Iterable[int]:
    return itertools.chain.from_iterable(range(first, last + 1) for first, last in ranges)


def _rank_classes() -> np.ndarray:
    """Return the rank of each combining class among those of characters other than non-spacing marks (five)."""
    unicode = unicode_table()
    classes = np.where(unicode.mark, 0, unicode.combining_class)
    return np.searchsorted(np.unique(classes), classes).astype(np.int32)
