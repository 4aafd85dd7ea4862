"""Additional special tokens are never split, as in Hugging Face's tokenizer; BERT's five only by request."""

import itertools
import random

import numpy as np
import pytest

from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.marks import slow, slow_except

from .google_reference import GoogleTokenizer
from .tokenizer_checks import assert_ids_equal_googles

MORE = ("[E1]", "[E1]x", "<<>", "é", "NAME", "bcd")
TOKENS = [
    *"abcdex[]<>~1.#",
    "mask",
    "e1",
    "name",
    "##x",
    "##a",
    "##b",
    "##cd",
    "##1",
    "\u03c3",
    "##\u03c3",
    "##\u03c2",
    "中",
]


def folder_and_tokenizers(path, more=MORE, **settings):
    from tokenizers import Tokenizer

    tokens = dict.fromkeys([*SPECIAL_TOKENS, *TOKENS, *more])
    tokenizer = BertTokenizer(tokens, additional_special_tokens=more, **settings)
    tokenizer.save(path)
    return tokenizer, Tokenizer.from_file(str(path / "tokenizer.json"))


@pytest.fixture(scope="module", params=[True, *slow(False)], ids=["uncased", "cased"])
def tokenizers(request, tmp_path_factory):
    """Our tokenizer and Hugging Face's Rust tokenizer."""
    return folder_and_tokenizers(tmp_path_factory.mktemp("folder"), lowercase=request.param)


def assert_same(tokenizers, texts):
    ours, theirs = tokenizers
    tokens = ours.tokenize_with_offsets(texts, keep_special_tokens=True)
    rows = zip(*(column.to_list() for column in tokens), strict=True)
    for text, encoding, (ids, starts, ends, word_ids) in zip(
        texts, theirs.encode_batch(texts, add_special_tokens=False), rows, strict=True
    ):
        tokens = [ours.vocabulary[index] for index in ids]
        assert tokens == encoding.tokens, ascii(text)
        assert [*zip(starts, ends, strict=True)] == encoding.offsets, ascii(text)
        assert word_ids == encoding.word_ids, ascii(text)


def split_into_small_batches(texts):
    """Split texts into batches that run op by op, because tracing a graph takes a second."""
    return [texts[start : start + 30] for start in range(0, len(texts), 30)]


@pytest.mark.parametrize("token", slow_except([*SPECIAL_TOKENS, *MORE], quick=["[MASK]", MORE[0]]))
def test_a_token_in_every_position(tokenizers, token):
    beside = ["", "a", " ", ".", "[", "]", "É", "e\u0301", "\u0301", "中", "\u00ad", "ΣA", "#", "\n"]
    assert_same(tokenizers, [f"{before}{token}{after}" for before in beside for after in beside])


def test_two_tokens_next_to_each_other(tokenizers):
    tokens = [*SPECIAL_TOKENS, *MORE]
    pairs = itertools.product(tokens, tokens)
    assert_same(
        tokenizers, [text for a, b in pairs for text in (a + b, f"{a} {b}", f"{a}a{b}", f"[{a}{b}]", a[:-1] + b)]
    )


def test_random_mixtures(tokenizers):
    rng = np.random.default_rng(11)
    parts = [*SPECIAL_TOKENS, *MORE, *"aáb[]xé~<> .1中", "[E1", "[MA", "SK]", "<<<>", "\u0301", "abcd"]
    texts = ["".join(rng.choice(parts, length)) for length in rng.integers(0, 14, 2000)]
    assert_same(tokenizers, texts)


def test_the_longer_of_two_tokens_with_the_same_prefix_is_matched(tokenizers):
    assert_same(tokenizers, ["[E1]x", "[E1]", "[E1] x", "[E1]xx", "[E1][E1]x[E1]", "[E1]é", "[E1]\u00adx"])


OVERLAPPING = ["~~", "ab bcd", "bcd ab cd", "aba b", "]a"]


@pytest.mark.parametrize("more", slow_except(OVERLAPPING, quick=["bcd ab cd"]))
def test_the_leftmost_of_overlapping_tokens_is_matched(more, tmp_path):
    more = more.split()
    tokenizers = folder_and_tokenizers(tmp_path, more)
    letters = ["".join(text) for length in (3, 5) for text in itertools.product("abcd", repeat=length)]
    texts = [*letters[:: 5 if len(more) > 1 else 40], "~~~~~", "~~~", "a~~~b", "[MASK]a]a", "abababab"]
    for batch in split_into_small_batches(texts):
        assert_same(tokenizers, batch)


