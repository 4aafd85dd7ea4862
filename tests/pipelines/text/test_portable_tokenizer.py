"""`PortableTokenizer` returns the ids and ranges of `BertTokenizer`, without TensorFlow."""

import json
import subprocess
import sys

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.text.portable_tokenizer import PortableTokenizer
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from tests.marks import slow
from tests.shared_data import shared

TOKENS = "[PAD] [UNK] [CLS] [SEP] [MASK] [E1] naïve naive cafe ##s play ##ing , . [ ] mask 中 i don ' t fi x".split()
TEXTS = [
    "",
    " \t\n",
    "Cafés, PLAYING.",
    "naïve [MASK] [E1] mask[E1]",
    "中中 don't",
    "\ufb01x \u2460 i\u0307 İ",
    "x" * 101,
    "cafe\u0301s \x00 x\ufffdx",
]
KINDS = (BertTokenizer, PortableTokenizer)
SETTINGS = {
    "uncased": {},
    "cased": {"lowercase": False},
    "accents": {"strip_accents": False, "added_tokens": ["naïve"]},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_ids_ranges_and_words_equal_those_of_bert_tokenizer(settings):
    settings = {"vocabulary": TOKENS, "additional_special_tokens": ["[E1]"], **settings}
    ours, portable = BertTokenizer(**settings), PortableTokenizer(**settings)
    assert_equal(portable.tokenize_to_arrays(TEXTS), ours.tokenize_to_arrays(TEXTS))
    with_offsets = (
        portable.tokenize_to_arrays(TEXTS, with_offsets=True),
        ours.tokenize_to_arrays(TEXTS, with_offsets=True),
    )
    assert_equal(*with_offsets)
    assert portable.pad_id == ours.pad_id


def assert_equal(got, expected):
    assert (got.starts is None) == (expected.starts is None)
    for name in ("token_ids", "row_splits", *(() if got.starts is None else ("starts", "ends", "word_ids"))):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("number", [30, *slow(500)])  # 30 run op by op, without tracing a graph
def test_real_sentences_have_the_same_tokens_and_ranges(number):
    vocabulary = shared("vocab/bert_uncased_vocab.txt").read_text("utf-8").split("\n")[:-1]
    lines = shared("banking77/test.csv").read_text("utf-8").split("\n")[1 : 1 + number]
    ours, portable = (kind(vocabulary).tokenize_to_arrays(lines, with_offsets=True) for kind in KINDS)
    assert_equal(portable, ours)


def test_it_runs_without_tensorflow():
    code = (
        "import json, sys\n"
        "from bert_keras.pipelines.text.portable_tokenizer import PortableTokenizer\n"
        f"ids = PortableTokenizer({TOKENS!r}).tokenize_to_arrays(['Cafés']).token_ids\n"
        "print(json.dumps([ids.tolist(), 'tensorflow' in sys.modules or 'keras' in sys.modules]))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == [[8, 9], False]


def test_rules_and_texts_that_it_cannot_handle_are_reported():
    with pytest.raises(InputError, match="MediaPipe's text rules, which run in TensorFlow only; expected BERT's: use"):
        PortableTokenizer(TOKENS, text_rules="mediapipe")
    with pytest.raises(InputError, match="text 1 is 3, a int; expected a string"):
        PortableTokenizer(TOKENS).tokenize_to_arrays(["a", 3])
