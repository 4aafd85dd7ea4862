"""`learn_vocabulary`: the same text gives the same vocabulary in every process; invalid settings are errors."""

import hashlib
import os
import random
import subprocess
import sys

import pytest

import bert_keras as bk
from bert_keras.errors import InputError
from bert_keras.pipelines.text.learned_vocabulary import (
    VocabularySettings,
    choose_alphabet,
    learn_vocabulary,
    train_vocabulary,
)
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS, make_leading_tokens, read_vocabulary
from bert_keras.pipelines.text.vocabulary_settings import read_vocabulary_and_settings

TEXT = ["the lower the better", "lowest and newest, wider and Wider", "caf\u00e9 \u4e2d\u6587 new-newer"] * 5


def learn_tokens(sentences, **options):
    return learn_vocabulary(sentences=sentences, **options).tokens


def test_a_vocabulary_starts_with_the_special_tokens_and_has_the_size_asked_for(some_text):
    sentences = [sentence for document in some_text for sentence in document]
    vocabulary = learn_tokens(iter(sentences), size=2011)
    assert tuple(vocabulary[:5]) == SPECIAL_TOKENS
    assert vocabulary[0] == "[PAD]"
    assert len(vocabulary) == len(set(vocabulary)) == 2011
    assert {"the", "function", "##ing", "##s"} < set(vocabulary)


def test_every_process_learns_the_same_bytes_and_prints_nothing():
    """By default Hugging Face's trainer numbers tokens in the order of a hash map, which differs in each process."""
    code = (
        "import hashlib, pydoc_data.topics as t; import bert_keras as bk; "
        "lines = (line for key in sorted(t.topics) for line in t.topics[key].split('\\n')); "
        "tokens = bk.learn_vocabulary(sentences=lines, size=1999).tokens; "
        "print(hashlib.sha256('\\n'.join(tokens).encode()).hexdigest())"
    )
    digests = []
    for threads in ("1", "2", "2"):
        env = {**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads}
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=env, text=True)
        digests.append(run.stdout)
    assert len(digests[0]) == len(hashlib.sha256().hexdigest()) + 1  # the digest and nothing else
    assert digests == digests[:1] * 3


def test_the_order_of_the_sentences_does_not_matter():
    shuffled = random.Random(3).sample(TEXT, len(TEXT))
    assert learn_tokens(shuffled, size=83) == learn_tokens(TEXT, size=83)


def test_only_lowercase_folds_case_and_accents():
    uncased, cased = (set(learn_tokens(TEXT, size=90, lowercase=flag)) for flag in (True, False))
    assert "W" in cased
    assert "\u00e9" in "".join(cased)
    assert not {"W", "\u00e9"} & set("".join(uncased - set(SPECIAL_TOKENS)))


def test_punctuation_and_chinese_never_continue_a_word():
    vocabulary = learn_tokens(TEXT, size=90)
    assert {",", "-", "\u4e2d"} < set(vocabulary)
    assert not {"##,", "##-", "##\u4e2d"} & set(vocabulary)


def test_unused_tokens_follow_pad_as_in_google_vocabularies_and_additional_special_tokens_follow_mask():
    vocabulary = learn_tokens(TEXT, size=200, special_tokens=["[E1]", "[/E1]"], num_unused=99)
    assert vocabulary[:3] == ["[PAD]", "[unused0]", "[unused1]"]
    assert vocabulary[100:106] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[E1]", "[/E1]"]
    without = learn_tokens(TEXT, size=200 - 101)
    assert [token for token in vocabulary if token not in make_leading_tokens(["[E1]", "[/E1]"], 99)] == without[5:]
    assert len(set(vocabulary)) == len(vocabulary) <= 200


def test_a_special_token_that_is_also_in_the_text_is_one_token():
    tokens = ["the", "a", "##r"]
    vocabulary = learn_tokens(TEXT, size=99, special_tokens=tokens)
    assert vocabulary[5:8] == tokens
    assert len(set(vocabulary)) == len(vocabulary)
    smallest = learn_tokens(TEXT, size=99, special_tokens=tokens, min_frequency=99)
    assert learn_tokens(TEXT, size=len(smallest), special_tokens=tokens) == smallest


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["[E1]", "[E1]"], r"the special token \'\[E1\]\' is a duplicate: give each token once, without \[PAD\]"),
        (["[MASK]"], r"the special token \'\[MASK\]\' is a duplicate"),
        (["[unused3]"], r"the special token \'\[unused3\]\' is a duplicate"),
        ([""], "the special token '' is empty or has white space"),
        (["a b", "c\n"], r"the special token 'a b' is empty or has white space.*; the special token 'c\\n'"),
        (["a\u2028"], "has white space; expected a token such as"),
        (["a\ud800"], r"the special token 'a\\ud800' is not UTF-8"),
        (["a\0"], r"the special token 'a\\x00' is not UTF-8"),
        (["[E1]"] * 20, r"is a duplicate.*; and 9 more$"),
    ],
)
def test_invalid_special_tokens_are_an_error_before_the_text_is_read(tokens, message):
    def untouched():
        pytest.fail("the text was read")
        yield

    with pytest.raises(InputError, match=message):
        learn_tokens(untouched(), size=99, special_tokens=tokens, num_unused=5)


