"""Test strings for the tokenizer: every scalar value, random strings, and all text under `shared/data`."""

import base64
import functools
import gzip
import json
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.shared_data import SHARED_DATA, shared

VOCABULARIES = {  # name: whether it is lowercase
    "bert_uncased": True,
    "bert_cased": False,
    "bert_multilingual_cased": False,
    "bert_chinese": True,
}
SCALARS = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)  # 4 MB; a list takes 100 MB
SETTINGS = {
    "alone": "{}",
    "inside a word": "a{}b",
    "beside Chinese": "中{}文",
    "after a combining mark": "e\u0301{}\u0302x",
}
_ALWAYS = (  # Latin to Hebrew, India to Tibet, jamo, Bali, Greek to kana, compatibility, music, Chinese
    (0x0, 0x600),
    (0x900, 0xFD0),
    (0x1100, 0x1200),
    (0x1B00, 0x1C00),
    (0x1E00, 0x3100),
    (0xF900, 0xFB50),
    (0xFE00, 0x10000),
    (0x16FE0, 0x16FF2),
    (0x1D150, 0x1D200),
    (0x2F800, 0x2FA20),
)

# The characters of random strings, as (share, characters). Together they trigger every rule.
_LETTERS = "abcxyzABCXYZ01"
_KINDS = (
    (30, _LETTERS),
    (14, "    \t\n"),
    (7, ".,-'!$^`~#[]"),
    (6, "áéñöÅÇÜßæøłḍ̇ẛ̣ṩǆİIiĳﬁ"),
    (6, "ΑαΣσςΣΣΐάΩῼᾳὍ"),
    (5, "АаЙйЁёЇїѢ"),
    (4, "각한글까힣ㄱ각"),
    (5, "中文字〇豈丽𠀀𪜀㐀、。"),
    (6, "\u0300\u0301\u0307\u0308\u0323\u0327\u0345\u05b0\u0f71\u0f72\u0f73\u034f\u0b01"),
    (4, "\u1bf2\u1bf3\u302e\u302f\U0001d165\U0001d166\U0001d16d\U00016ff0\u1bac"),
    (4, "\u00ad\u200b\u200d\u2060\ufeff\ufffd\x00\x01\x7f\x85\U000e0001"),
    (3, "\u00a0\u1680\u2000\u2003\u2028\u2029\u3000\u000b\u000c\x1c"),
    (3, "हिन्दीकाไทยபடு"),
    (2, "\U0001d15e\U0001d1bb\u0344\u0958\ufb1d\u2adc\u226e\u037e\u0387\u1fef\u212a\u2126"),
    (3, "😂💩👍🏽\ue000\uf8ff\U000f0000\U0010fffd\ufffe\uffff"),
)


def sampled_scalars(number: int, seed: int) -> list[str]:
    """Return scalar values: those of `_ALWAYS`, and a random sample of the others."""
    always = _always_sampled()
    picks = np.random.default_rng(seed).choice(len(SCALARS), number - len(always), replace=False)
    return [*always, *(SCALARS[pick] for pick in picks)]


def _always_sampled() -> list[str]:
    return [chr(code) for first, end in _ALWAYS for code in range(first, end)]


def sharp_vocabulary(scalars: Iterable[str]) -> list[str]:
    """Return a vocabulary with a token for every character of the scalars' normal forms, so that [UNK] hides none."""
    letters = sorted(_collect_letters([*SETTINGS.values(), *scalars]))
    return [*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in letters)]


def _collect_letters(texts: Iterable[str]) -> set[str]:
    """Return every character of some texts and of their normal forms that a token can have."""
    return {
        letter for text in texts for letter in (*text, *unicodedata.normalize("NFD", text.lower()), *text.lower())
    } - {*"\n\r \x00"}


def random_characters() -> str:
    """Return every character listed for `random_texts`."""
    return "".join(sorted({letter for _, letters in _KINDS for letter in letters}))


@functools.cache
def rich_vocabulary() -> tuple[str, ...]:
    """Return tokens of one and two letters for the test strings, without q and z, so that [UNK] occurs too."""
    letters = sorted({*_collect_letters([*_always_sampled(), *random_characters()])} - {*"qzQZ"})
    pairs = [first + second for first in "abc\u03b1\u03c3\u1100" for second in "bcy\u03c3\u03c2\u1bf2\u302e\u1161"]
    return (*SPECIAL_TOKENS, *letters, *pairs, *(f"##{token}" for token in (*letters, *pairs)))


