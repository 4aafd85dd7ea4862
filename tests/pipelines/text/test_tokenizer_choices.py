"""Rules that are settings, compared with third-party tokenizers that have the same settings."""

import functools
import itertools
import unicodedata

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.marks import slow_except

from .google_reference import GoogleTokenizer
from .tokenizer_checks import assert_ids_equal_googles, rich_tokenizer
from .tokenizer_texts import SETTINGS, random_texts, sampled_scalars

CHOICES = pytest.mark.parametrize(
    ("lowercase", "strip_accents", "tokenize_chinese_chars"),
    slow_except(
        itertools.product([True, False], repeat=3), quick=[(True, False, True), (False, True, False)]
    ),  # each value once
)


@CHOICES
def test_each_setting_matches_the_python_tokenizer_of_transformers(lowercase, strip_accents, tokenize_chinese_chars):
    """It composes first (NFC) and drops unassigned characters, so only texts that this does not change are compared."""
    from transformers.models.bert.tokenization_bert_legacy import BasicTokenizer

    settings = {"strip_accents": strip_accents, "tokenize_chinese_chars": tokenize_chinese_chars}
    basic = BasicTokenizer(lowercase, **settings)
    tokenizer = rich_tokenizer(lowercase=lowercase, **settings)
    scalars = sampled_scalars(15_000, seed=4)[::6]
    texts = [setting.format(scalar) for setting in SETTINGS.values() for scalar in scalars] + random_texts(600, seed=5)
    texts = [text for text in texts if is_composed(text) and not has_no_meaning(text)]
    google = GoogleTokenizer(tokenizer.vocabulary, basic=basic)
    assert assert_ids_equal_googles(tokenizer, google, texts) > 4_000


def is_composed(text):
    """Whether composition does not change a text without control characters."""
    kept = "".join(character for character in text if unicodedata.category(character) not in ("Cc", "Cf"))
    return unicodedata.normalize("NFC", kept) == kept


def has_no_meaning(text):
    return any(unicodedata.category(character) in ("Cn", "Co") for character in text)


@CHOICES
def test_each_setting_matches_the_rust_tokenizers(tmp_path, lowercase, strip_accents, tokenize_chinese_chars):
    """For letters of every Unicode version, without capital sigmas, which are never final in Rust's code."""
    from tokenizers import Tokenizer

    settings = {"strip_accents": strip_accents, "tokenize_chinese_chars": tokenize_chinese_chars}
    tokenizer = rich_tokenizer(lowercase=lowercase, **settings)
    tokenizer.save(tmp_path)
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    rng = np.random.default_rng(6)
    letters = [*"aäÄeéÉsñЙйёάΏώη각한가 . 中文x日本語ガが", "\u0301", "\uf900"]
    texts = ["".join(rng.choice(letters, length)) for length in rng.integers(0, 30, 400)]
    expected = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
    assert tokenizer.tokenize(texts).to_list() == expected


def test_accents_are_stripped_by_default_if_case_is_folded():
    assert [TextRules(lowercase=lowercase).strip_accents for lowercase in (True, False)] == [True, False]
    assert TextRules(lowercase=True, strip_accents=False).strip_accents is False


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lowercase": "yes"}, "the tokenizer's lowercase is 'yes'; expected true or false"),
        ({"strip_accents": 1}, "the tokenizer's strip_accents is 1; expected true or false"),
        ({"tokenize_chinese_chars": None}, "the tokenizer's tokenize_chinese_chars is None; expected true or false"),
        ({"max_input_chars_per_word": 0}, "max_input_chars_per_word is 0; expected an integer from 1 to 1,000"),
        ({"max_input_chars_per_word": 1001}, "max_input_chars_per_word is 1001; expected an integer"),
        ({"max_input_chars_per_word": 1.5}, r"max_input_chars_per_word is 1\.5; expected an integer"),
        ({"max_input_chars_per_word": True}, "max_input_chars_per_word is True; expected an integer"),
        (
            {"unicode_version": "15.0.0"},
            r"unicode_version is '15\.0\.0'; this release of bert_keras carries Unicode 14",
        ),
        ({"text_rules": "sentencepiece"}, "text_rules is 'sentencepiece'; expected 'bert' or 'mediapipe'"),
    ],
)
def test_an_invalid_rule_is_an_error(settings, message):
    for make in (TextRules, functools.partial(BertTokenizer, SPECIAL_TOKENS)):
        with pytest.raises(InputError, match=message):
            make(**settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocabulary": ["a"]}, r"is \[PAD\] or \[UNK\]"),
        ({"vocabulary": [*SPECIAL_TOKENS, "x" * 257]}, "has 257 characters; expected at most 256, or 64 outside ASCII"),
        ({"vocabulary": [*SPECIAL_TOKENS, "##" + "é" * 86]}, "has 88 characters; expected at most 256"),
        ({"vocabulary": [*SPECIAL_TOKENS, *map(chr, range(0x30000, 0x55000))]}, "has 151,552 different characters"),
        (
            {"additional_special_tokens": ["[E1]"]},
            r"special token '\[E1\]' is not in the vocabulary; expected",
        ),
        ({"additional_special_tokens": ["[SEP]"]}, r"special token '\[SEP\]' is given twice; expected each token once"),
        ({"max_sequence_length": 0}, "max_sequence_length is 0; expected an integer >= 1"),
        ({"max_sequence_length": 12.5}, r"max_sequence_length is 12\.5"),
        ({"max_sequence_length": True}, "max_sequence_length is True"),
    ],
)
def test_invalid_arguments_are_errors(changes, message):
    with pytest.raises(InputError, match=message):
        BertTokenizer(**{"vocabulary": SPECIAL_TOKENS, **changes})
