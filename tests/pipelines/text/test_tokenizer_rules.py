"""The rules for several characters and for the vocabulary, compared with Google's code."""

import itertools
import unicodedata

import pytest

from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.marks import slow, slow_except

from .tokenizer_checks import assert_ids_equal_googles, make_pair, rich_pair
from .tokenizer_texts import SCALARS


def mixtures(parts, length):
    """Every string of up to `length` parts."""
    return ["".join(mixture) for size in range(length + 1) for mixture in itertools.product(parts, repeat=size)]


BESIDE_SIGMA = [
    "a\u0391",  # cased letters, one of them Greek
    "a.",  # case-ignorable, and a single-character word
    "a,",  # neither cased nor ignorable
    "a\u00ad",  # ignorable, and dropped
    "a\u0301",  # ignorable, and stripped
    "a\u0345",  # both cased and ignorable in Unicode
    "a'",
    "a ",
    "中a",
    "1a",
    "\u1bf2a",  # a mark that is not stripped
    "\u2160a",  # cased, but not a letter
    "\U0001d15ea",  # one that becomes several
    "\x00a",
    "\u2028a",
]
QUICK = ["a\u0391", "a.", "a\u00ad", "a\u0345", "\u1bf2a", "\u2160a"]


@pytest.mark.parametrize("others", slow_except(BESIDE_SIGMA, quick=QUICK), ids=ascii)
@pytest.mark.parametrize("lowercase", [True, *slow(False)], ids=["uncased", "cased"])
def test_a_capital_sigma_is_final_as_in_python(others, lowercase):
    texts = mixtures("Σ" + others, 5)
    assert any("ς" in text.lower() for text in texts)
    assert_ids_equal_googles(*rich_pair(lowercase=lowercase), texts)


def test_a_final_sigma_differs_from_a_sigma_inside_a_word():
    """With literal values, which also test the reference."""
    tokenizer = BertTokenizer([*SPECIAL_TOKENS, "\u03c3", "##\u03c3", "##\u03c2", "\u03c4", "##\u03c4"])
    expected = [[8, 6, 7], [5], [5, 9], [8, 6, 7, 8, 7]]
    assert tokenizer.tokenize(["ΤΣΣ", "Σ", "ΣΤ", "ΤΣΣ ΤΣ"]).to_list() == expected


MOVABLE = "\u1bf2\u302e\U0001d165\U0001d16d\U00016ff0"  # marks with a combining class that are not stripped
FIXED = "\u0b01\u034f"  # stripped, and of class 0: no mark moves across it
STRIPPED = "\u0301\u0323\u05b0\u0f71"


@pytest.mark.parametrize(
    "kinds", [MOVABLE, MOVABLE[:3] + FIXED[0], MOVABLE[:3] + STRIPPED[1], MOVABLE[:3] + "\u00ad", "\u1bf2\u302e\u0f73a"]
)
@pytest.mark.parametrize("lowercase", [True, *slow(False)], ids=["uncased", "cased"])
def test_marks_are_in_canonical_order(kinds, lowercase):
    texts = [f"a{text}b" for text in mixtures(kinds, 5 if len(kinds) < 5 else 4)]
    moved = [text for text in texts if unicodedata.normalize("NFD", text) != text]
    assert len(moved) > 100
    assert_ids_equal_googles(*rich_pair(lowercase=lowercase), texts)


def test_marks_do_not_move_into_another_text():
    texts = ["a\u302e", "\u1bf2b", "\u302e\u1bf2", "\u302e", "\u1bf2"]
    assert_ids_equal_googles(*rich_pair(lowercase=True), texts)


def test_each_combining_class_keeps_its_rank():
    """Pairs of marks of every combining class that are not stripped, separated by a mark of every class."""
    kept, stripped = {}, {}
    for scalar in SCALARS:
        if combining_class := unicodedata.combining(scalar):
            kind = stripped if unicodedata.category(scalar) == "Mn" else kept
            kind.setdefault(combining_class, scalar)
    assert len(kept) == 5
    assert len(stripped) > 50
    between = ["", *kept.values(), *stripped.values()]
    texts = [f"a{first}{mark}{second}b" for first in kept.values() for second in kept.values() for mark in between]
    assert_ids_equal_googles(*rich_pair(lowercase=True), texts)


def test_a_character_that_becomes_several_is_spelled_out():
    cases = {
        "각가힣": "각가힣",
        "\U0001d15e": "\U0001d157\U0001d165",
        "\U0001d160": "\U0001d158\U0001d165\U0001d16e",
        "İ": "i",
        "ΐ": "\u03b9",
        "\u1e69": "s",
        "豈": "豈",
        "\U0002f800": "丽",
        "\u226e": "<",
        "\u037e": ";",
        "\u212a": "k",
        "\u0b4b": "\u0b47\u0b3e",
        "\U0001d1bb": "\U0001d1b9\U0001d165",
    }
    for text, expected in cases.items():
        ours, google = rich_pair(lowercase=True)
        ids = ours.tokenize([text]).to_list()[0]
        words = unicodedata.normalize("NFD", expected)
        assert "".join(ours.vocabulary[index].removeprefix("##") for index in ids) == words, ascii(text)
        assert ids == google.ids(text)


