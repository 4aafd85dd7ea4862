"""Every token has its range of the original text, in characters and in bytes, and the index of its word."""

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.marks import slow
from tests.shared_data import shared

from .tokenizer_checks import assert_ids_equal_googles, assert_offsets_are_correct, published_pair, rich_pair
from .tokenizer_texts import (
    SETTINGS,
    corpus_lines,
    naughty_strings,
    normalization_cases,
    random_bytes,
    random_texts,
    sampled_scalars,
)

CASINGS = pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
UNCASED_FIRST = pytest.mark.parametrize("lowercase", [True, *slow(False)], ids=["uncased", "cased"])


@pytest.fixture(scope="module")
def tokenizer():
    tokens = ["e", "##e", "x", "i", "k", "s", "中", "文", ".", "[", "]", "mask", "ᄀ", "##ᅡ", "##ᆨ", "##x", "##\u302e"]
    return BertTokenizer([*SPECIAL_TOKENS, *tokens, "##\u1bf2"])


def ranges(tokenizer, text, **options):
    tokens = tokenizer.tokenize_with_offsets([text], **options)
    return [*zip(tokens.starts.to_list()[0], tokens.ends.to_list()[0], strict=True)]


@pytest.mark.parametrize(
    ("text", "expected", "expected_bytes"),
    [
        ("", [], []),
        (" \u0301\u200b\n", [], []),
        ("e x", [(0, 1), (2, 3)], [(0, 1), (2, 3)]),
        ("É x", [(0, 1), (2, 3)], [(0, 2), (3, 4)]),
        ("E\u0301 x", [(0, 1), (3, 4)], [(0, 1), (4, 5)]),  # the accent is outside the range
        ("\u0301ex", [(1, 2), (2, 3)], [(2, 3), (3, 4)]),
        ("e\u0301x", [(0, 1), (2, 3)], [(0, 1), (3, 4)]),
        ("qé\u0301\u200bq", [(0, 5)], [(0, 9)]),  # one [UNK], with the dropped character inside
        ("\u200bqé\u0301", [(1, 3)], [(3, 6)]),
        ("e中文.", [(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1), (1, 4), (4, 7), (7, 8)]),
        ("각x", [(0, 1), (0, 1), (0, 1), (1, 2)], [(0, 3), (0, 3), (0, 3), (3, 4)]),
        ("İ \u212a", [(0, 1), (2, 3)], [(0, 2), (3, 6)]),
        ("😂 ẛ̣", [(0, 1), (2, 3)], [(0, 4), (5, 8)]),
        ("e\u302e\u1bf2", [(0, 1), (1, 3), (1, 3)], [(0, 1), (1, 7), (1, 7)]),  # canonical order swaps the marks
        ("\u2028e\u00a0x", [(1, 2), (3, 4)], [(3, 4), (6, 7)]),
        ("x\x00e", [(0, 1), (2, 3)], [(0, 1), (2, 3)]),
    ],
)
def test_the_range_of_each_token(tokenizer, text, expected, expected_bytes):
    assert ranges(tokenizer, text) == expected
    assert ranges(tokenizer, text, unit="bytes") == expected_bytes


def test_the_range_of_a_token_with_reordered_marks(tokenizer):
    assert ranges(tokenizer, "q\u302e\u1bf2 x") == [(0, 3), (4, 5)]


def test_invalid_bytes_count_as_python_replaces_them(tokenizer):
    text = b"e\xff \xe4\xb8x\xed\xa0\x80e"
    assert text.decode("utf-8", "replace") == "e\ufffd \ufffdx\ufffd\ufffd\ufffde"
    assert ranges(tokenizer, text) == [(0, 1), (4, 5), (8, 9)]
    assert ranges(tokenizer, text, unit="bytes") == [(0, 1), (5, 6), (9, 10)]


def test_a_punctuation_mark_is_a_word_and_an_accent_is_not(tokenizer):
    tokens = tokenizer.tokenize_with_offsets(["ex.É 각 [mask]", "", "x", "\u0301 中文q"])
    assert tokens.word_ids.to_list() == [[0, 0, 1, 2, 3, 3, 3, 4, 5, 6], [], [0], [0, 1, 2]]


def test_all_four_outputs_are_ragged_int32(tokenizer):
    tokens = tokenizer.tokenize_with_offsets(["é", "", "x ."])
    assert tokens._fields == ("token_ids", "starts", "ends", "word_ids")
    assert [column.dtype.name for column in tokens] == ["int32"] * 4
    assert all(column.row_lengths().numpy().tolist() == [1, 0, 2] for column in tokens)


def test_an_invalid_unit_is_an_error(tokenizer):
    with pytest.raises(InputError, match="the unit of offsets is 'words'; expected 'characters' or 'bytes'"):
        tokenizer.tokenize_with_offsets(["x"], unit="words")