def random_texts(number: int, seed: int, *, lengths: np.ndarray | None = None) -> list[str]:
    """Return random strings; one character in fifty is any scalar value.

    Args:
        number: B, the number of strings.
        seed: the same seed gives the same strings.
        lengths: `(B,)` in characters. By default 12 on average, with a long tail up to 5,000.
    """
    rng = np.random.default_rng(seed)
    if lengths is None:
        lengths = np.minimum(rng.pareto(1.3, number) * 4, 5000).astype(int)
    shares = np.array([share for share, _ in _KINDS], float)
    total = int(lengths.sum())
    kinds = rng.choice(len(_KINDS), total, p=shares / shares.sum())
    points = np.zeros(total, np.uint32)
    for kind, (_, letters) in enumerate(_KINDS):
        places = np.flatnonzero(kinds == kind)
        points[places] = rng.choice([*map(ord, letters)], len(places))
    places = np.flatnonzero(rng.random(total) < 0.02)
    points[places] = _any_scalars(rng, len(places))
    text = points.astype("<u4").tobytes().decode("utf-32-le")
    ends = lengths.cumsum()
    return [text[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]


def _any_scalars(rng: np.random.Generator, number: int) -> np.ndarray:
    codes = rng.integers(0, 0x110000 - 0x800, number)
    return np.where(codes < 0xD800, codes, codes + 0x800)


def random_bytes(number: int, seed: int) -> list[bytes]:
    """Return byte strings that are rarely valid UTF-8: valid ones truncated, joined and damaged."""
    rng = np.random.default_rng(seed)
    starts = [b"a", b" ", b"b", "é".encode(), "한".encode(), "中".encode(), "😂".encode(), "\u0301".encode()]
    wrong = [
        b"\xff",
        b"\xc0",
        b"\x80",
        b"\xe2\x82",
        b"\xed\xa0\x80",
        b"\xf0\x9f",
        b"\xf4\x90",
        b"\xe0\x80",
        b"\xf8",
        b"\xc3",
    ]
    parts = [*starts, *starts, *wrong]
    return [
        b"".join(parts[pick] for pick in rng.integers(0, len(parts), length))
        if rng.random() < 0.8
        else rng.bytes(int(length))
        for length in rng.integers(0, 24, number)
    ]


def naughty_strings() -> list[str]:
    """Return the Big List of Naughty Strings in its three forms."""
    folder = shared("blns")
    encoded = json.loads((folder / "blns.base64.json").read_text(encoding="utf-8"))
    return [
        *json.loads((folder / "blns.json").read_text(encoding="utf-8")),
        *(base64.b64decode(text).decode("utf-8", "replace") for text in encoded),
        *(folder / "blns.txt").read_bytes().decode("utf-8").split("\n"),
    ]


def normalization_cases() -> list[str]:
    """Return the strings of Unicode's NormalizationTest, each once."""
    with gzip.open(shared("unicode/NormalizationTest.txt.gz"), "rt", encoding="utf-8") as lines:
        rows = [line.split("#")[0].split(";")[:5] for line in lines if line[0] not in "#@\n"]
    texts = ("".join(chr(int(code, 16)) for code in column.split()) for row in rows for column in row)
    return list(dict.fromkeys(texts))


@functools.cache
def corpus_lines() -> Sequence[str]:
    """Return every line of the text files under `shared/data`, and every string of the JSON files (60 MB)."""
    kinds = ("txt", "tsv", "csv", "conll", "annotated", "conllu", "json")
    skipped = ("vocab", "unicode", "tokenizer_cases", "blns")
    lines = []
    for path in sorted(shared(".").rglob("*")):
        name = path.name.removesuffix(".gz")
        if path.is_dir() or name.split(".")[-1] not in kinds or path.relative_to(SHARED_DATA).parts[0] in skipped:
            continue
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = content.decode("utf-8")
        lines += _collect_strings(json.loads(text)) if name.endswith(".json") else text.split("\n")
    return tuple(lines)


def _collect_strings(value: object) -> list[str]:
    """Return every string in a JSON value."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [text for part in parts for text in _collect_strings(part)]
    return [value] if isinstance(value, str) else []
