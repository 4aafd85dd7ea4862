"""Write the Unicode tables of the reference clients, from the package's own table.

    python examples/make_unicode_tables.py

All clients have the same lines, so that they tokenize alike, whatever the Unicode version of their platform. A line is
a name and items separated by spaces, with numbers in base 36. An item of a set is `GAP` or `GAP.LENGTH`, a range of
code points that begins GAP after the end of the range before it. An item of a map is `GAP:VALUE,VALUE...`, a code point
GAP after the one before it, and the code points that it becomes.

    version      the Unicode version
    space        white space
    dropped      removed before anything else
    single       characters that are words: punctuation
    chinese      characters that are words unless `tokenize_chinese_chars` is off
    mark         removed by `strip_accents`
    blocking     those of them that other marks do not move across
    rank1 ...    marks that are not removed and are sorted by these ranks, as NFD does
    cased, ignorable  for the lower case of a capital sigma at the end of a word
    lower        lower case
    strip        decomposition without marks; Hangul syllables are decomposed by a formula
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping

import numpy as np

from bert_keras.pipelines.text.text_rules import UNICODE_VERSION, TextRules, UnicodeTable, unicode_table

EXAMPLES = pathlib.Path(__file__).parent
HANGUL = range(0xAC00, 0xD7A4)


@dataclasses.dataclass(frozen=True)
class Output:
    """A file with the tables: its path in `examples/`, and the function that writes the lines in its language."""

    path: str
    write: Callable[[list[str]], str]


def main() -> None:
    """Write the files of all clients."""
    lines = make_lines()
    for output in OUTPUTS:
        (EXAMPLES / output.path).write_text(output.write(lines), encoding="utf-8")


def make_lines() -> list[str]:
    """Return the lines of the tables."""
    unicode, rules = unicode_table(), TextRules()
    without_chinese = TextRules(tokenize_chinese_chars=False).single_words()
    sets = {
        "space": rules.spaces(),
        "dropped": rules.dropped(),
        "single": without_chinese,
        "chinese": rules.single_words() & ~without_chinese,
        "mark": unicode.mark,
        "blocking": _find_blocking(unicode),
        "cased": unicode.cased,
        "ignorable": unicode.case_ignorable,
    }
    classes = np.where(unicode.mark, 0, unicode.combining_class)
    sets |= {f"rank{rank}": classes == value for rank, value in enumerate(np.unique(classes)) if rank}
    lines = [f"version {UNICODE_VERSION}"]
    lines += [f"{name} {_format_set(members)}" for name, members in sets.items()]
    strip = {
        code: tuple(part for part in unicode.decompose(code) if not unicode.mark[part])
        for code in unicode.decomposable()
        if code not in HANGUL and not unicode.mark[code]
    }
    return [*lines, f"lower {_format_map(unicode.lower)}", f"strip {_format_map(strip)}"]


def _find_blocking(unicode: UnicodeTable) -> np.ndarray:
    """Return which marks contain a character of combining class 0, `(1114112,)` bool."""
    blocking = np.zeros_like(unicode.mark)
    for code in np.flatnonzero(unicode.mark):
        blocking[code] = any(unicode.combining_class[part] == 0 for part in unicode.decompose(int(code)))
    return blocking


def _format_set(members: np.ndarray) -> str:
    edges = np.flatnonzero(np.diff(members, prepend=False, append=False)).tolist()
    items, last = [], 0
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        length = "" if end - start == 1 else f".{_base36(end - start)}"
        items.append(f"{_base36(start - last)}{length}")
        last = end
    return " ".join(items)


def _format_map(values: Mapping[int, tuple[int, ...]]) -> str:
    items, last = [], 0
    for code in sorted(values):
        items.append(f"{_base36(code - last)}:{','.join(map(_base36, values[code]))}")
        last = code
    return " ".join(items)


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while number or not text:
        number, digit = divmod(number, 36)
        text = digits[digit] + text
    return text


def _write_text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _write_typescript(lines: list[str]) -> str:
    strings = "".join(f"  {json.dumps(line)},\n" for line in lines)
    return (
        "// Written by examples/make_unicode_tables.py, which describes the format.\n"
        f"export const UNICODE_TABLES: readonly string[] = [\n{strings}];\n"
    )


OUTPUTS = (
    Output("python/unicode_tables.txt", _write_text),
    Output("java/src/main/resources/bertkeras/client/unicode_tables.txt", _write_text),
    Output("typescript/src/unicode_tables.ts", _write_typescript),
)

if __name__ == "__main__":
    main()
