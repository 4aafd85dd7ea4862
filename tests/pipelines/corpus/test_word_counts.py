"""Words are counted as BERT splits them, with the same result for any number of workers, in bounded memory."""

import collections
import itertools
import random
import subprocess
import sys

import pytest
from tokenizers import normalizers, pre_tokenizers

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus import word_counts
from bert_keras.pipelines.corpus.word_counts import MAX_WORD_LENGTH, Splitting, count_words
from tests.marks import slow


@pytest.fixture(scope="module")
def sentences():
    """Three and a half blocks of text: words of ten alphabets with a Zipf distribution, and rare words."""
    rng = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEF,.'-\u00e9\u4e2d\u0301\u00df"
    words = ["".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(20_000)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return [" ".join(rng.choices(words, cum_weights=weights, k=20)) for _ in range(30_000)]


def reference(sentences, lowercase):
    """The words of Hugging Face's splitter, sentence by sentence."""
    normalizer, splitter = normalizers.BertNormalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer()
    return collections.Counter(
        word for sentence in sentences for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(sentence))
    )


@pytest.mark.parametrize("lowercase", [True, False])
def test_words_equal_those_of_hugging_face(sentences, lowercase):
    ascii_pairs = ["".join(pair) for pair in itertools.product(map(chr, range(0x20, 0x7F)), repeat=2)]
    text = [
        *sentences[:1000],
        *ascii_pairs,
        "a\x00b",
        "a\x7fb",
        "\u00adx",
        "a\u200bb",
        "\u0130I",
        "Stra\u00dfe",
        "\u4e2d\u6587a",
    ]
    counted = count_words(text, Splitting(lowercase))
    assert counted.counts == reference(text, lowercase)
    assert counted.num_words == sum(counted.counts.values())
    assert counted.num_forgotten == counted.most_forgotten == 0


@pytest.mark.parametrize(("max_words", "num_workers"), [(3000, 2), *slow((3000, 3), (10**6, 2), (10**6, 3))])
def test_counts_and_their_order_do_not_depend_on_the_number_of_workers(sentences, max_words, num_workers):
    alone = count_words(sentences, max_words=max_words)
    together = count_words(iter(sentences), max_words=max_words, num_workers=num_workers)
    assert list(together.counts.items()) == list(alone.counts.items())
    assert together == alone
    assert (alone.num_forgotten > 0) == (max_words == 3000)


def test_characters_of_the_text_and_of_long_words_are_counted():
    """Before normalization, without white space and special tokens."""
    counted = count_words(
        ["\u00c4b \u00e4 [E1]c", "x" * 101 + " " + "y" * 100, "z" * 300], Splitting(special_tokens=("[E1]",))
    )
    assert counted.num_characters == 2 + 1 + 1 + 101 + 100 + 300
    assert counted.characters == {"\u00c4": 1, "\u00e4": 1}
    assert counted.num_long == 101 + 300
    assert counted.counts == {"ab": 1, "a": 1, "c": 1, "x" * 101: 1, "y" * 100: 1}


def test_a_word_that_is_too_long_is_not_counted():
    assert count_words(["a" * MAX_WORD_LENGTH, "b" * (MAX_WORD_LENGTH + 1)]).counts == {"a" * MAX_WORD_LENGTH: 1}


@pytest.mark.parametrize(
    ("max_words", "held", "most_forgotten"),
    [(6, {"a": 5, "b": 3, "c": 3}, 3), (4, {"a": 5, "b": 3}, 3), (2, {"a": 5}, 3), (1, {"a": 5}, 3)],
)
def test_the_most_frequent_half_of_too_many_words_is_kept_and_the_first_of_equals(max_words, held, most_forgotten):
    counted = count_words(["a a a a a f b b b c c c d d d e e g"], max_words=max_words)
    assert counted.counts == held
    assert counted.most_forgotten == most_forgotten
    assert count_words(["f a a a b b c c"], Splitting(lowercase=False), max_words=3).counts == {"a": 3}


def test_the_rarest_words_are_forgotten_with_a_warning(sentences, monkeypatch, caplog):
    monkeypatch.setattr(word_counts, "_BLOCK_CHARACTERS", 10_000)
    exact = count_words(sentences[:10_000])
    bounded = count_words(sentences[:10_000], max_words=4000)
    assert len(bounded.counts) <= 4000 < len(exact.counts)
    assert bounded.num_words == exact.num_words
    assert bounded.num_forgotten == exact.num_words - sum(bounded.counts.values())
    lost = {word: count - bounded.counts.get(word, 0) for word, count in exact.counts.items()}
    assert min(lost.values()) >= 0
    assert max(lost.values()) <= bounded.most_forgotten < 100  # 36; the most frequent word occurs 41,877 times
    frequent = sorted(exact.counts, key=exact.counts.get)[-200:]  # 116 times and more
    assert all(lost[word] == 0 for word in frequent)
    assert "the text has more than 4,000 distinct words" in caplog.text


def test_memory_never_has_more_than_max_words(monkeypatch):
    """With an endless text of new words, memory has at most `max_words` words and those of one block."""
    held = []
    forget = word_counts._forget_rarest
    monkeypatch.setattr(word_counts, "_BLOCK_CHARACTERS", 2000)
    monkeypatch.setattr(
        word_counts, "_forget_rarest", lambda counts, keep: (held.append(len(counts)), forget(counts, keep))[1]
    )
    counted = count_words((f"word{number}" for number in range(50_000)), max_words=1000)
    assert len(held) > 50
    assert max(held) < 1000 + 2000 / len("word1 ")
    assert counted.counts["word0"] == 1  # the first of equally rare words are kept


def test_workers_import_neither_tensorflow_nor_numpy():
    code = (
        "import sys; from bert_keras.pipelines.corpus import word_counts, text_sources; "
        "from bert_keras.pipelines.text import vocabulary; "
        "sys.exit(sorted({'tensorflow', 'keras', 'numpy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


SCRIPT = """
from bert_keras import learn_vocabulary
print(len(learn_vocabulary(sentences=["low lower lowest " * 50] * 3000, size=20, num_workers=WORKERS).tokens))
"""


def run_script(tmp_path, num_workers):
    (tmp_path / "script.py").write_text(SCRIPT.replace("WORKERS", str(num_workers)))
    return subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True)


def test_a_script_without_a_main_guard_works_with_one_worker_and_is_an_error_with_two(tmp_path):
    assert run_script(tmp_path, 1).stdout == "20\n"
    refused = run_script(tmp_path, 2)
    assert refused.returncode == 1
    assert 'put its work under  if __name__ == "__main__":  or ask for num_workers=1' in refused.stderr.split("\n")[-2]


def test_an_error_in_the_text_is_the_same_with_workers(sentences):
    def broken():
        yield from sentences
        raise InputError("line 3 is broken")

    with pytest.raises(InputError, match=r"^line 3 is broken$"):
        count_words(broken(), num_workers=2)
