"""Known characters and characters of overlong words are counted according to the rules of the tokenizer."""

import itertools
import random

import pytest
from tokenizers import normalizers, pre_tokenizers

from bert_keras.pipelines.records.tokenized_documents import KnownCharacters
from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS

LETTERS = "ab\u00e9\u0e01\u0e31\u4e2d\uac00\u2260,\u3000 \u00a0\u00ad\u0301\u01c4"


def count(passages, rules=None, special_tokens=(), tokens=("a", "##b")):
    vocabulary = (*SPECIAL_TOKENS, *tokens, *special_tokens)
    spec = TokenizerSpec(vocabulary, rules or TextRules(), additional_special_tokens=tuple(special_tokens))
    return KnownCharacters(spec).count([passage.encode() for passage in passages])


def split_words(passage, rules):
    """Split text into words with the rules of Hugging Face."""
    normalizer = normalizers.BertNormalizer(
        lowercase=rules.lowercase,
        strip_accents=rules.strip_accents,
        handle_chinese_chars=rules.tokenize_chinese_chars,
    )
    splitter = pre_tokenizers.BertPreTokenizer()
    return [word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(passage))]


@pytest.mark.parametrize(("lowercase", "strip_accents", "chinese"), [*itertools.product([True, False], repeat=3)])
def test_counts_of_characters_and_long_words_equal_hugging_face(lowercase, strip_accents, chinese):
    rules = TextRules(lowercase, strip_accents, chinese, max_input_chars_per_word=7)
    rng = random.Random(3)
    weights = [4] * 8 + [1] * (len(LETTERS) - 8)
    passages = ["".join(rng.choices(LETTERS, weights, k=rng.randint(0, 60))) for _ in range(300)]
    words = [word for passage in passages for word in split_words(passage, rules)]
    num_characters, num_known, num_long = count(passages, rules)
    assert num_characters == sum(map(len, words))
    assert num_known == sum(word.count("a") + word.count("b") for word in words)
    assert num_long == sum(len(word) for word in words if len(word) > 7)
    assert 0 < num_long < num_characters


def test_word_of_100_characters_is_counted_as_known_and_passages_separate_words():
    assert count(["x" * 100 + " " + "a" * 101, "a" * 60, "a" * 60]) == (321, 221, 101)


def test_mediapipe_counts_the_length_of_words_in_bytes():
    rules = TextRules(text_rules="mediapipe")
    assert count(["\u0e01" * 33 + " " + "\u0e01" * 34 + "\u00a0", "A" * 100], rules)[2] == 34


def test_special_tokens_are_not_counted_and_separate_words():
    tokens = ("[E1]", "[E1]x", "NAME", "NAMED")
    assert count(["a[E1]xb NAMEDNAMEb [E1", "a" * 60 + "NAME" + "a" * 60], None, tokens) == (
        2 + 1 + 3 + 120,
        123,
        0,
    )


def test_thousands_of_special_tokens_are_counted():
    """Without a regular expression of all tokens: with 4,000 alternatives it took 7.4 us per byte."""
    text = ["in the [entity] of [e1] or <e2>, [e"] * 10_000
    tokens = [f"{bracket}e{number}]" for bracket in "[<" for number in range(5000)]
    assert count(text, None, tokens)[0] == 10_000 * len("inthe[entity]ofor<e2>,[e")
