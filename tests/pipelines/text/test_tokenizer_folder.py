"""A tokenizer's files in a model folder: other libraries read ours, and we read theirs or raise an error."""

import gzip
import inspect
import json
import os

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, read_vocabulary, write_vocabulary
from tests.shared_data import shared

from .tokenizer_checks import published_pair
from .tokenizer_texts import naughty_strings

TOKENS = [*SPECIAL_TOKENS, "un", "##aff", "play", "##ing", "é", "e", "a", ",", "[E1]", "[E2]", "cat"]
# every argument of the constructor with a value other than its default
CHANGES = {
    "lowercase": False,
    "strip_accents": False,
    "tokenize_chinese_chars": False,
    "max_input_chars_per_word": 200,
    "text_rules": "mediapipe",
    "additional_special_tokens": ("[E2]", "[E1]"),
    "added_tokens": ("un", "cat"),
    "max_sequence_length": 77,
}


@pytest.fixture
def folder(tmp_path):
    """A folder written by us, for tests that change one of its files."""
    BertTokenizer(TOKENS, max_sequence_length=77).save(tmp_path)
    return tmp_path


def write(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")


def config_with(folder, **changes):
    path = folder / "tokenizer_config.json"
    write(path, {**json.loads(path.read_text()), **changes})


def read_arguments(tokenizer):
    return {
        "vocabulary": tokenizer.vocabulary,
        "rules": tokenizer.rules,
        "special_tokens": tokenizer.special_tokens,
        "added_tokens": tokenizer.added_tokens,
        "max_sequence_length": tokenizer.max_sequence_length,
    }


def test_these_tests_cover_every_constructor_argument():
    arguments = set(inspect.signature(BertTokenizer).parameters) - {"vocabulary", "unicode_version"}
    assert arguments == set(CHANGES)  # there is only one valid Unicode version; others are tested below


@pytest.mark.parametrize("name", CHANGES)
def test_every_argument_survives_a_folder(tmp_path, name):
    tokenizer = BertTokenizer(TOKENS, **{name: CHANGES[name]})
    assert read_arguments(tokenizer) != read_arguments(BertTokenizer(TOKENS))
    tokenizer.save(tmp_path / "new" / "folder")
    back = BertTokenizer.from_checkpoint(tmp_path / "new" / "folder")
    assert read_arguments(back) == read_arguments(tokenizer)


def test_all_arguments_together_survive_two_folders(tmp_path):
    changes = {name: value for name, value in CHANGES.items() if name != "text_rules"}
    tokenizer = BertTokenizer(TOKENS, **changes)
    tokenizer.save(tmp_path / "one")
    BertTokenizer.from_checkpoint(tmp_path / "one").save(tmp_path / "two")
    assert read_arguments(BertTokenizer.from_checkpoint(tmp_path / "two")) == read_arguments(tokenizer)
    for name in ("vocab.txt", "tokenizer_config.json", "tokenizer.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
def test_transformers_opens_the_folder_with_additional_special_tokens(tmp_path, lowercase):
    from transformers import AutoTokenizer

    more = ("[E1]", "[E2]")
    tokenizer = BertTokenizer(TOKENS, lowercase=lowercase, additional_special_tokens=more, max_sequence_length=96)
    tokenizer.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert type(theirs).__name__.startswith("BertTokenizer")
    assert theirs.model_max_length == 96
    assert (theirs.pad_token_id, theirs.mask_token_id) == (tokenizer.pad_id, tokenizer.mask_id)
    assert set(theirs.all_special_tokens) == {*SPECIAL_TOKENS, *more}
    assert len(theirs) == len(TOKENS)
    first, second = ["playing [E1] Éa", "unaff[E2],"], ["[MASK]", "cat a"]
    ours = (tokenizer.tokenize(texts, keep_special_tokens=True).to_list() for texts in (first, second))
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    expected = [[cls_id, *a, sep_id, *b, sep_id] for a, b in zip(*ours, strict=True)]
    packed = theirs(first, second)
    assert packed["input_ids"] == expected
    assert packed["token_type_ids"][0] == [0] * (len(expected[0]) - 2) + [1, 1]


def test_a_folder_written_by_transformers_can_be_read(tmp_path):
    """In its newest layout, with `extra_special_tokens` and without our settings."""
    from transformers import BertTokenizer as TheirTokenizer

    write_vocabulary(tmp_path / "vocab.txt", TOKENS)
    theirs = TheirTokenizer.from_pretrained(tmp_path, do_lower_case=False, additional_special_tokens=["[E1]"])
    theirs.save_pretrained(tmp_path / "theirs")
    if not (tmp_path / "theirs" / "vocab.txt").exists():
        write_vocabulary(tmp_path / "theirs" / "vocab.txt", TOKENS)
    ours = BertTokenizer.from_checkpoint(tmp_path / "theirs")
    assert ours.lowercase is False
    assert ours.special_tokens == (*SPECIAL_TOKENS, "[E1]")
    assert ours.max_sequence_length is None
    texts = ["Playing [E1]é", "playing"]
    assert ours.tokenize(texts, keep_special_tokens=True).to_list() == [
        theirs(text, add_special_tokens=False)["input_ids"] for text in texts
    ]


def test_the_saved_tokenizer_json_gives_the_same_ids(tmp_path):
    """Programs in other languages read only this file."""
    from tokenizers import Tokenizer

    tokenizer, _ = published_pair("bert_uncased")
    tokenizer.save(tmp_path)
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    texts = [text for text in naughty_strings() if text.isascii()][::60]
    assert 20 < len(texts) <= 32  # a small batch, which needs no graph
    for text, ids in zip(texts, tokenizer.tokenize(texts, keep_special_tokens=True).to_list(), strict=True):
        assert theirs.encode(text).ids == [tokenizer.cls_id, *ids, tokenizer.sep_id]
    pair = theirs.encode("a [MASK] b", "c")
    assert pair.tokens == ["[CLS]", "a", "[MASK]", "b", "[SEP]", "c", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 0, 0, 1, 1]
    assert theirs.decode(theirs.encode("playings, a").ids) == "playings, a"


def test_our_tokenizer_json_equals_a_published_one(tmp_path):
    """Hugging Face's file of bert-base-uncased, except details of its version and padding."""
    published = json.loads(gzip.decompress(shared("vocab/bert_uncased_hf_tokenizer.json.gz").read_bytes()))
    published_pair("bert_uncased")[0].save(tmp_path)
    ours = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert published["normalizer"].pop("strip_accents") is None  # as lowercase
    assert ours["normalizer"].pop("strip_accents") is True
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        assert ours[part] == published[part]
    assert ours["model"]["vocab"] == published["model"]["vocab"]
    assert ours["model"]["max_input_chars_per_word"] == published["model"]["max_input_chars_per_word"]
    assert [token["content"] for token in ours["added_tokens"]] == [
        token["content"] for token in published["added_tokens"]
    ]


def test_an_unknown_length_stays_unknown(tmp_path):
    BertTokenizer(TOKENS).save(tmp_path)
    assert BertTokenizer.from_checkpoint(tmp_path).max_sequence_length is None


@pytest.mark.parametrize(("limit", "expected"), [(31, 31), (512, 512), (None, 77)])
def test_the_length_of_sentence_transformers_has_priority(folder, limit, expected):
    write(folder / "sentence_bert_config.json", {"max_seq_length": limit})
    assert BertTokenizer.from_checkpoint(folder).max_sequence_length == expected


@pytest.mark.parametrize("length", [int(1e30), 1e30, 10**40])
def test_hugging_faces_unlimited_length_is_none(folder, length):
    config_with(folder, model_max_length=length)
    assert BertTokenizer.from_checkpoint(folder).max_sequence_length is None


def test_tokenizer_json_has_the_settings_that_tokenizer_config_lacks(folder):
    fast = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    fast["normalizer"] |= {"lowercase": False, "strip_accents": True, "handle_chinese_chars": False}
    fast["model"]["max_input_chars_per_word"] = 55
    write(folder / "tokenizer.json", fast)
    config_with(folder)
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    names = ("do_lower_case", "strip_accents", "tokenize_chinese_chars", "max_input_chars_per_word")
    for name in names:
        assert config.pop(name) is not None
    write(folder / "tokenizer_config.json", config)
    rules = BertTokenizer.from_checkpoint(folder).rules
    assert (rules.lowercase, rules.strip_accents, rules.tokenize_chinese_chars, rules.max_input_chars_per_word) == (
        False,
        True,
        False,
        55,
    )
    config_with(
        folder, do_lower_case=True, strip_accents=False, tokenize_chinese_chars=True, max_input_chars_per_word=7
    )
    rules = BertTokenizer.from_checkpoint(folder).rules
    assert (rules.lowercase, rules.strip_accents, rules.tokenize_chinese_chars, rules.max_input_chars_per_word) == (
        True,
        False,
        True,
        7,
    )


def test_tokenizer_json_without_tokenizer_config_gives_no_warning(folder, caplog):
    os.remove(folder / "tokenizer_config.json")
    assert BertTokenizer.from_checkpoint(folder).lowercase is True
    assert not caplog.text


def test_a_folder_without_casing_is_lowercase_with_a_warning(folder, caplog):
    os.remove(folder / "tokenizer_config.json")
    os.remove(folder / "tokenizer.json")
    tokenizer = BertTokenizer.from_checkpoint(folder)
    assert tokenizer.lowercase is True
    assert tokenizer.rules == BertTokenizer(TOKENS).rules
    assert f"{folder / 'tokenizer_config.json'} has no do_lower_case: text is lowercased" in caplog.text


@pytest.mark.parametrize("name", ["additional_special_tokens", "extra_special_tokens"])
@pytest.mark.parametrize(
    "tokens",
    [["[E1]", "[E2]"], [{"content": "[E1]"}, "[SEP]", "[E2]"], {"first": "[E1]", "second": {"content": "[E2]"}}],
)
def test_additional_special_tokens_of_transformers_4_and_5_can_be_read(folder, name, tokens):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("additional_special_tokens", None)
    config.pop("extra_special_tokens", None)
    write(folder / "tokenizer_config.json", {**config, name: tokens})
    assert BertTokenizer.from_checkpoint(folder).special_tokens == (*SPECIAL_TOKENS, "[E1]", "[E2]")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_lower_case": "no"}, "the tokenizer's lowercase is 'no'; expected true or false"),
        ({"strip_accents": "yes"}, "the tokenizer's strip_accents is 'yes'; expected true or false"),
        ({"tokenize_chinese_chars": 0}, "the tokenizer's tokenize_chinese_chars is 0; expected true or false"),
        ({"max_input_chars_per_word": "100"}, "max_input_chars_per_word is '100'; expected an integer from 1"),
        ({"model_max_length": -1}, "max_sequence_length is -1; expected an integer"),
        ({"model_max_length": "512"}, "max_sequence_length is '512'"),
        ({"additional_special_tokens": ["[E9]"]}, r"special token '\[E9\]' is not in the vocabulary"),
        ({"bert_keras": {"unicode_version": "15.1.0"}}, r"unicode_version is '15\.1\.0'; this release of bert_keras"),
        ({"bert_keras": {"text_rules": "spm"}}, "text_rules is 'spm'; expected 'bert' or 'mediapipe'"),
        (
            {"word_tokenizer_type": "mecab"},
            r"tokenizer_config\.json has word_tokenizer_type 'mecab'; expected BERT's",
        ),
    ],
)
def test_unsupported_settings_are_errors_with_the_folder(folder, changes, message):
    config_with(folder, **changes)
    with pytest.raises(InputError, match=message) as error:
        BertTokenizer.from_checkpoint(folder)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("normalizer", {"type": "Lowercase"}, "has normalizer 'Lowercase'; expected BERT's 'BertNormalizer'"),
        ("normalizer", {"clean_text": False}, "has clean_text False; expected BERT's True"),
        ("model", {"type": "BPE"}, "has model 'BPE'; expected BERT's 'WordPiece'"),
        ("model", {"continuing_subword_prefix": ""}, "has continuing_subword_prefix ''; expected BERT's '##'"),
    ],
)
def test_another_algorithm_in_tokenizer_json_is_an_error(folder, part, changes, message):
    fast = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    fast[part] |= changes
    write(folder / "tokenizer.json", fast)
    with pytest.raises(InputError, match=rf"tokenizer\.json {message}.*the ids would differ") as error:
        BertTokenizer.from_checkpoint(folder)
    assert str(folder) in str(error.value)


