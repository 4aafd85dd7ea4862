"""The tokenizer's ids equal those of Google's `tokenization.py`, for characters and for texts."""

import json
import unicodedata

import numpy as np
import pytest

from bert_keras.pipelines.text.text_rules import UNICODE_VERSION
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.marks import slow, slow_except
from tests.shared_data import SHARED_DATA, shared

from .tokenizer_checks import assert_ids_equal_googles, make_pair, published_pair, rich_pair
from .tokenizer_texts import (
    SCALARS,
    SETTINGS,
    VOCABULARIES,
    corpus_lines,
    naughty_strings,
    normalization_cases,
    sampled_scalars,
    sharp_vocabulary,
)

_SLICE = 1 << 16  # scalar values whose letters fit into the stand-ins of one vocabulary
CASINGS = pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
UNCASED_FIRST = pytest.mark.parametrize("lowercase", [True, *slow(False)], ids=["uncased", "cased"])
PUBLISHED = pytest.mark.parametrize("name", VOCABULARIES)


def in_settings(scalars):
    return [setting.format(scalar) for setting in SETTINGS.values() for scalar in scalars]


def assert_nearly_all(num_compared, num_texts):
    """If Python and our table have different Unicode versions, texts with characters that differ are not compared."""
    if unicodedata.unidata_version == UNICODE_VERSION:
        assert num_compared == num_texts
    else:
        assert 0.99 * num_texts < num_compared <= num_texts


@UNCASED_FIRST
@pytest.mark.parametrize("number", [10_000, *slow(20_000)])
def test_characters_in_four_settings(number, lowercase):
    scalars = sampled_scalars(20_000, seed=1)[:: 20_000 // number]
    pair = make_pair(sharp_vocabulary(scalars), lowercase=lowercase)
    assert_nearly_all(assert_ids_equal_googles(*pair, in_settings(scalars)), 4 * number)


@pytest.mark.slow  # the naughty strings also test the published vocabularies
@PUBLISHED
def test_2_500_characters_in_four_settings_with_published_vocabularies(name):
    texts = in_settings(sampled_scalars(15_000, seed=2)[::6])
    assert_nearly_all(assert_ids_equal_googles(*published_pair(name), texts), 10_000)


@pytest.mark.slow
@CASINGS
def test_every_character_in_four_settings(lowercase):
    assert len(SCALARS) == 1_112_064
    num_texts = 0
    for start in range(0, len(SCALARS), _SLICE):
        scalars = SCALARS[start : start + _SLICE]
        pair = make_pair(sharp_vocabulary(scalars), lowercase=lowercase)
        num_texts += assert_ids_equal_googles(*pair, in_settings(scalars))
    assert_nearly_all(num_texts, 4 * 1_112_064)


@pytest.mark.slow
@PUBLISHED
def test_every_character_in_four_settings_with_published_vocabularies(name):
    assert_nearly_all(assert_ids_equal_googles(*published_pair(name), in_settings(SCALARS)), 4 * 1_112_064)


@pytest.mark.slow
def test_every_chinese_character_can_be_a_token():
    """80,000 single-character words need stand-ins from all ranges that tensorflow-text splits off."""
    ranges = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x2A6E0), (0x2A700, 0x2CEB0))
    scalars = [chr(code) for first, end in ranges for code in range(first, end)][:-1000]
    pair = make_pair([*SPECIAL_TOKENS, "a", "b", *scalars])
    assert_ids_equal_googles(*pair, [f"a{scalar}b" for scalar in scalars[::2]])


@pytest.mark.parametrize("name", slow_except(VOCABULARIES, quick=["bert_uncased"]))
def test_naughty_strings(name):
    assert assert_ids_equal_googles(*published_pair(name), naughty_strings()) > 1500


@UNCASED_FIRST
@pytest.mark.parametrize(("step", "at_least"), [(4, 10_000), *slow((1, 40_000))])
def test_normalization_cases_of_unicode(step, at_least, lowercase):
    texts = normalization_cases()[::step]
    pair = make_pair(sharp_vocabulary(texts), lowercase=lowercase)
    assert assert_ids_equal_googles(*pair, [*texts, *(f"a{text}\u0323b" for text in texts[::4])]) > at_least


@pytest.mark.slow
@PUBLISHED
def test_one_line_in_200_of_all_corpora(name):
    assert assert_ids_equal_googles(*published_pair(name), corpus_lines()[::200]) > 2500


@pytest.mark.slow
@PUBLISHED
def test_all_lines_of_all_corpora(name):
    assert assert_ids_equal_googles(*published_pair(name), corpus_lines()) > 500_000


def published_cases():
    path = SHARED_DATA / "tokenizer_cases" / "bert_vocab_cases.jsonl"
    if not path.exists():
        return [pytest.param(None, marks=pytest.mark.skip(f"{path} is not on this machine"))]
    cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [pytest.param(case, id=f"{case['vocab'].split('_')[1]}-{case['name']}") for case in cases]


