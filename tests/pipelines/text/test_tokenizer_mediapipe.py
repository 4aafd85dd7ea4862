"""In MediaPipe mode the ids equal those that MediaPipe passes to a model on a phone."""

import warnings

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS

from .mediapipe_oracle import mediapipe_ids, mediapipe_inputs
from .tokenizer_checks import published_vocabulary, rich_tokenizer
from .tokenizer_texts import (
    SCALARS,
    corpus_lines,
    naughty_strings,
    random_bytes,
    random_texts,
    rich_vocabulary,
    sampled_scalars,
    sharp_vocabulary,
)

_SHORT, _LONG = 130, 4096  # tokens; a text has at most one per character, [CLS] and [SEP]
_SCALARS_A_TEXT = 300  # each text adds time to that of its characters


@pytest.fixture(scope="module")
def phone():
    """A function from a vocabulary and texts to MediaPipe's ids without [CLS] and [SEP]."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of mediapipe, while it is imported
            mediapipe_ids(SPECIAL_TOKENS, ["a"])
    except (ImportError, OSError) as error:
        pytest.skip(f"mediapipe does not run here: {error}")

    def ids(vocabulary, texts):
        rows = {}
        for length in (_SHORT, _LONG):  # the time of a text grows with the maximum length
            some = [text for text in texts if (len(text) < _SHORT - 2) == (length == _SHORT)]
            rows.update(zip(some, mediapipe_ids(vocabulary, some, max_sequence_length=length), strict=True))
        assert max(map(len, rows.values()), default=0) < _LONG  # nothing was truncated
        return [rows[text][1:-1] for text in texts]

    return ids


def assert_same(tokenizer, phone, texts):
    rows = tokenizer.tokenize(texts).to_list()
    expected = phone(tokenizer.vocabulary, texts)
    wrong = [(text, row, ids) for text, row, ids in zip(texts, rows, expected, strict=True) if row != ids]
    assert not wrong, (
        f"{len(wrong)} of {len(texts)} texts differ; (text, ours, MediaPipe's): {[*map(ascii, wrong[:3])]}"
    )


def long_texts(scalars):
    """Scalars in three settings, many per text, because MediaPipe's rules apply to one word at a time."""
    scalars = [scalar for scalar in scalars if scalar != "\x00"]
    for setting in ("{}", "a{}b", "中{}\u0301"):
        words = [setting.format(scalar) for scalar in scalars]
        for start in range(0, len(words), _SCALARS_A_TEXT):
            yield " ".join(words[start : start + _SCALARS_A_TEXT])


def test_5_000_characters_in_three_settings(phone):
    scalars = sampled_scalars(20_000, seed=14)[::4]
    tokenizer = BertTokenizer(sharp_vocabulary(scalars), text_rules="mediapipe")
    assert_same(tokenizer, phone, list(long_texts(scalars)))


@pytest.mark.slow
def test_every_character_in_three_settings(phone):
    for start in range(0, len(SCALARS), 1 << 16):
        scalars = SCALARS[start : start + (1 << 16)]
        tokenizer = BertTokenizer(sharp_vocabulary(scalars), text_rules="mediapipe")
        assert_same(tokenizer, phone, list(long_texts(scalars)))


@pytest.fixture(scope="module")
def rich():
    return rich_tokenizer(text_rules="mediapipe")


@pytest.mark.slow  # the next tests compare random strings
def test_naughty_strings_and_corpora(phone):
    tokenizer = BertTokenizer(published_vocabulary("bert_multilingual_cased"), text_rules="mediapipe")
    assert_same(tokenizer, phone, [*naughty_strings(), *corpus_lines()[::1000]])


def test_random_strings(phone, rich):
    assert_same(
        rich, phone, [*random_texts(1000, seed=15), *random_texts(3, seed=16, lengths=np.array([0, 2000, 3000]))]
    )


def test_strings_that_are_not_utf8(phone, rich):
    texts = random_bytes(2000, seed=17)
    assert_same(rich, phone, texts)