@pytest.mark.parametrize("num_unused", [95, 10**9, 10**30])
def test_more_unused_tokens_than_the_size_are_an_error_before_any_is_made(num_unused):
    with pytest.raises(
        InputError, match=r"a vocabulary of 99 tokens has no room after [\d,]+ special and unused tokens"
    ):
        make_leading_tokens([], num_unused, size=99)


def test_a_size_beyond_the_memory_is_an_error():
    with pytest.raises(InputError, match=r"1,000,000,000 tokens was asked for; expected at most 10,000,000"):
        learn_tokens(TEXT, size=10**9)


@pytest.mark.parametrize(("token", "fits"), [("a" * 256, True), ("a" * 257, False), ("\u00e9" * 65, False)])
def test_a_special_token_is_at_most_as_long_as_the_tokenizer_accepts(token, fits):
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

    if fits:
        assert (
            BertTokenizer(make_leading_tokens([token]), additional_special_tokens=[token]).tokenize([token])[0, 0] == 5
        )
        return
    with pytest.raises(InputError, match=r"'.* has \d+ characters; expected at most 256, or 64 outside ASCII: choose"):
        make_leading_tokens([token])


@pytest.mark.parametrize("letter", ["a", "\u0e01"])
def test_learned_tokens_are_at_most_as_long_as_the_tokenizer_accepts(letter):
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

    clause = "".join(chr(ord(letter) + number % 26) for number in range(107))  # one word, which becomes one token
    tokens = learn_tokens([clause] * 3)
    assert (clause in tokens) == clause.isascii()
    BertTokenizer(tokens)


def test_many_special_tokens_are_fast():
    tokens = [f"[E{number}]" for number in range(100_000)]  # 0.05 s; minutes when each was searched in a list
    assert make_leading_tokens(tokens, 99_999)[-100_000:] == tokens


def test_half_a_surrogate_pair_in_the_text_is_an_error():
    with pytest.raises(InputError, match=r"the sentence 'a .ud800' has half a surrogate pair"):
        learn_tokens(["fine", "a \ud800"], size=99)


def test_the_trainer_receives_each_word_as_often_as_it_was_counted():
    """Except single letters, which have no neighbours to merge, and words beyond the alphabet, which are [UNK]."""
    calls = []
    words = {"low": 250_000, "lower": 7, "x": 900_000, "newest": 1_000_001}
    settings = VocabularySettings(40)
    alphabet = choose_alphabet(words, settings).characters
    vocabulary = train_vocabulary(words, alphabet, settings, lambda *call: calls.append(call))
    assert {"low", "newest", "lower"} < set(vocabulary)
    assert calls[-1] == (1_250_008, 1_250_008)
    assert calls == sorted(calls)
    assert 10 < len(calls) < 20
    rare = train_vocabulary(words, alphabet, VocabularySettings(40, min_frequency=8))
    assert {"low", "newest"} < set(rare)
    assert not {"lower", "##er"} & set(rare)


@pytest.mark.slow
def test_forgetting_rare_words_gives_the_same_bytes_with_any_number_of_workers(python_text):
    sentences = [sentence for document in python_text for sentence in document]
    options = {"size": 1500, "max_words": 3000}
    alone = learn_tokens(sentences, **options)
    assert learn_tokens(sentences, **options, num_workers=2) == alone
    assert alone != learn_tokens(sentences, size=1500)


def test_rare_pairs_are_not_merged():
    often = learn_tokens(["zebra zebra zebra mango mango"], size=99, min_frequency=3)
    assert "zebra" in often
    assert "mango" not in often


def test_a_size_below_the_alphabet_is_an_error():
    with pytest.raises(InputError, match=r"of 20 tokens has no room for .* alphabet of 19 char.*raise --size to 3\d"):
        learn_tokens(TEXT, size=20, alphabet_size=30)
    with pytest.raises(InputError, match="there is no text to learn"):
        learn_tokens(["", " \t"], size=20)


SYLLABLES = [chr(0xAC00 + number) for number in range(1200)]
CHARACTERS = [chr(0x4E00 + number) for number in range(1200)]


