"""Vocabularies are learnt the same in every process, and read strictly."""

import hashlib
import os
import random
import subprocess
import sys

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.vocabulary import (
    SPECIAL_TOKENS,
    learn_vocabulary,
    read_vocabulary,
    vocabulary_bytes,
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
    """Left alone, Hugging Face's trainer numbers pieces in the order of a hash map, a new one in each process."""
    code = (
        "import hashlib, pydoc_data.topics as t; from bert_keras.pipelines import vocabulary as v; "
        "lines = (line for key in sorted(t.topics) for line in t.topics[key].split('\\n')); "
        "pieces = v.learn_vocabulary(lines, size=1999); "
        "print(hashlib.sha256(v.vocabulary_bytes(pieces)).hexdigest())"
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


def test_rare_pairs_are_not_merged():
    often = learn_vocabulary(["zebra zebra zebra mango mango"], size=99, min_frequency=3)
    assert "zebra" in often
    assert "mango" not in often


def test_a_vocabulary_never_holds_less_than_its_alphabet():
    with pytest.raises(InputError, match=r"of 20 pieces cannot hold .* alphabet of 19 characters.*ask for 3\d pieces"):
        learn_vocabulary(TEXT, size=20)
    with pytest.raises(InputError, match="there is no text to learn"):
        learn_vocabulary(["", " \t"], size=20)


def test_a_written_vocabulary_reads_back_with_odd_pieces(tmp_path):
    tokens = [*SPECIAL_TOKENS, "\u2028", "\x85", "a", "##a", "\u3000", "\u4e2d"]
    write_vocabulary(tmp_path / "vocab.txt", tokens)
    assert (tmp_path / "vocab.txt").read_bytes() == "".join(f"{token}\n" for token in tokens).encode()
    assert (tmp_path / "vocab.txt").read_bytes() == vocabulary_bytes(tokens)
    assert read_vocabulary(tmp_path / "vocab.txt") == tokens


def test_windows_line_ends_a_byte_order_mark_and_blank_lines_at_the_end_are_mended(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\ufeff".encode() + "\r\n".join([*SPECIAL_TOKENS, "a", "", ""]).encode())
    assert read_vocabulary(path) == [*SPECIAL_TOKENS, "a"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*SPECIAL_TOKENS, "", "a"], r"vocab\.txt, line 6: the line is blank.*take the blank line out"),
        ([*SPECIAL_TOKENS, "a", "b", "a"], r"vocab\.txt, line 8: the piece 'a' stands on line 6 already.*restore"),
        (["[PAD]", "[UNK]", "a"], r"vocab\.txt: none of the 3 lines is \[CLS\] or \[SEP\] or \[MASK\]; expected"),
        ([], r"vocab\.txt: none of the 0 lines is \[PAD\]"),
    ],
)
def test_what_would_shift_ids_is_refused_by_line(tmp_path, lines, message):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_vocabulary(path)


def test_a_piece_with_a_line_end_is_not_written(tmp_path):
    with pytest.raises(InputError, match="line 6: the piece 'a\\\\nb' holds a line end"):
        write_vocabulary(tmp_path / "vocab.txt", [*SPECIAL_TOKENS, "a\nb"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "size"), [("uncased", 30522), ("cased", 28996), ("chinese", 21128)])
def test_published_vocabularies_read_whole(published_vocabularies, tmp_path, name, size):
    path = published_vocabularies / f"bert_{name}_vocab.txt"
    vocabulary = read_vocabulary(path)
    assert len(vocabulary) == size
    assert vocabulary[100:104] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert vocabulary_bytes(vocabulary) == path.read_bytes()
