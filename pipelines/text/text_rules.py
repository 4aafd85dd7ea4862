"""BERT's text rules: the settings of a model, and their effect on each character of Unicode.

The properties of characters are those of one version of Unicode. They are part of the package (`unicode_14.0.0.txt`),
so that the ids of a checkpoint do not depend on the installed Python, ICU or Rust library.
"""

import dataclasses
import functools
import itertools
import pathlib
import unicodedata

import numpy as np

from bert_keras.checks import check_integer
from bert_keras.errors import InputError

CHINESE = (  # the ranges of Google's code
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_MAX_WORD_CHARACTERS = 1000  # the limit of repetitions in RE2
_ASCII_PUNCTUATION = ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))  # "$" and "^" too
_MEDIAPIPE_PUNCTUATION = (  # of Unicode 15 to 17, in the RE2 of MediaPipe 1.2.2; not in Unicode 14
    (0x1B4E, 0x1B4F),
    (0x1B7F, 0x1B7F),
    (0x10D6E, 0x10D6E),
    (0x10ED0, 0x10ED0),
    (0x113D4, 0x113D5),
    (0x113D7, 0x113D8),
    (0x11B00, 0x11B09),
    (0x11BE1, 0x11BE1),
    (0x11F43, 0x11F4F),
    (0x16D6D, 0x16D6F),
    (0x1E5FF, 0x1E5FF),
)
UNICODE_VERSION = "14.0.0"
NUM_CODE_POINTS = 0x110000
_HANGUL_FIRST, _HANGUL_LAST = 0xAC00, 0xD7A3


@dataclasses.dataclass(frozen=True)
class TextRules:
    """The rules by which a model's text is split into words.

    `text_rules="bert"` is the algorithm of Google's `tokenization.py`. "mediapipe" is the algorithm of MediaPipe's text
    tasks on a phone: they lowercase only ASCII, strip no accents, drop no control characters, have five white space
    characters, all of them ASCII, end a text at NUL, and measure the length of a word in bytes.

    Attributes:
        lowercase: fold case. MediaPipe always does.
        strip_accents: decompose (NFD) and drop non-spacing marks. `None`: as `lowercase`, which is BERT's rule.
        tokenize_chinese_chars: make each Chinese character a word.
        max_input_chars_per_word: longer words become [UNK]: 100 in Hugging Face's library, 200 in Google's code.
        text_rules: "bert" or "mediapipe", which has fixed values of the other settings.
        unicode_version: the version of Unicode that defines marks, spaces and lower-case letters.

    Raises:
        InputError: a value is invalid, or the package has another Unicode version.
    """

    lowercase: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    max_input_chars_per_word: int = 100
    text_rules: str = "bert"
    unicode_version: str = UNICODE_VERSION

    def __post_init__(self):
        if self.strip_accents is None:
            object.__setattr__(self, "strip_accents", self.lowercase and not self.is_mediapipe)
        for name in ("lowercase", "strip_accents", "tokenize_chinese_chars"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"the tokenizer's {name} is {getattr(self, name)!r}; expected true or false")
        name = "the tokenizer's max_input_chars_per_word"
        check_integer(name, self.max_input_chars_per_word, maximum=_MAX_WORD_CHARACTERS)
        if self.unicode_version != UNICODE_VERSION:
            raise InputError(
                f"the tokenizer's unicode_version is {self.unicode_version!r}; this release of bert_keras carries "
                f"Unicode {UNICODE_VERSION}: use the release that wrote the checkpoint, so that the ids stay the same"
            )
        if self.text_rules not in ("bert", "mediapipe"):
            raise InputError(f"the tokenizer's text_rules is {self.text_rules!r}; expected 'bert' or 'mediapipe'")
        if self.is_mediapipe:
            self._check_mediapipe()

    @property
    def is_mediapipe(self) -> bool:
        """Whether these are MediaPipe's rules."""
        return self.text_rules == "mediapipe"

    def _check_mediapipe(self) -> None:
        fixed = {
            "lowercase": True,
            "strip_accents": False,
            "tokenize_chinese_chars": True,
            "max_input_chars_per_word": 100,
        }
        for name, value in fixed.items():
            if getattr(self, name) != value:
                raise InputError(
                    f"the tokenizer's {name} is {getattr(self, name)!r} with text_rules 'mediapipe'; expected "
                    f"{value!r}, the rule of MediaPipe: leave it out"
                )

    def spaces(self) -> np.ndarray:
        """Return a mask of the code points that are white space, `(1114112,)` bool."""
        if self.is_mediapipe:
            return _with_characters(np.zeros_like(unicode_table().space), "\t\n\f\r ")
        return _with_characters(unicode_table().space, "\t\n\r")

    def dropped(self) -> np.ndarray:
        """Return a mask of the code points that are dropped first, `(1114112,)` bool."""
        if self.is_mediapipe:
            return np.zeros_like(unicode_table().control)
        return _with_characters(unicode_table().control, "\ufffd") & ~self.spaces()

    def single_words(self) -> np.ndarray:
        """Return a mask of the code points that are words: punctuation and Chinese characters, `(1114112,)` bool."""
        words = unicode_table().punctuation.copy()
        chinese = CHINESE if self.tokenize_chinese_chars else ()
        for first, last in (*_ASCII_PUNCTUATION, *chinese, *(_MEDIAPIPE_PUNCTUATION if self.is_mediapipe else ())):
            words[first : last + 1] = True
        return words

    def changes(self) -> dict[int, tuple[int, ...]]:
        """Return the code points that each code point becomes by lowercasing and decomposition, if they change it."""
        if self.is_mediapipe:
            return {code: (code + 32,) for code in range(ord("A"), ord("Z") + 1)}
        unicode = unicode_table()
        changes = dict(unicode.lower) if self.lowercase else {}
        if self.strip_accents:
            for code in {*changes, *unicode.decomposable()}:
                lowered = changes.get(code, (code,))
                changes[code] = tuple(itertools.chain.from_iterable(map(unicode.decompose, lowered)))
        return {code: becomes for code, becomes in changes.items() if becomes != (code,)}


def _with_characters(members: np.ndarray, characters: str) -> np.ndarray:
    members = members.copy()
    members[[*map(ord, characters)]] = True
    return members


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
