"""The Unicode properties that BERT's text rules need, of one pinned version.

They are part of the package (`unicode_14.0.0.txt`), so that the ids of a checkpoint do not depend on the installed
Python, ICU or Rust library.
"""

import dataclasses
import functools
import pathlib
import unicodedata

import numpy as np

UNICODE_VERSION = "14.0.0"
NUM_CODE_POINTS = 0x110000

_HANGUL_FIRST, _HANGUL_LAST = 0xAC00, 0xD7A3


@dataclasses.dataclass(frozen=True)
class UnicodeTable:
    """Properties of code points: `(1114112,)` arrays, and maps from a code point to several.

    Attributes:
        space: categories Zs, Zl, Zp.
        control: categories Cc, Cf.
        mark: category Mn, the non-spacing marks, which `strip_accents` drops.
        punctuation: categories P*.
        cased, case_ignorable: the properties of Unicode's rule Final_Sigma.
        combining_class: uint8; NFD sorts marks by their class, except those of class 0.
        lower: full lower case, without the rule Final_Sigma.
        decomposition: full canonical decomposition (NFD), without Hangul (see `decompose`).
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
        """Return the canonical decomposition of a code point, which can be the code point itself."""
        if _HANGUL_FIRST <= code <= _HANGUL_LAST:  # the same in every version of Unicode
            return tuple(map(ord, unicodedata.normalize("NFD", chr(code))))
        return self.decomposition.get(code, (code,))

    def decomposable(self) -> list[int]:
        """Return the code points that `decompose` changes."""
        return [*self.decomposition, *range(_HANGUL_FIRST, _HANGUL_LAST + 1)]


@functools.cache
def unicode_table() -> UnicodeTable:
    """Read the table, in 11 ms."""
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