@pytest.mark.parametrize("case", published_cases())
def test_cases_of_transformers_js(case):
    tokenizer, _ = published_pair(case["vocab"].removesuffix("_vocab.txt"))
    assert tokenizer.lowercase is case["do_lower_case"]
    ids = tokenizer.tokenize([case["text"]]).to_list()[0]
    assert [tokenizer.vocabulary[index] for index in ids] == case["tokens"]
    assert [tokenizer.cls_id, *ids, tokenizer.sep_id] == case["ids"]


@pytest.fixture(scope="module")
def google_cases():
    return json.loads(shared("tokenizer_cases/google_bert_cases.json").read_text(encoding="utf-8"))


def with_special_tokens(tokens):
    """The vocabularies of the cases lack [PAD] and [MASK]: their ids do not change, and missing tokens come last."""
    return [*tokens, *(token for token in SPECIAL_TOKENS if token not in tokens)]


def tokenize(tokenizer, text):
    return [tokenizer.vocabulary[index] for index in tokenizer.tokenize([text]).to_list()[0]]


def test_the_full_tokenizer_case_of_google(google_cases):
    case = google_cases["full_tokenizer"]
    tokenizer = BertTokenizer(with_special_tokens(case["vocab"]), lowercase=case["do_lower_case"])
    assert tokenizer.tokenize([case["text"]]).to_list() == [case["ids"]]
    assert tokenize(tokenizer, case["text"]) == case["tokens"]


@CASINGS
def test_the_word_cases_of_google(google_cases, lowercase):
    cases = [case for case in google_cases["basic"] if case["do_lower_case"] is lowercase]
    words = dict.fromkeys(word for case in cases for word in case["tokens"])
    tokenizer = BertTokenizer(with_special_tokens(words), lowercase=lowercase)
    assert [tokenize(tokenizer, case["text"]) for case in cases] == [case["tokens"] for case in cases]


def test_the_wordpiece_cases_of_google(google_cases):
    tokenizer = BertTokenizer(with_special_tokens(google_cases["wordpiece"]["vocab"]), lowercase=False)
    for case in google_cases["wordpiece"]["cases"]:
        assert tokenize(tokenizer, case["text"]) == case["tokens"], case


@CASINGS
def test_the_character_class_cases_of_google(google_cases, lowercase):
    """A space separates words, a control character is dropped, a punctuation mark is a word."""
    tokenizer, _ = rich_pair(lowercase=lowercase)
    assert all(tokenize(tokenizer, f"x{space}y") == ["x", "y"] for space in google_cases["is_whitespace"]["true"])
    assert all(tokenize(tokenizer, f"x{dropped}y") == ["x", "##y"] for dropped in google_cases["is_control"]["true"])
    for mark in google_cases["is_punctuation"]["true"]:
        assert tokenize(tokenizer, f"x{mark}y") == ["x", mark, "y"]
    for letter in ("A", "\U0001f4a9"):
        assert letter in google_cases["is_control"]["false"]
        assert tokenize(tokenizer, f"x{letter}x") == ["x", f"##{letter.lower() if lowercase else letter}", "##x"]


def test_a_pair_is_encoded_as_in_the_case_of_hugging_face(google_cases):
    case = google_cases["pair_encode_uncased"]
    tokenizer, _ = published_pair("bert_uncased")
    tokens = tokenizer.tokenize_with_offsets([case["text"], case["text_pair"]])
    (first, second), cls_id, sep_id = tokens.token_ids.to_list(), tokenizer.cls_id, tokenizer.sep_id
    assert [cls_id, *first, sep_id, *second, sep_id] == case["ids"]
    ranges = [[*zip(*row, strict=True)] for row in zip(tokens.starts.to_list(), tokens.ends.to_list(), strict=True)]
    outside = (0, 0)
    expected = [*map(tuple, case["offsets"])]
    assert [outside, *ranges[0], outside, *ranges[1], outside] == expected


def test_ids_do_not_depend_on_the_order_of_the_batch(tiny_tokenizer):
    """Plain ASCII texts have a code path of their own, so every mixture is tested."""
    rng = np.random.default_rng(3)
    kinds = [
        "the a.",
        "",
        "Plaÿing",
        "plays",
        "\u0301",
        "xyz" * 50,
        "b" * 101,
        "Σ ab",
        "c\u00ad",
        "the\x7fa",
        " ",
        "中",
    ]
    alone = {text: tiny_tokenizer.tokenize([text]).to_list()[0] for text in kinds}
    for size in (*range(7), 31):
        for _ in range(6):
            texts = rng.choice(kinds, size).tolist()
            assert tiny_tokenizer.tokenize(texts).to_list() == [alone[text] for text in texts]