@pytest.mark.parametrize(
    "letter", ["a", "é", "ñ", "ж", "Σ", "各", "한", "ᅡ", "字", "\u1bf2", "\U00010400", "😂", "\U0001d15e", "İ"]
)
@pytest.mark.parametrize(("limit", "lowercase"), [(1, True), (100, False), *slow((100, True), (200, True))])
def test_the_length_of_a_word_is_in_folded_characters(letter, limit, lowercase):
    """Not in bytes or raw characters: accents are stripped first, and a Hangul syllable counts as its jamo."""
    ours, google = rich_pair(lowercase=lowercase, max_input_chars_per_word=limit)
    per_letter = len(google.words(letter)[0])
    numbers = {limit // per_letter + change for change in (-1, 0, 1)} | {limit - 1, limit, limit + 1}
    texts = [prefix + letter * number for number in sorted(numbers) for prefix in ("", "b", "b ", "\u0301", "e\u0301")]
    assert_ids_equal_googles(ours, google, texts)


def test_the_highest_limit_works():
    """With long tokens, because Google's code takes seconds for a thousand short ones."""
    texts = ["x" * 1000, "x" * 1001, "é" * 1000, "é" * 1001, "한" * 333, "한" * 334]
    decomposed = "\u1112\u1161\u11ab" * 9
    long_tokens = ["x" * 250, "e" * 250, decomposed]
    vocabulary = [*SPECIAL_TOKENS, *long_tokens, *(f"##{token}" for token in long_tokens)]
    assert_ids_equal_googles(*make_pair(vocabulary, max_input_chars_per_word=1000), texts)


def test_plain_and_other_texts_have_the_same_limit():
    texts = [
        joint.join(["x" * number, "b"])
        for number in (99, 100, 101)
        for joint in (" ", ".", "\u00a0", "\u00ad ", "中", "\t", "\x7f")
    ]
    assert_ids_equal_googles(*rich_pair(lowercase=True), texts)


@pytest.mark.parametrize("limit", [1, 100])
def test_the_limit_applies_to_the_first_and_the_last_word_of_a_batch(limit):
    pair = rich_pair(lowercase=True, max_input_chars_per_word=limit)
    for letter in "xé中":
        for number in (limit, limit + 1):
            assert_ids_equal_googles(*pair, [letter * number])
            assert_ids_equal_googles(*pair, ["á", letter * number])


def test_a_long_word_is_one_unknown_word_among_others():
    tokenizer = BertTokenizer([*SPECIAL_TOKENS, "a", "##a", "."], max_input_chars_per_word=3)
    for other in ("", "\u00ad"):
        texts = [f"aaa{other}.aaaa{other} aa", f"aaaa{other}", f"{other}aaaa.aaaa.aaa"]
        assert tokenizer.tokenize(texts).to_list() == [[5, 6, 6, 7, 1, 5, 6], [1], [1, 7, 1, 7, 5, 6, 6]]


ODD_TOKENS = (
    ("...", "a.b", ".", "##.", "##.b", "a", "##b", "b", "'s", "##'s"),
    ("中文", "中", "##中", "##文", "x中", "x", "文"),
    ("##", "#", "###", "##a", "a"),
    ("A", "É", "é", "##É", "a", "##A", "e", "##e"),
    ("\u0301", "##\u0301", "a\u0301", "a", "á"),
    ("\u00ad", "a\u00adb", "a", "##b", "\u200b", "\ufffd"),
    ("\u00a0", "a\u00a0b", "a", "b", "\u2028"),
    ("가", "각", "ᄀ", "##ᅡ", "##ᆨ"),
    ("[unused1]", "[", "]", "unused", "##1", "unused1"),
    ("豈", "\uf900", "##\uf900"),
    ("\ue000", "\U000f0000", "\U0010fffd", "##\ue000", "a"),
    ("\t", "\x01", "\x7f", "a", "##b"),
    ("\U00010400", "\U00010428", "##\U00010428", "##\U00010400"),
)


@pytest.mark.parametrize("lowercase", [True, *slow(False)], ids=["uncased", "cased"])
def test_tokens_that_no_word_contains_are_never_matched(lowercase):
    """As in Google's code, which splits text into words and matches tokens in words."""
    vocabulary = [*SPECIAL_TOKENS, *dict.fromkeys(itertools.chain.from_iterable(ODD_TOKENS))]
    texts = []
    for tokens in ODD_TOKENS:
        letters = sorted({*"".join(tokens)})
        texts += [*mixtures(letters[:6], 4), *tokens, " ".join(tokens), "".join(tokens)]
    assert_ids_equal_googles(*make_pair(vocabulary, lowercase=lowercase), texts)


def test_a_token_with_a_space_is_never_matched():
    vocabulary = [*SPECIAL_TOKENS, "a b", "a", "b", "##b", "##a b"]
    assert_ids_equal_googles(*make_pair(vocabulary), ["a b", "ab", "aa b", "a b a b"])


def test_special_tokens_of_bert_in_a_text_are_split_by_default():
    vocabulary = [*SPECIAL_TOKENS, *"[]", "mask", "[E1]", "e1", "cat", "|", "##s"]
    tokenizer, google = make_pair(vocabulary)
    texts = ["[MASK] mask [CLS][SEP]", "[E1]", "cats cat", "a|b"]
    assert_ids_equal_googles(tokenizer, google, texts)


def test_the_longest_tokens_are_matched():
    vocabulary = [*SPECIAL_TOKENS, "x" * 256, "##" + "x" * 256, "é" * 85]
    texts = ["x" * 256, "x" * 255, "x" * 512, "é" * 85, "é" * 84]
    settings = {"max_input_chars_per_word": 1000, "lowercase": False}
    assert_ids_equal_googles(*make_pair(vocabulary, **settings), texts)