def test_special_tokens_of_bert_are_split_by_default(tokenizers):
    ours, _ = tokenizers
    google = GoogleTokenizer(ours.vocabulary, lowercase=ours.lowercase)
    texts = [text for token in SPECIAL_TOKENS for text in (token, f"a{token}", f"{token}{token} b")]
    assert_ids_equal_googles(ours, google, texts)


def test_additional_special_tokens_are_never_split_as_in_hugging_face(tokenizers):
    rng = np.random.default_rng(12)
    parts = [*MORE, *"aáb[]xé~<> .1中", "[E1", "<<<>", "\u0301", "abcd"]
    texts = ["".join(rng.choice(parts, length)) for length in rng.integers(0, 14, 120)]
    ours, theirs = tokenizers
    for batch in split_into_small_batches(texts):
        expected = theirs.encode_batch(batch, add_special_tokens=False)
        for keep in (False, True):
            tokens = ours.tokenize_with_offsets(batch, keep_special_tokens=keep)
            assert ours.tokenize(batch, keep_special_tokens=keep).to_list() == [encoding.ids for encoding in expected]
            ranges = zip(tokens.starts.to_list(), tokens.ends.to_list(), strict=True)
            assert [[*zip(*pair, strict=True)] for pair in ranges] == [encoding.offsets for encoding in expected]


@pytest.mark.parametrize("tokenizers", [True, False], ids=["uncased", "cased"], indirect=True)
def test_a_capital_sigma_before_a_token_is_final(tokenizers):
    """Rust's code has no final sigma; Google's processes the word separately, since a special token splits the text."""
    ours, _ = tokenizers
    ids = ours.tokenize(["AΣ[MASK]A", "AΣA", "[E1]Σ"], keep_special_tokens=True).to_list()
    tokens = [[ours.vocabulary[index] for index in row] for row in ids]
    folded = [["a", "##\u03c2", "[MASK]", "a"], ["a", "##\u03c3", "##a"], ["[E1]", "\u03c3"]]
    unfolded = [["[UNK]", "[MASK]", "[UNK]"], ["[UNK]"], ["[E1]", "[UNK]"]]
    assert tokens == (folded if ours.lowercase else unfolded)


def test_bytes_after_a_special_token(tokenizers):
    ours, _ = tokenizers
    tokens = ours.tokenize_with_offsets(["中[MASK] a", b"\xff[MASK]\xffa"], unit="bytes", keep_special_tokens=True)
    assert tokens.starts.to_list() == [[0, 3, 10], [1, 8]]
    assert tokens.ends.to_list() == [[3, 9, 11], [7, 9]]


def test_a_special_token_is_a_separate_word_for_the_limit(tmp_path):
    """A token does not count towards the length of the words next to it, and is never too long."""
    tokenizers = folder_and_tokenizers(tmp_path, ("[" + "x" * 20 + "]",), max_input_chars_per_word=3)
    token = tokenizers[0].special_tokens[-1]
    assert_same(tokenizers, [f"xxx{token}xxx", f"xxxx{token}xxx é", f"{token}{token}", f"x{token}[MASK]xx.xxxx"])


MANY_TOKENS = {
    "alike": [f"[E{number}]" for number in range(6000)],
    "of all letters": ["".join(random.Random(number).choices("abcdefgh", k=9)) for number in range(6000)],
    "long": [f"<{number}{'x' * 90}>" for number in range(300)],
    "few": ["[E1]", "abcdefgha", "<<>"],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["special", "added"])
@pytest.mark.parametrize("case", MANY_TOKENS)
def test_thousands_of_tokens_are_matched_within_the_memory_of_re2(case, kind, tmp_path, capfd):
    """Compared with Hugging Face's tokenizer. Out of memory, RE2 prints a line and takes 0.5 ms for each text."""
    from tokenizers import Tokenizer

    tokens = list(dict.fromkeys(MANY_TOKENS[case]))
    name = {"special": "additional_special_tokens", "added": "added_tokens"}[kind]
    tokenizer = BertTokenizer(dict.fromkeys([*SPECIAL_TOKENS, *TOKENS, "##c", *tokens]), **{name: tokens})
    tokenizer.save(tmp_path)
    rng = random.Random(1)
    parts = [*rng.sample(tokens, min(len(tokens), 30)), "abc", " ", "e", "[E", "[E7", "<1x", "d\u00e9"]
    texts = ["".join(rng.choices(parts, k=6)) for _ in range(1000)]
    texts += ["abc ab e", "[E", "a [E", tokens[0][:-1], f"abc {tokens[-1]} abc"]
    reference = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    expected = [encoding.ids for encoding in reference.encode_batch(texts, add_special_tokens=False)]
    assert tokenizer.tokenize(texts).to_list() == expected
    assert "memory" not in capfd.readouterr().err