@UNCASED_FIRST
@pytest.mark.parametrize(("step", "at_least"), [(15, 4_800), *slow((6, 12_000))])
def test_offsets_of_all_kinds_of_characters(step, at_least, lowercase):
    scalars = sampled_scalars(15_000, seed=7)[::step]
    texts = [setting.format(scalar) for setting in SETTINGS.values() for scalar in scalars]
    assert assert_offsets_are_correct(*rich_pair(lowercase=lowercase), texts) > at_least


@UNCASED_FIRST
def test_offsets_of_random_texts(lowercase):
    assert assert_offsets_are_correct(*rich_pair(lowercase=lowercase), random_texts(1000, seed=8)) > 4000


@UNCASED_FIRST
def test_offsets_of_the_normalization_cases_of_unicode(lowercase):
    assert assert_offsets_are_correct(*rich_pair(lowercase=lowercase), normalization_cases()[::20]) > 2000


@pytest.mark.slow  # the naughty strings are compared with Hugging Face's tokenizer below
@pytest.mark.parametrize("name", ["bert_uncased", "bert_multilingual_cased"])
def test_offsets_of_naughty_strings_and_corpora(name):
    texts = [*naughty_strings()[::4], *corpus_lines()[::2000]]
    assert assert_offsets_are_correct(*published_pair(name), texts) > 5_000


@pytest.mark.slow  # test_tokenizer_fuzz.py has a quick test with generated bytes
@CASINGS
def test_10_000_strings_of_invalid_utf8(lowercase):
    pair = rich_pair(lowercase=lowercase)
    texts = random_bytes(10_000, seed=9)
    assert_ids_equal_googles(*pair, texts)
    assert_offsets_are_correct(*pair, texts[:1500])


@pytest.mark.slow
@CASINGS
def test_300_000_strings_of_invalid_utf8(lowercase):
    for seed in range(30):
        assert_offsets_are_correct(*rich_pair(lowercase=lowercase), random_bytes(10_000, seed=100 + seed))


@pytest.mark.parametrize(
    ("name", "with_corpora"),
    [("bert_uncased", False), *slow(("bert_uncased", True), ("bert_multilingual_cased", True))],
)
def test_offsets_and_words_equal_hugging_faces_if_the_ids_do(name, with_corpora, tmp_path):
    from tokenizers import Tokenizer

    tokenizer, _ = published_pair(name)
    tokenizer.save(tmp_path)
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    texts = [*naughty_strings(), *random_words(), *(corpus_lines()[::400] if with_corpora else ())]
    tokens = tokenizer.tokenize_with_offsets(texts)
    rows = zip(*(column.to_list() for column in tokens), strict=True)
    num_same = 0
    for text, encoding, (ids, starts, ends, word_ids) in zip(
        texts, theirs.encode_batch(texts, add_special_tokens=False), rows, strict=True
    ):
        if ids == encoding.ids:
            num_same += 1
            assert [*zip(starts, ends, strict=True)] == encoding.offsets, ascii(text)
            assert word_ids == encoding.word_ids, ascii(text)
    assert num_same > 0.9 * len(texts)


def random_words():
    """Words of five scripts, with accents composed and decomposed."""
    rng = np.random.default_rng(10)
    scripts = ["aeéoôñçßAEÉ", "αάεέωώςΑΆ", "аеёийЁЙ", "कखगनमाि", "가각나한글국"]
    texts = []
    for letters in (*scripts, "e\u0301o\u0302n"):
        for length in rng.integers(1, 40, 100):
            texts.append("".join(rng.choice([*letters, " ", ".", ","], length)))
    return texts


def test_token_ranges_slice_the_answers_of_squad():
    """As needed for question answering: the tokens of an answer slice the answer from the text."""
    import gzip
    import json

    tokenizer, _ = published_pair("bert_uncased")
    data = json.loads(gzip.decompress(shared("squad/squad_v1.1_dev_subset.json.gz").read_bytes()))["data"]
    paragraphs = [paragraph for article in data for paragraph in article["paragraphs"]]
    tokens = tokenizer.tokenize_with_offsets([paragraph["context"] for paragraph in paragraphs])
    num_answers = num_cut = 0
    for paragraph, starts, ends in zip(paragraphs, tokens.starts.to_list(), tokens.ends.to_list(), strict=True):
        for question in paragraph["qas"]:
            answer = question["answers"][0]
            first, last = answer["answer_start"], answer["answer_start"] + len(answer["text"])
            inside = [place for place, end in enumerate(ends) if end > first and starts[place] < last]
            num_answers += 1
            num_cut += paragraph["context"][starts[inside[0]] : ends[inside[-1]]] != answer["text"].strip()
    assert num_answers > 1000
    assert num_cut < 0.01 * num_answers  # answers that start or end inside a word