def test_an_invalid_length_in_the_sentence_config_is_an_error_with_the_folder(folder):
    write(folder / "sentence_bert_config.json", {"max_seq_length": 0})
    with pytest.raises(InputError, match="max_sequence_length is 0; expected an integer >= 1") as error:
        BertTokenizer.from_checkpoint(folder)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "tokenizer.json"])
def test_invalid_json_is_an_error(folder, name):
    (folder / name).write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="is not readable JSON"):
        BertTokenizer.from_checkpoint(folder)
    (folder / name).write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="holds a JSON list; expected an object"):
        BertTokenizer.from_checkpoint(folder)


def test_a_folder_without_a_vocabulary_is_an_error_with_the_file_names(folder):
    content = (folder / "vocab.txt").read_bytes()
    for name in ("vocab.txt", "tokenizer.json"):
        os.remove(folder / name)
    with pytest.raises(InputError, match=r"has no vocabulary, neither tokenizer\.json nor vocab\.txt.*: copy its"):
        BertTokenizer.from_checkpoint(folder)
    (folder / "vocab.txt").write_bytes(content)  # the fix of the message
    assert BertTokenizer.from_checkpoint(folder).vocabulary == tuple(TOKENS)


def test_tokens_that_look_like_line_ends_survive_a_folder(tmp_path):
    tokens = [*SPECIAL_TOKENS, "\u2028", "\x85", "\x0b", " ", "a ", "\u00a0", "\ufeff", "\U0010ffff", "##\ue000"]
    BertTokenizer(tokens).save(tmp_path)
    assert BertTokenizer.from_checkpoint(tmp_path).vocabulary == tuple(tokens)
    assert read_vocabulary(tmp_path / "vocab.txt") == tokens


@pytest.mark.parametrize(
    ("strip_accents", "expected"), [(None, (True, False)), (True, (True, True)), (False, (True, False))]
)
def test_sentence_transformers_lower_case_does_not_strip_accents(folder, strip_accents, expected):
    config_with(folder, do_lower_case=False, strip_accents=strip_accents)
    write(folder / "sentence_bert_config.json", {"do_lower_case": True})
    rules = BertTokenizer.from_checkpoint(folder).rules
    assert (rules.lowercase, bool(rules.strip_accents)) == expected
