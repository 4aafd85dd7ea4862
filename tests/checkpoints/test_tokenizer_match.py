"""Records that were made with another tokenizer than the checkpoint's are refused, with all differences."""

import pytest

import bert_keras as bk
from bert_keras.checkpoints.vocabulary_file import check_same_tokenizer
from bert_keras.pipelines.records.making_records import write_records
from tests.checkpoints.tiny_folders import WORDS


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Records; the command in the message is built from their manifest."""
    folder = tmp_path_factory.mktemp("same") / "records"
    write_records(folder, [["a b", "b a"]] * 4, bk.BertTokenizer(WORDS), max_sequence_length=16)
    return folder


SETTINGS = {"vocabulary": WORDS, "lowercase": True, "max_sequence_length": 16}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lowercase": False}, "lowercase is True and False"),
        ({"strip_accents": False}, "strip_accents is True and False"),
        ({"tokenize_chinese_chars": False}, "tokenize_chinese_chars is True and False"),
        ({"max_input_chars_per_word": 200}, "max_input_chars_per_word is 100 and 200"),
        ({"added_tokens": ["a"]}, r"added_tokens is \[\] and \['a'\]"),
        ({"additional_special_tokens": ["b"]}, r"additional_special_tokens is \[\] and \['b'\]"),
        ({"vocabulary": [*WORDS, "z"]}, "13 tokens and 14"),
    ],
)
def test_settings_that_change_ids_are_reported(changes, message, records):
    with pytest.raises(bk.InputError, match=f"x has another tokenizer than the records .*{message}"):
        check_same_tokenizer("x", SETTINGS, records, {**SETTINGS, **changes})


def test_settings_that_do_not_change_ids_are_ignored():
    other = {**SETTINGS, "max_sequence_length": 8, "max_input_chars_per_word": 100, "strip_accents": None}
    check_same_tokenizer("x", SETTINGS, "y", other)