def test_a_text_ends_at_nul(phone, rich):
    texts = ["a\x00b", "\x00", "a b\x00", "é\x00\x00a", b"\xff\x00a", "\n\x00"]
    assert_same(rich, phone, texts)
    assert (
        rich.tokenize(texts).to_list()
        == rich.tokenize([text.split("\x00")[0] for text in texts[:4]] + [b"\xff", ""]).to_list()
    )


@pytest.mark.parametrize(
    "letter", ["a", "A", "é", "ж", "한", "\u0301", "\u200b", "\U00010400", b"\xff", b"\xe4\xb8"], ids=ascii
)
def test_the_length_of_a_word_is_in_bytes(phone, rich, letter):
    letter = letter if isinstance(letter, bytes) else letter.encode()
    texts = [letter * number + rest for number in range(1, 103) for rest in (b"", b"x", b"xy")]
    texts = [text for text in texts if 95 <= len(text) <= 106]
    assert {100, 101} & {*map(len, texts)}
    assert_same(rich, phone, [*texts, *(b"b " + text + b".a" for text in texts)])


def test_offsets_refer_to_the_original_text(rich):
    """MediaPipe has no offsets, so the expected values are listed here."""
    texts = ["ab É中 x.", "é\u0301 b\tx", "Xx"]
    tokens = rich.tokenize_with_offsets(texts)
    for text, starts, ends in zip(texts, tokens.starts.to_list(), tokens.ends.to_list(), strict=True):
        spelt = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        assert "".join(spelt) == "".join(text.split())
    in_bytes = rich.tokenize_with_offsets(["É x", b"\xffa b"], unit="bytes")
    assert in_bytes.starts.to_list() == [[0, 3], [0, 3]]
    assert in_bytes.ends.to_list() == [[2, 4], [2, 4]]


def test_the_oracle_itself(phone):
    """[CLS] tokens [SEP], the input of the model."""
    vocabulary = [*SPECIAL_TOKENS, "a", "##b"]
    inputs = mediapipe_inputs(vocabulary, ["ab", "c"], max_sequence_length=7)
    assert inputs["ids"].tolist() == [[2, 5, 6, 3, 0, 0, 0], [2, 1, 3, 0, 0, 0, 0]]
    assert inputs["mask"].tolist() == [[1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0]]
    assert not inputs["segment_ids"].any()


def test_for_mediapipe_keeps_the_vocabulary_and_the_length():
    tokenizer = BertTokenizer(
        [*SPECIAL_TOKENS, "A", "a", "é", "e"], lowercase=False, max_sequence_length=77
    ).for_mediapipe()
    assert tokenizer.rules == TextRules(text_rules="mediapipe", lowercase=True, strip_accents=False)
    assert tokenizer.max_sequence_length == 77
    assert tokenizer.lowercase
    assert tokenizer.tokenize(["A é É"]).to_list() == [[6, 7, 1]]
    assert tokenizer.for_mediapipe().rules == tokenizer.rules


def test_for_mediapipe_needs_pad_first():
    tokens = [*SPECIAL_TOKENS[1:], "[PAD]"]
    with pytest.raises(
        InputError, match=r"\[PAD\] has id 4; expected 0, the padding of MediaPipe: move it to the front"
    ):
        BertTokenizer(tokens).for_mediapipe()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("lowercase", False, "True"),
        ("strip_accents", True, "False"),
        ("tokenize_chinese_chars", False, "True"),
        ("max_input_chars_per_word", 200, "100"),
    ],
)
def test_settings_that_differ_from_mediapipe_are_errors(name, value, expected):
    message = f"{name} is {value} with text_rules 'mediapipe'; expected {expected}, the rule of MediaPipe"
    with pytest.raises(InputError, match=message):
        BertTokenizer(SPECIAL_TOKENS, text_rules="mediapipe", **{name: value})


def test_a_folder_keeps_mediapipes_rules_and_has_no_tokenizer_json(tmp_path, rich):
    rich.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokenizer_config.json", "vocab.txt"]
    back = BertTokenizer.from_checkpoint(tmp_path)
    assert back.rules == rich.rules
    assert back.vocabulary == rich_vocabulary()
