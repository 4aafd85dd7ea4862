"""Vocabularies are learnt the same in every process, and read strictly."""

import hashlib
import os
import random
import subprocess
import sys

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.text.vocabulary import (
    SPECIAL_TOKENS,
    choose_alphabet,
    encode_vocabulary,
    learn_vocabulary,
    make_leading_tokens,
    read_vocabulary,
    vocabulary_of_words,
    write_vocabulary,
)

TEXT = ["the lower the better", "lowest and newest, wider and Wider", "caf\u00e9 \u4e2d\u6587 new-newer"] * 5


def test_a_vocabulary_starts_with_the_special_tokens_and_has_the_size_asked_for(python_text):
    sentences = [sentence for document in python_text for sentence in document]
    vocabulary = learn_vocabulary(iter(sentences), size=2011)
    assert tuple(vocabulary[:5]) == SPECIAL_TOKENS
    assert vocabulary[0] == "[PAD]"
    assert len(vocabulary) == len(set(vocabulary)) == 2011
    assert {"the", "function", "##ing", "##s"} < set(vocabulary)


def test_the_same_text_gives_the_same_bytes_in_every_process_and_nothing_on_the_screen():
    """Left alone, Hugging Face's trainer numbers tokens in the order of a hash map, a new one in each process."""
    code = (
        "import hashlib, pydoc_data.topics as t; from bert_keras.pipelines.text import vocabulary as v; "
        "lines = (line for key in sorted(t.topics) for line in t.topics[key].split('\\n')); "
        "tokens = v.learn_vocabulary(lines, size=1999); "
        "print(hashlib.sha256(v.encode_vocabulary(tokens)).hexdigest())"
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
    assert learn_vocabulary(shuffled, size=83) == learn_vocabulary(TEXT, size=83)


def test_case_and_accents_are_folded_only_when_asked():
    uncased, cased = (set(learn_vocabulary(TEXT, size=90, lowercase=flag)) for flag in (True, False))
    assert "W" in cased
    assert "\u00e9" in "".join(cased)
    assert not {"W", "\u00e9"} & set("".join(uncased - set(SPECIAL_TOKENS)))


def test_punctuation_and_chinese_never_continue_a_word():
    vocabulary = learn_vocabulary(TEXT, size=90)
    assert {",", "-", "\u4e2d"} < set(vocabulary)
    assert not {"##,", "##-", "##\u4e2d"} & set(vocabulary)


def test_unused_slots_stand_where_google_has_them_and_own_tokens_behind_the_special_ones():
    vocabulary = learn_vocabulary(TEXT, size=200, special_tokens=["[E1]", "[/E1]"], num_unused=99)
    assert vocabulary[:3] == ["[PAD]", "[unused0]", "[unused1]"]
    assert vocabulary[100:106] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[E1]", "[/E1]"]
    without = learn_vocabulary(TEXT, size=200 - 101)
    assert [token for token in vocabulary if token not in make_leading_tokens(["[E1]", "[/E1]"], 99)] == without[5:]
    assert len(set(vocabulary)) == len(vocabulary) <= 200


def test_a_special_token_may_be_a_token_of_the_text_and_stands_once():
    tokens = ["the", "a", "##r"]
    vocabulary = learn_vocabulary(TEXT, size=99, special_tokens=tokens)
    assert vocabulary[5:8] == tokens
    assert len(set(vocabulary)) == len(vocabulary)
    smallest = learn_vocabulary(TEXT, size=99, special_tokens=tokens, min_frequency=99)
    assert learn_vocabulary(TEXT, size=len(smallest), special_tokens=tokens) == smallest


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["[E1]", "[E1]"], r"the special token \'\[E1\]\' is there already: name each once, without \[PAD\]"),
        (["[MASK]"], r"the special token \'\[MASK\]\' is there already"),
        (["[unused3]"], r"the special token \'\[unused3\]\' is there already"),
        ([""], "the special token '' is empty or holds white space"),
        (["a b", "c\n"], r"the special token 'a b' is empty or holds white space.*; the special token 'c\\n'"),
        (["a\u2028"], "holds white space; expected one such as"),
        (["a\ud800"], r"the special token 'a\\ud800' is not UTF-8"),
        (["a\0"], r"the special token 'a\\x00' is not UTF-8"),
        (["[E1]"] * 20, r"is there already.*; and 9 more$"),
    ],
)
def test_special_tokens_that_are_no_tokens_are_refused_before_any_text_is_read(tokens, message):
    def untouched():
        pytest.fail("the text was read")
        yield

    with pytest.raises(InputError, match=message):
        learn_vocabulary(untouched(), size=99, special_tokens=tokens, num_unused=5)


