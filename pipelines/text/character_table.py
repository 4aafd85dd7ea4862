"""BERT's text rules as one number a character: what becomes of it, and what it does to its neighbours.

A `CharacterTable` applies `TextRules` to every code point once, for one vocabulary, so that the graph only looks
characters up (`characters.py`).

The rewritten text has an alphabet of its own: printable ASCII stays, each other character of the vocabulary gets
a stand-in, and all the rest share one that no token holds. Letters get stand-ins from Unicode's private use areas,
which no library ever takes for a space or a mark; characters that are words of their own get Chinese ones, which
tensorflow-text cuts out by fixed ranges. So no library's Unicode version has a say in the ids.
"""

import functools
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from bert_keras.errors import InputError
from bert_keras.pipelines.text.text_rules import CHINESE, TextRules
from bert_keras.pipelines.text.unicode_table import unicode_table

# A character's code, 31 bits. The low 21: its stand-in, or, with SEVERAL, which sequence of codes it becomes.
LOW_BITS = (1 << 21) - 1
IN_WORD = 1 << 21  # counts towards the length of a word: no space, no word of its own
DROPPED = 1 << 22
SEVERAL = 1 << 23
NOT_STARTER = 1 << 24  # NFD may move characters across it
RANK_SHIFT, MAX_RANK = 25, 7  # place of the canonical combining class, for the few marks that are not dropped
CASED = 1 << 28
IGNORABLE = 1 << 29  # looked through for the next cased character
SIGMA = 1 << 30  # a capital one, whose small form depends on its neighbours
ODD = DROPPED | SEVERAL | SIGMA | MAX_RANK << RANK_SHIFT  # what needs more than putting a stand-in

_CAPITAL_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2
_PRIVATE_USE = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
_UNKNOWN_LETTER, _UNKNOWN_WORD = _PRIVATE_USE[0][0], CHINESE[0][0]  # the stand-ins of what no token holds
_UNKNOWN = _UNKNOWN_LETTER | IN_WORD
_BLOCK = 256  # code points, as `characters.py` looks them up


class CharacterTable:
    """The code of every character, for one set of rules and one vocabulary.

    Args:
        rules: how text becomes words.
        tokens: the vocabulary.
        special_tokens: those of its tokens that can stand in a text as they are.

    Attributes:
        blocks: `(4352,)` int32, for each 256 code points their row in `codes`.
        codes: `(rows, 256)` int32.
        sequence_starts: `(sequences + 1,)` int32, where each sequence begins in `sequence_codes`.
        sequence_codes: `(all their codes,)` int32.
        unknown: the code of a letter that no token holds.
        final_sigma: the code of a final sigma.
        special: the code of each special token, in the order given, a word of its own.

    Raises:
        InputError: the tokens have more different characters than there are stand-ins.
    """

    def __init__(self, rules: TextRules, tokens: Sequence[str], special_tokens: Sequence[str]):
        own_words = rules.own_words()
        self._stand_ins = _stand_ins(tokens, own_words, len(special_tokens))
        self.unknown = _UNKNOWN
        self.special = [_UNKNOWN_WORD + 1 + index for index in range(len(special_tokens))]
        self.final_sigma = _unchanged(_FINAL_SIGMA, own_words, self._stand_ins)
        self.blocks, self.codes, self.sequence_starts, self.sequence_codes = _packed_codes(
            rules, tuple(self._stand_ins.items())
        )

    def rewritten_token(self, token: str) -> str:
        """Returns a token of the vocabulary in the alphabet of the rewritten text."""
        return "".join(chr(self._stand_ins.get(ord(character), ord(character))) for character in token)

    def normalized(self, text: str) -> tuple[int, ...]:
        """Returns the stand-ins that a text becomes; a final sigma and the order of marks are left as they are."""
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
        """Whether each of these characters is one of the vocabulary, so that no other looks like it."""
        return not {_UNKNOWN_LETTER, _UNKNOWN_WORD} & set(stand_ins)


