"""Write `pipelines/text/unicode_*.txt` from the Unicode database of the Python that runs it.

    python3.11 tests/pipelines/text/make_unicode_table.py > pipelines/text/unicode_14.0.0.txt

Python 3.11 has Unicode 14.0.0. A test runs this script and compares its output with the file.
"""

import unicodedata
from collections.abc import Callable, Iterable

_CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
_HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)  # they decompose by arithmetic


def table_lines() -> Iterable[str]:
    """Yield the lines of the table."""
    yield f"# Unicode {unicodedata.unidata_version}: what BERT's text rules ask of it, and nothing else."
    yield "# Made by tests/pipelines/text/make_unicode_table.py from the Unicode Character Database,"
    yield "# Copyright (c) Unicode, Inc., used under the Unicode License V3 (https://www.unicode.org/license.txt)."
    yield "# Sets: a name, then code points and ranges. Maps: a name, a code point, what it becomes."
    for name, belongs in _SETS.items():
        yield f"{name}\t{' '.join(_ranges(filter(lambda code: belongs(chr(code)), _CODE_POINTS)))}"
    classes = [unicodedata.combining(chr(code)) for code in _CODE_POINTS]
    for value in sorted(set(classes) - {0}):
        codes = (code for code, its_class in zip(_CODE_POINTS, classes, strict=True) if its_class == value)
        yield f"combining_class {value}\t{' '.join(_ranges(codes))}"
    for code in _CODE_POINTS:
        character = chr(code)
        if character.lower() != character:
            yield f"lower\t{_hex(character)}\t{_hex(character.lower())}"
    for code in _CODE_POINTS:
        character = chr(code)
        decomposed = unicodedata.normalize("NFD", character)
        if decomposed != character and code not in _HANGUL_SYLLABLES:
            yield f"decomposition\t{_hex(character)}\t{_hex(decomposed)}"


def _is_cased(character: str) -> bool:
    """Whether a character is cased: a capital sigma after it is final (Unicode's Final_Sigma)."""
    return (character + "\u03a3").lower().endswith("\u03c2")


def _is_case_ignorable(character: str) -> bool:
    """Whether a character is ignorable: a capital sigma after it depends on the letter before it."""
    return ("A" + character + "\u03a3").lower().endswith("\u03c2") and not _is_cased(character)


_SETS: dict[str, Callable[[str], bool]] = {
    "space": lambda character: unicodedata.category(character) in ("Zs", "Zl", "Zp"),
    "control": lambda character: unicodedata.category(character) in ("Cc", "Cf"),
    "mark": lambda character: unicodedata.category(character) == "Mn",
    "punctuation": lambda character: unicodedata.category(character).startswith("P"),
    "cased": _is_cased,
    "case_ignorable": _is_case_ignorable,
}


def _hex(text: str) -> str:
    return " ".join(f"{ord(character):04X}" for character in text)


def _ranges(codes: Iterable[int]) -> Iterable[str]:
    first = last = None
    for code in (*codes, None):
        if last is not None and code != last + 1:
            yield f"{first:04X}" if first == last else f"{first:04X}-{last:04X}"
            first = None
        first, last = code if first is None else first, code


if __name__ == "__main__":
    print("\n".join(table_lines()))
