"""The Unicode properties that BERT's text rules ask for, of one pinned version.

They come with the package (`unicode_14.0.0.txt`), so that a checkpoint reads the same
characters whatever Python, ICU or Rust library is installed.
"""

import dataclasses
import functools
import pathlib

import numpy as np

UNICODE_VERSION = "14.0.0"
NUM_CODE_POINTS = 0x110000

_HANGUL_FIRST, _HANGUL_LAST = 0xAC00, 0xD7A3
_HANGUL_LEADS, _HANGUL_VOWELS, _HANGUL_TAILS = 0x1100, 0x1161, 0x11A7  # the jamo; tail 0 is no tail
_NUM_VOWELS, _NUM_TAILS = 21, 28


@dataclasses.dataclass(frozen=True)
class UnicodeTable:
    """Sets of code points as `(1114112,)` arrays, and maps from a code point to a tuple of them.

    Attributes:
        space: categories Zs, Zl, Zp.
        control: categories Cc, Cf.
        mark: category Mn, the non-spacing marks, which "strip accents" strips.
        punctuation: categories P*.
        cased, case_ignorable: what decides whether a capital sigma ends a word (Unicode's Final_Sigma).
        combining_class: uint8; marks with other classes than 0 are put in its order by NFD.
        lower: full lower case, without the rule for a final sigma.
        decomposition: full canonical decomposition (NFD) of a code point, but for Hangul (see `decompose`).
    """

    space: np.ndarray
    control: np.ndarray
    mark: np.ndarray
    punctuation: np.ndarray
    cased: np.ndarray
    case_ignorable: np.ndarray
    combining_class: np.ndarray
    lower: dict[int, tuple[int, ...]]
    decomposition: dict[int, tuple[int, ...]]

    def decompose(self, code: int) -> tuple[int, ...]:
        """Returns the canonical decomposition of one code point, which may be itself."""
        if not _HANGUL_FIRST <= code <= _HANGUL_LAST:
            return self.decomposition.get(code, (code,))
        lead, rest = divmod(code - _HANGUL_FIRST, _NUM_VOWELS * _NUM_TAILS)  # Unicode standard, section 3.12
        vowel, tail = divmod(rest, _NUM_TAILS)
        jamo = (_HANGUL_LEADS + lead, _HANGUL_VOWELS + vowel, _HANGUL_TAILS + tail)
        return jamo if tail else jamo[:2]

    def decomposable(self) -> list[int]:
        """Returns every code point that `decompose` changes."""
        return [*self.decomposition, *range(_HANGUL_FIRST, _HANGUL_LAST + 1)]


@functools.cache
def unicode_table() -> UnicodeTable:
    """Reads the table (11 ms)."""
    maps: dict[str, dict[int, tuple[int, ...]]] = {"lower": {}, "decomposition": {}}
    sets = {
        field.name: np.zeros(NUM_CODE_POINTS, np.uint8 if field.name == "combining_class" else bool)
        for field in dataclasses.fields(UnicodeTable)
        if field.name not in maps
    }
    path = pathlib.Path(__file__).with_name(f"unicode_{UNICODE_VERSION}.txt")
    for line in path.read_text(encoding="ascii").split("\n"):
        match line.split("\t"):
            case [name, code, becomes]:
                maps[name][int(code, 16)] = tuple(int(part, 16) for part in becomes.split())
            case [name, ranges]:
                name, _, value = name.partition(" ")
                for part in ranges.split():
                    first, _, last = part.partition("-")
                    sets[name][int(first, 16) : int(last or first, 16) + 1] = int(value or True)
    return UnicodeTable(**{**sets, **maps})