@functools.lru_cache(maxsize=4)  # it takes 0.15 s, and vocabularies of one alphabet share it
def _packed_codes(rules: TextRules, stand_ins: tuple[tuple[int, int], ...]) -> tuple[np.ndarray, ...]:
    """Returns `blocks`, `codes`, `sequence_starts` and `sequence_codes` of a `CharacterTable`, which nobody may change.

    Args:
        rules: how text becomes words.
        stand_ins: each character of the vocabulary but ASCII's, with the one that stands for it.
    """
    codes, sequences = _all_codes(rules, dict(stand_ins))
    rows: dict[bytes, int] = {}
    blocks = [rows.setdefault(block.tobytes(), len(rows)) for block in codes.reshape(-1, _BLOCK)]
    packed = (
        np.array(blocks, np.int32),
        np.frombuffer(b"".join(rows), np.int32).reshape(-1, _BLOCK),
        np.cumsum([0, *map(len, sequences)]).astype(np.int32),
        np.array([*itertools.chain.from_iterable(sequences)], np.int32),
    )
    for array in packed:
        array.flags.writeable = False
    return packed


def _all_codes(rules: TextRules, stand_ins: dict[int, int]) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """Returns the code of each code point, and the sequences that some of them become."""
    unicode, own_words = unicode_table(), rules.own_words()
    unchanged = np.where(own_words, _UNKNOWN_WORD, _UNKNOWN).astype(np.int32)
    for code in (*range(0x21, 0x7F), *stand_ins):
        unchanged[code] = _unchanged(code, own_words, stand_ins)
    if rules.strip_accents:
        unchanged[unicode.mark] = DROPPED
        unchanged |= np.where(unicode.combining_class > 0, NOT_STARTER, 0) | _ranks() << RANK_SHIFT
    codes = unchanged.copy()
    sequences: list[tuple[int, ...]] = [(_UNKNOWN,)]  # never asked for; an empty table cannot be looked up in
    for code, becomes in rules.changes().items():
        codes[code] = _combined([int(unchanged[part]) for part in becomes], sequences)
    if rules.lowercase and not rules.is_mediapipe:
        codes |= np.where(unicode.cased, CASED, 0) | np.where(unicode.case_ignorable, IGNORABLE, 0)
        codes[_CAPITAL_SIGMA] |= SIGMA
    codes[rules.dropped()] = DROPPED | NOT_STARTER | IGNORABLE
    codes[rules.spaces()] = ord(" ")
    return codes, sequences


def _unchanged(code: int, own_words: np.ndarray, stand_ins: dict[int, int]) -> int:
    """Returns the code of a character that stays what it is."""
    own_word = bool(own_words[code])
    unknown = _UNKNOWN_WORD if own_word else _UNKNOWN_LETTER
    stand_in = code if 0x21 <= code < 0x7F else stand_ins.get(code, unknown)
    return stand_in if own_word else stand_in | IN_WORD


def _combined(parts: list[int], sequences: list[tuple[int, ...]]) -> int:
    """Returns the code of a character that becomes several, by their codes; adds to `sequences` if need be."""
    kept = tuple(part for part in parts if not part & DROPPED)
    if len(kept) == 1:
        return kept[0]
    if not kept:
        return DROPPED | (NOT_STARTER if all(part & NOT_STARTER for part in parts) else 0)
    sequences.append(kept)
    return SEVERAL | (len(sequences) - 1)


def _stand_ins(tokens: Sequence[str], own_words: np.ndarray, num_special: int) -> dict[int, int]:
    """Gives each character of the vocabulary but ASCII's visible ones a character that stands for it."""
    alphabet = sorted({ord(character) for token in tokens for character in token if not "\x21" <= character <= "\x7e"})
    letters = itertools.islice(_members(_PRIVATE_USE), 1, None)  # the first one stands for "unknown"
    words = itertools.islice(_members(CHINESE), 1 + num_special, None)
    try:
        return {code: next(words if own_words[code] else letters) for code in alphabet}
    except StopIteration:
        raise InputError(
            f"the vocabulary has {len(alphabet):,} different characters; expected at most 80,000 that are words of "
            "their own and 137,000 others: this is no WordPiece vocabulary"
        ) from None


def _members(ranges: Iterable[tuple[int, int]]) -> Iterable[int]:
    return itertools.chain.from_iterable(range(first, last + 1) for first, last in ranges)


def _ranks() -> np.ndarray:
    """Returns the place of each combining class among those of characters that are no non-spacing marks (five)."""
    unicode = unicode_table()
    kept = np.where(unicode.mark, 0, unicode.combining_class)
    return np.searchsorted(np.unique(kept), kept).astype(np.int32)