@pytest.mark.parametrize("num_unused", [95, 10**9, 10**30])
def test_more_unused_slots_than_tokens_are_refused_before_any_is_made(num_unused):
    with pytest.raises(
        InputError, match=r"a vocabulary of 99 tokens has no room beside [\d,]+ special tokens and unused"
    ):
        make_leading_tokens([], num_unused, size=99)


def test_a_vocabulary_that_no_memory_holds_is_refused():
    with pytest.raises(InputError, match=r"1,000,000,000 tokens was asked for; expected 10,000,000 at most"):
        learn_vocabulary(TEXT, size=10**9)


@pytest.mark.parametrize(("token", "fits"), [("a" * 256, True), ("a" * 257, False), ("\u00e9" * 65, False)])
def test_a_special_token_is_as_long_as_a_tokenizer_takes_it(token, fits):
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

    if fits:
        assert (
            BertTokenizer(make_leading_tokens([token]), additional_special_tokens=[token]).tokenize([token])[0, 0] == 5
        )
        return
    with pytest.raises(InputError, match=r"'.* has \d+ characters; expected at most 256, or 64 outside ASCII: choose"):
        make_leading_tokens([token])


def test_many_special_tokens_take_a_moment():
    tokens = [f"[E{number}]" for number in range(100_000)]  # 0.05 s; where each was looked for in a list, minutes
    assert make_leading_tokens(tokens, 99_999)[-100_000:] == tokens


def test_text_that_is_no_unicode_is_refused():
    with pytest.raises(InputError, match=r"the sentence 'a .ud800' holds half a surrogate pair"):
        learn_vocabulary(["fine", "a \ud800"], size=99)


def test_the_trainer_is_told_every_word_as_often_as_it_was_counted():
    """Single letters have no neighbours to merge, and words beyond the alphabet are [UNK]; the rest must arrive."""
    calls = []
    words = {"low": 250_000, "lower": 7, "x": 900_000, "newest": 1_000_001}
    vocabulary = vocabulary_of_words(words, size=40, progress=lambda *call: calls.append(call))
    assert {"low", "newest", "lower"} < set(vocabulary)
    assert calls[-1] == (1_250_008, 1_250_008)
    assert calls == sorted(calls)
    assert 10 < len(calls) < 20
    rare = vocabulary_of_words(words, size=40, min_frequency=8)
    assert {"low", "newest"} < set(rare)
    assert not {"lower", "##er"} & set(rare)


def test_forgetting_rare_words_gives_the_same_bytes_with_any_number_of_workers(python_text):
    sentences = [sentence for document in python_text for sentence in document]
    options = {"size": 1500, "max_words": 3000}
    alone = learn_vocabulary(sentences, **options)
    assert learn_vocabulary(sentences, **options, num_workers=2) == alone
    assert alone != learn_vocabulary(sentences, size=1500)


def test_rare_pairs_are_not_merged():
    often = learn_vocabulary(["zebra zebra zebra mango mango"], size=99, min_frequency=3)
    assert "zebra" in often
    assert "mango" not in often


def test_a_vocabulary_never_holds_less_than_its_alphabet():
    with pytest.raises(InputError, match=r"of 20 tokens cannot hold .* alphabet of 19 characters.*ask for 3\d tokens"):
        learn_vocabulary(TEXT, size=20, alphabet_size=30)
    with pytest.raises(InputError, match="there is no text to learn"):
        learn_vocabulary(["", " \t"], size=20)


SYLLABLES = [chr(0xAC00 + number) for number in range(1200)]
CHARACTERS = [chr(0x4E00 + number) for number in range(1200)]


def counts(characters, num_frequent=1200):
    """Words of one character; those after the frequent ones are rarer than one in 2,000 together."""
    return {character: 10_000 if place < num_frequent else 1 for place, character in enumerate(characters)}


