"""Running text is split into sentences: nothing is lost, and most annotated sentence ends are found."""

import gzip

import pytest

from bert_keras.pipelines.records.block_records import split_running_text
from tests.shared_data import shared


def test_abbreviations_and_initials_do_not_end_a_sentence():
    assert split_running_text("Mr. J. Smith, Ph.D., came, e.g. at 3.5 p.m. on Monday. He slept!  Did he? Yes.") == [
        "Mr. J. Smith, Ph.D., came, e.g. at 3.5 p.m. on Monday.",
        "He slept!",
        "Did he?",
        "Yes.",
    ]


@pytest.mark.parametrize("paragraph", ["", " ", ".", "no end", "\u00bfQu\u00e9? S\u00ed. \U0001f600 Ja.", "a\tb. C"])
def test_only_white_space_is_lost(paragraph):
    sentences = split_running_text(paragraph)
    assert "".join("".join(sentences).split()) == "".join(paragraph.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


def borders(sentences):
    """The ends of sentences, in characters without white space, except the last one."""
    ends, length = [], 0
    for sentence in sentences:
        length += len("".join(sentence.split()))
        ends.append(length)
    return set(ends[:-1])


def gold_paragraphs():
    paragraphs = []
    with gzip.open(shared("ud_english_ewt/en_ewt-ud-dev.conllu.gz"), "rt", encoding="utf-8") as file:
        for line in file:
            if line.startswith(("# newdoc", "# newpar")):
                paragraphs.append([])
            elif line.startswith("# text = "):
                paragraphs[-1].append(line.removeprefix("# text = ").strip())
    return paragraphs


def test_sentence_ends_of_the_english_web_treebank_are_found():
    num_right = num_found = num_gold = 0
    for sentences in gold_paragraphs():
        gold, found = borders(sentences), borders(split_running_text(" ".join(sentences)))
        num_right, num_found, num_gold = num_right + len(gold & found), num_found + len(found), num_gold + len(gold)
    assert num_right / num_found > 0.97  # 0.977
    assert num_right / num_gold > 0.78  # 0.788; many sentences of this web text end without a punctuation mark
