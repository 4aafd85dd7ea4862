"""The settings file of a vocabulary is written, read, and never contradicted silently."""

import json
import re

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.text.text_rules import TextRules
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, read_vocabulary, write_vocabulary
from bert_keras.pipelines.text.vocabulary_settings import (
    get_settings_path,
    read_vocabulary_and_settings,
    write_vocabulary_and_settings,
)

TOKENS = [*SPECIAL_TOKENS, "[E1]", "a", "b", "\u00e9"]
RULES = TextRules(lowercase=True, strip_accents=False, tokenize_chinese_chars=False)


@pytest.fixture
def path(tmp_path):
    """A vocabulary whose settings all differ from the defaults."""
    write_vocabulary_and_settings(
        tmp_path / "my.txt", TOKENS, RULES, special_tokens=["[E1]"], facts={"alphabet_coverage": 0.5}
    )
    return tmp_path / "my.txt"


def test_settings_have_hugging_face_names_and_can_be_read(path):
    assert get_settings_path(path).name == "my.tokenizer_config.json"
    noted = json.loads(get_settings_path(path).read_text())
    assert noted["do_lower_case"] is True
    assert noted["strip_accents"] is False
    assert noted["tokenize_chinese_chars"] is False
    assert noted["additional_special_tokens"] == ["[E1]"]
    assert noted["bert_keras"]["alphabet_coverage"] == 0.5
    assert read_vocabulary(path) == TOKENS
    assert read_vocabulary_and_settings(path) == {
        "vocabulary": TOKENS,
        "lowercase": True,
        "strip_accents": False,
        "tokenize_chinese_chars": False,
        "additional_special_tokens": ["[E1]"],
    }


def test_from_vocabulary_uses_the_settings(path):
    tokenizer = BertTokenizer.from_vocabulary(path, max_sequence_length=9)
    assert tokenizer.rules == RULES
    assert tokenizer.special_tokens[5:] == ("[E1]",)
    assert tokenizer.max_sequence_length == 9


def test_a_vocabulary_without_settings_has_the_given_settings(tmp_path):
    write_vocabulary(tmp_path / "bare.txt", TOKENS)
    assert read_vocabulary_and_settings(tmp_path / "bare.txt", {"lowercase": False, "strip_accents": None}) == {
        "vocabulary": TOKENS,
        "lowercase": False,
    }


@pytest.mark.parametrize("name", ["", "vocab.txt"])
def test_a_model_folder_has_the_settings_of_its_files(tmp_path, name):
    tokenizer = BertTokenizer(TOKENS, lowercase=False, additional_special_tokens=["[E1]"], max_sequence_length=7)
    tokenizer.save(tmp_path)
    settings = read_vocabulary_and_settings(tmp_path / name, {"lowercase": False})
    assert "max_sequence_length" not in settings
    assert BertTokenizer(**settings).rules == tokenizer.rules
    assert BertTokenizer(**settings).special_tokens == tokenizer.special_tokens
    with pytest.raises(InputError, match=r"lowercase contradicts .*, where do_lower_case is false: leave it out"):
        read_vocabulary_and_settings(tmp_path / name, {"lowercase": True})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"lowercase": False}, r"--cased contradicts .*my\.tokenizer_config\.json, where do_lower_case is true: leave"),
        ({"strip_accents": True}, r"strip_accents contradicts .*, where strip_accents is false: leave it out"),
        ({"tokenize_chinese_chars": True}, r"where tokenize_chinese_chars is false"),
        ({"additional_special_tokens": ["a"]}, r"where additional_special_tokens is \[E1\]: leave it out, or learn"),
    ],
)
def test_an_argument_that_contradicts_the_settings_is_an_error(path, asked, message):
    with pytest.raises(InputError, match=message):
        read_vocabulary_and_settings(path, asked, option_names={"lowercase": "--cased"})


def test_an_argument_that_agrees_with_the_settings_is_accepted(path):
    agreed = {"lowercase": True, "strip_accents": False, "additional_special_tokens": ["[E1]"]}
    assert read_vocabulary_and_settings(path, agreed) == read_vocabulary_and_settings(path)


def spoil(path, **changes):
    noted = get_settings_path(path)
    noted.write_text(json.dumps({**json.loads(noted.read_text()), **changes}))


def test_settings_of_another_vocabulary_are_an_error(path):
    write_vocabulary(path, [*TOKENS, "c"])
    with pytest.raises(InputError, match=r"my\.tokenizer_config\.json belongs to another vocabulary than .*my\.txt"):
        read_vocabulary_and_settings(path)
    get_settings_path(path).unlink()  # the fix of the message
    assert read_vocabulary_and_settings(path, {"additional_special_tokens": ["[E1]"]})["vocabulary"][-1] == "c"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_lower_case": "yes"}, "sets do_lower_case to 'yes'; expected true or false"),
        ({"additional_special_tokens": [5]}, "sets additional_special_tokens to [5]; expected a list of strings"),
        ({"bert_keras": {}}, "lacks vocabulary_sha256"),
        ({"bert_keras": 3}, "sets bert_keras to 3; expected an object"),
    ],
)
def test_damaged_settings_are_an_error(path, changes, message):
    spoil(path, **changes)
    with pytest.raises(InputError, match=re.escape(message)):
        read_vocabulary_and_settings(path)


def test_a_killed_run_never_leaves_a_vocabulary_without_its_settings(path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bert_keras.pipelines.text.vocabulary_settings.write_vocabulary", killed)
    with pytest.raises(KeyboardInterrupt):
        write_vocabulary_and_settings(path, [*TOKENS, "c"], TextRules())
    with pytest.raises(InputError, match="belongs to another vocabulary"):
        read_vocabulary_and_settings(path)
