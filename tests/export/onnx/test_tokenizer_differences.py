"""The parity report of an ONNX folder counts the texts whose ids differ without TensorFlow."""

import pytest

from bert_keras.cli.console import format_notes
from bert_keras.export.onnx.onnx_artifact import count_tokenizer_differences
from bert_keras.pipelines.text.tokenizer import BertTokenizer

TOKENS = "[PAD] [UNK] [CLS] [SEP] [MASK] play ##ing cafe".split()
TEXTS = ["Playing café", "[MASK] [SEP]"]


@pytest.fixture
def folder(tmp_path):
    BertTokenizer(TOKENS).save(tmp_path)
    return tmp_path


def test_equal_tokenizers_differ_in_no_text(folder):
    assert count_tokenizer_differences(BertTokenizer(TOKENS), folder, TEXTS) == {"texts": 2, "differ": 0}


def test_texts_with_other_ids_are_counted(folder):
    cased = BertTokenizer(TOKENS, lowercase=False)
    assert count_tokenizer_differences(cased, folder, TEXTS) == {"texts": 2, "differ": 1}


def test_a_folder_without_a_portable_tokenizer_has_no_count(folder, tmp_path):
    tokenizer = BertTokenizer(TOKENS, text_rules="mediapipe")
    tokenizer.save(tmp_path / "mediapipe")
    assert count_tokenizer_differences(tokenizer, tmp_path / "mediapipe", TEXTS) is None
    (tmp_path / "empty").mkdir()
    assert count_tokenizer_differences(tokenizer, tmp_path / "empty", TEXTS) is None


def test_differences_are_printed_only_if_there_are_any():
    differences = {"tokenizer_json": {"texts": 16, "differ": 2}}
    reports = {"onnx/a": differences, "onnx/b": differences, "b": {}}
    reports["c"] = {"tokenizer_json": {"texts": 16, "differ": 0}}
    assert format_notes(reports) == ["onnx: 2 of 16 probe texts get other ids in engines without TensorFlow"]