@pytest.mark.parametrize(
    ("words", "size", "options", "expected"),
    [
        (counts(SYLLABLES), 9000, {}, 1200),  # covers everything
        (counts(SYLLABLES), 2201, {}, 1098),  # two tokens each
        (counts(SYLLABLES, 50), 9000, {}, 1000),  # as other trainers
        (counts(SYLLABLES[:1000]), 2005, {}, 1000),
        (counts(SYLLABLES[:1000]), 2004, {}, 999),  # as far as there is room
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
def test_the_default_alphabet_covers_the_text_as_far_as_there_is_room(words, size, options, expected):
    alphabet = choose_alphabet(words, size=size, **options)
    assert len(alphabet.characters) == expected


def test_the_size_that_an_alphabet_needs_gives_it_by_default():
    words = dict.fromkeys([*SYLLABLES, *CHARACTERS], 5)
    alphabet = choose_alphabet(words, size=100)
    assert len(choose_alphabet(words, size=alphabet.size_needed).characters) == alphabet.num_needed == 2399
    assert alphabet.size_needed == 5 + 2399 + 3 * 1199
    vocabulary = vocabulary_of_words(words, size=alphabet.size_needed)
    assert len(vocabulary) == 5 + 2399 + 1199


def test_a_written_vocabulary_reads_back_with_odd_tokens(tmp_path):
    tokens = [*SPECIAL_TOKENS, "\u2028", "\x85", "a", "##a", "\u3000", "\u4e2d"]
    write_vocabulary(tmp_path / "vocab.txt", tokens)
    assert (tmp_path / "vocab.txt").read_bytes() == "".join(f"{token}\n" for token in tokens).encode()
    assert (tmp_path / "vocab.txt").read_bytes() == encode_vocabulary(tokens)
    assert read_vocabulary(tmp_path / "vocab.txt") == tokens


def test_windows_line_ends_a_byte_order_mark_and_blank_lines_at_the_end_are_mended(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\ufeff".encode() + "\r\n".join([*SPECIAL_TOKENS, "a", "", ""]).encode())
    assert read_vocabulary(path) == [*SPECIAL_TOKENS, "a"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*SPECIAL_TOKENS, "", "a"], r"vocab\.txt, line 6: the line is blank.*take the blank line out"),
        ([*SPECIAL_TOKENS, "a", "b", "a"], r"vocab\.txt, line 8: the token 'a' stands on line 6 already.*restore"),
        (["[PAD]", "[UNK]", "a"], r"vocab\.txt: none of the 3 lines is \[CLS\] or \[SEP\] or \[MASK\]; expected"),
        ([], r"vocab\.txt: none of the 0 lines is \[PAD\]"),
    ],
)
def test_what_would_shift_ids_is_refused_by_line(tmp_path, lines, message):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_vocabulary(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[PAD]\n[UNK]\nna\xefve\n", r"vocab\.txt, line 3: byte 0xef at column 3 is not UTF-8: save"),
        ("[PAD]\n".encode("utf-16-le"), r"vocab\.txt, line 1: there is a NUL byte"),
        (b"[PAD]\na\rb\n", r"vocab\.txt, line 2: the token 'a\\rb' holds a line end"),
    ],
)
def test_a_file_that_is_no_text_is_refused_by_line(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_vocabulary(path)


def test_a_missing_vocabulary_is_told(tmp_path):
    with pytest.raises(InputError, match=r"vocab\.txt does not exist"):
        read_vocabulary(tmp_path / "vocab.txt")


def test_a_token_with_a_line_end_is_not_written(tmp_path):
    with pytest.raises(InputError, match="line 6: the token 'a\\\\nb' holds a line end"):
        write_vocabulary(tmp_path / "vocab.txt", [*SPECIAL_TOKENS, "a\nb"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "size"), [("uncased", 30522), ("cased", 28996), ("chinese", 21128)])
def test_published_vocabularies_read_whole(published_vocabularies, tmp_path, name, size):
    path = published_vocabularies / f"bert_{name}_vocab.txt"
    vocabulary = read_vocabulary(path)
    assert len(vocabulary) == size
    assert vocabulary[100:104] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert encode_vocabulary(vocabulary) == path.read_bytes()