def counts(characters, num_frequent=1200):
    """Words of one character; the characters after `num_frequent` are less than one in 2,000 in total."""
    return {character: 10_000 if place < num_frequent else 1 for place, character in enumerate(characters)}


@pytest.mark.parametrize(
    ("words", "size", "options", "expected"),
    [
        (counts(SYLLABLES), 9000, {}, 1200),  # covers everything
        (counts(SYLLABLES), 2201, {}, 1098),  # two tokens each
        (counts(SYLLABLES, 50), 9000, {}, 1000),  # the minimum, as in other trainers
        (counts(SYLLABLES[:1000]), 2005, {}, 1000),
        (counts(SYLLABLES[:1000]), 2004, {}, 999),  # as many as fit
        (counts(SYLLABLES), 2004, {"leading": [*SPECIAL_TOKENS, SYLLABLES[0]]}, 999),
        (counts(CHARACTERS), 1205, {}, 1200),  # one token each, and nothing else to learn
        (counts(CHARACTERS), 1100, {}, 1095),
        (counts(CHARACTERS), 1100, {"leading": ["[PAD]"] * 100}, 1000),
        (counts(CHARACTERS), 4100, {"tokenize_chinese_chars": False}, 1200),
        (counts(CHARACTERS), 2201, {"tokenize_chinese_chars": False}, 1098),
        (counts(SYLLABLES), 3000, {"alphabet_size": 1100}, 1100),
        (counts(SYLLABLES), 6, {}, 1),
    ],
)
def test_the_default_alphabet_covers_the_text_if_it_fits(words, size, options, expected):
    alphabet = choose_alphabet(words, VocabularySettings(size, **options))
    assert len(alphabet.characters) == expected


def test_the_size_needed_has_room_for_the_alphabet_needed():
    words = dict.fromkeys([*SYLLABLES, *CHARACTERS], 5)
    alphabet = choose_alphabet(words, VocabularySettings(100))
    settings = VocabularySettings(alphabet.size_needed)
    characters = choose_alphabet(words, settings).characters
    assert len(characters) == alphabet.num_needed == 2399
    assert alphabet.size_needed == 5 + 2399 + 3 * 1199
    vocabulary = train_vocabulary(words, characters, settings)
    assert len(vocabulary) == 5 + 2399 + 1199


def test_the_public_function_writes_a_vocabulary_that_make_records_reads(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(TEXT))
    stages = []
    learned = bk.learn_vocabulary(
        tmp_path / "text.txt",
        tmp_path / "vocab.txt",
        size=77,
        lowercase=False,
        special_tokens=["[E1]"],
        progress=lambda *call: stages.append(call),
    )
    assert read_vocabulary(tmp_path / "vocab.txt") == learned.tokens
    settings = read_vocabulary_and_settings(tmp_path / "vocab.txt")
    assert (settings["lowercase"], settings["additional_special_tokens"]) == (False, ["[E1]"])
    assert (learned.num_words, learned.num_distinct_words, learned.num_forgotten) == (85, 15, 0)
    assert learned.statistics["vocabulary_size"] == len(learned.tokens)
    assert learned.warnings == []
    assert [stage for stage, *_ in stages] == ["reading", "learning"]
    assert "tokens=" not in repr(learned)


def test_the_public_function_returns_warnings():
    learned = learn_vocabulary(sentences=["a b c d e f g"] * 9, size=5000)
    assert [warning[:13] for warning in learned.warnings] == ["the text gave"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "a.txt", "sentences": ["a"]}, "text and sentences are both given"),
        ({"sentences": ["a"], "size": 20.5}, "size is 20.5; expected"),
        ({"sentences": ["a"], "num_workers": 0}, "num_workers is 0; expected"),
        ({"sentences": ["a"], "num_unused": -1}, "num_unused is -1; expected"),
        ({"sentences": ["a"], "alphabet_size": 0}, "alphabet_size is 0; expected"),
        ({"text": "missing.txt"}, r"missing\.txt does not exist"),
    ],
)
def test_invalid_arguments_are_errors(options, message):
    with pytest.raises(InputError, match=message):
        learn_vocabulary(**options)


def test_an_existing_vocabulary_is_replaced_only_with_overwrite(tmp_path):
    out = tmp_path / "vocab.txt"
    learn_vocabulary(out=out, sentences=TEXT, size=77)
    with pytest.raises(InputError, match=r"vocab\.txt exists"):
        learn_vocabulary(out=out, sentences=TEXT, size=66)
    learn_vocabulary(out=out, sentences=TEXT, size=60, overwrite=True)
    assert len(read_vocabulary(out)) == 60
