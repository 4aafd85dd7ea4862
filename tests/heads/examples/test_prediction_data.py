"""Files and standard input are read as a stream of examples; invalid examples are reported and reading continues."""

import gzip
import io
import json
import os
import sys

import pytest

from bert_keras.errors import InputError
from bert_keras.heads.answer.task import QuestionAnswering
from bert_keras.heads.classify.task import TextClassification, TextExample
from bert_keras.heads.embed.task import SentenceEmbedding
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.prediction_data import find_prediction_columns, read_prediction_data
from bert_keras.heads.examples.scoring_data import find_labelled_columns
from bert_keras.heads.tag.task import TokenClassification
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.words.tagged_words import read_tagged_words
from tests.heads.squad_json import squad

NO_OPTIONS = FileOptions()
CLASSIFY = TextClassification(labels=("bad", "good"))
TAG = TokenClassification(labels=("O", "B-LOC", "I-LOC", "B-PER"), scheme="IOB2")
ANSWER = QuestionAnswering()
EMBED = SentenceEmbedding()


def read_examples(task, source, options=NO_OPTIONS) -> tuple[list, dict]:
    """Return [(line, example)] of the valid examples, and the messages of the invalid ones keyed by line."""
    results = list(read_prediction_data(task, source, options))
    assert all((example is None) == (error is not None) for _, example, error in results)
    return [(line, one) for line, one, error in results if not error], {
        line: str(error) for line, _, error in results if error
    }


def test_lines_are_texts_and_invalid_lines_are_reported(write):
    path = write("texts.txt", b"one text\r\n\n caf\xc3\xa9 \ncaf\xe9\nlast")
    good, bad = read_examples(CLASSIFY, path)
    assert good == [
        (1, TextExample("one text", None, None, 1)),
        (3, TextExample(" café ", None, None, 3)),
        (5, TextExample("last", None, None, 5)),
    ]
    assert list(bad) == [2, 4]
    assert "texts.txt, line 2: the line is empty; expected a text: remove the line" in bad[2]
    assert "texts.txt, line 4: byte 0xe9 at column 4 is not UTF-8" in bad[4]


@pytest.mark.parametrize("ending", ["txt", "TXT", "txt.gz"])
def test_text_files_are_recognized_by_their_extension(ending, write):
    content = gzip.compress(b"one\n") if ending.endswith("gz") else b"one\n"
    assert read_examples(EMBED, write(f"a.{ending}", content))[0] == [(1, TextExample("one", None, None, 1))]


def test_standard_input_is_read_as_lines_of_text(monkeypatch):
    read_end, write_end = os.pipe()
    os.write(write_end, "Zürich now\n\nso 😀\n".encode())
    os.close(write_end)
    with open(read_end, encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        good, bad = read_examples(TAG, "-")
    assert [(line, one.words) for line, one in good] == [(1, ("Zürich", "now")), (3, ("so", "😀"))]
    assert bad == {2: "standard input, line 2: the line is empty; expected a text: remove the line"}


def test_standard_input_can_be_a_table(monkeypatch):
    content = b"question,context,id\nWhere?,in Berlin,seven\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    [(line, one)], bad = read_examples(ANSWER, "-", FileOptions(format="csv"))
    assert (line, one.question, one.context, one.id, bad) == (2, "Where?", "in Berlin", "seven", {})


def test_formats_that_are_read_whole_are_rejected_on_standard_input():
    with pytest.raises(InputError, match="standard input is read line by line; expected jsonl, csv or tsv: write"):
        read_examples(ANSWER, "-", FileOptions(format="json"))


@pytest.mark.parametrize("form", ["conll", "conllu"])
def test_tagged_sentences_are_streamed_and_invalid_ones_are_reported(form, monkeypatch):
    lines = [b"1\ta", b"2\tb", b"", "1\tcaf\u00e9".encode(), b"2\t", b"", b"", b"1\tc", b"", b"1\t\xff", b"", b"1\td"]
    if form == "conll":
        lines = [line.partition(b"\t")[2] + b"\tX" if line else line for line in lines]
    else:
        lines = [line + b"\t_" * 8 if line else line for line in lines]
    content = b"\n".join(lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    good, bad = read_examples(TAG, "-", FileOptions(format=form))
    assert [(line, one.words) for line, one in good] == [(1, ("a", "b")), (8, ("c",)), (12, ("d",))]
    assert list(bad) == [4, 10]
    assert "standard input, line 5: the word is empty" in bad[4]
    assert "standard input, line 10: byte 0xff" in bad[10]


def test_invalid_texts_and_pairs_are_reported(write):
    good, bad = read_examples(CLASSIFY, write("texts.csv", "label,text\ngood,one\nbad\nodd,\nx,two\n"))
    assert good == [(2, TextExample("one", None, None, 2)), (5, TextExample("two", None, None, 5))]
    assert "line 3: the row has 1 field but there are 2 columns" in bad[3]
    assert "line 4: the column 'text' is empty" in bad[4]
    records = [{"premise": "a", "hypothesis": "b"}, {"premise": "c"}, {"premise": "d", "hypothesis": "e"}]
    good, bad = read_examples(EMBED, write("pairs.jsonl", records))
    assert good == [(1, TextExample("a", "b", None, 1)), (3, TextExample("d", "e", None, 3))]
    assert "line 2: there is no field 'hypothesis'" in bad[2]


def test_invalid_lines_before_the_first_valid_line_are_reported(write):
    path = write("texts.jsonl", b'{broken\n["a"]\n\n{"text": "one"}\n{"text": ""}\n')
    good, bad = read_examples(CLASSIFY, path)
    assert good == [(4, TextExample("one", None, None, 4))]
    assert list(bad) == [1, 2, 5]
    with pytest.raises(InputError, match=r"texts\.jsonl, line 1: "):
        read_examples(CLASSIFY, write("texts.jsonl", b"{broken\n[]\n"))


def test_columns_are_found_without_reading_the_examples(write, tmp_path):
    table = write("pairs.csv", "n,premise,hypothesis,label\n1,a,b,x\n")
    assert find_prediction_columns(CLASSIFY, table, NO_OPTIONS) == Columns("premise", "hypothesis", None)
    assert find_labelled_columns(CLASSIFY, table, NO_OPTIONS) == Columns("premise", "hypothesis", "label")
    named = FileOptions(text_column="n", label_column="premise")
    assert find_labelled_columns(CLASSIFY, table, named) == Columns("n", None, "premise")
    words = write("words.jsonl", b'{"tokens": ["a"], "text": "b"}\n')
    assert find_prediction_columns(TAG, words, NO_OPTIONS) == Columns("tokens", None, None)
    os.mkfifo(tmp_path / "pipe.csv")  # opening it would wait for a writer and consume its data
    for path in (write("a.txt", b"a\n"), write("a.conll", b"a O\n"), "-", tmp_path / "pipe.csv"):
        assert find_prediction_columns(TAG, path, NO_OPTIONS) is None
    assert find_labelled_columns(TAG, table, NO_OPTIONS) is None
    assert find_labelled_columns(CLASSIFY, tmp_path / "pipe.csv", NO_OPTIONS) is None


def test_columns_without_a_header_can_be_named(write):
    options = FileOptions(format="tsv", columns=["n", "words"], text_column="words")
    assert read_examples(CLASSIFY, write("table.data", "1\tone\n"), options)[0] == [
        (1, TextExample("one", None, None, 1))
    ]


@pytest.mark.parametrize("with_id", [False, True])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_questions_in_tables_keep_their_ids(ending, with_id, write):
    records = [
        {"id": "x7", "context": "in Berlin", "question": "Where?"},
        {"id": "x8", "context": "so", "question": ""},
    ]
    records = [record if with_id else {name: record[name] for name in ("context", "question")} for record in records]
    table = "\n".join(",".join(row) for row in (records[0], *(record.values() for record in records))) + "\n"
    good, bad = read_examples(ANSWER, write(f"questions.{ending}", table if ending == "csv" else records))
    first = 2 if ending == "csv" else 1
    [(line, one)] = good
    assert (line, one.question, one.context, one.answers) == (first, "Where?", "in Berlin", ())
    assert (one.id, one.place) == ("x7" if with_id else str(first), f"line {first}")
    assert "the column 'question' is empty" in bad[first + 1]


def test_squad_questions_need_no_answers(write):
    content = json.loads(squad(("a", "Berlin", 3), ("b", "", None)))
    del content["data"][0]["paragraphs"][0]["qas"][0]["answers"]
    good, bad = read_examples(ANSWER, write("questions.json", json.dumps(content)))
    assert [(line, one.id, one.answers) for line, one in good] == [(None, "a", ()), (None, "b", ())]
    assert bad == {}


@pytest.mark.parametrize(
    "content", ["New\nYork\n\nnow\n", "New B-LOC\nYork I-LOC\n\nnow O\n"], ids=["untagged", "tagged"]
)
def test_words_need_no_tags(content, write):
    good, _ = read_examples(TAG, write("words.conll", content))
    assert [(line, one.words) for line, one in good] == [(1, ("New", "York")), (4, ("now",))]


def test_texts_in_a_table_are_split_into_words(write):
    [(line, one)], _ = read_examples(TAG, write("texts.jsonl", [{"text": " It's\there.", "id": "3"}]))
    assert (line, one.line, one.text, one.tags) == (1, 1, " It's\there.", None)
    assert one.words == ("It", "'", "s", "here", ".")
    assert [one.text[start:end] for start, end in zip(one.starts, one.ends, strict=True)] == list(one.words)


@pytest.mark.parametrize("field", ["words", "tokens", "parts of text"])
def test_words_in_json_lines_are_not_split(field, write):
    records = [
        {field: words, "id": 7} for words in (["New York", "is."], [], ["a", " "], "It's here", ["so"], [["so"]])
    ]
    options = FileOptions(word_column=field if " " in field else None)
    good, bad = read_examples(TAG, write("words.jsonl", records), options)
    assert [(line, one.words, one.tags) for line, one in good] == [
        (1, ("New York", "is."), None),
        (4, ("It", "'", "s", "here"), None),
        (5, ("so",), None),
    ]
    assert good[0][1].text == "New York is."
    assert sorted(bad) == [2, 3, 6]
    assert f"words.jsonl, line 2: '{field}' is empty; expected at least one word" in bad[2]
    assert f"words.jsonl, line 3: {field}[1] is empty" in bad[3]


@pytest.mark.parametrize(
    ("more", "options", "words"),
    [
        ({}, {}, ("Now,", "here")),
        ({"ner_tags": ["O", "O"]}, {}, ("Now,", "here")),
        ({"entities": []}, {}, ("Now", ",", "here")),
        ({"entities": []}, {"word_column": "tokens"}, ("Now,", "here")),
        ({}, {"text_column": "text"}, ("Now", ",", "here")),
    ],
)
def test_words_are_the_same_for_prediction_and_training(more, options, words, write):
    path = write("words.jsonl", [{"text": "Now, here", "tokens": ["Now,", "here"], **more}])
    assert [one.words for _, one in read_examples(TAG, path, FileOptions(**options))[0]] == [words]
    if "text_column" not in options:  # training has no such option
        assert [one.words for one in read_tagged_words(path, needs_tags=False, **options)] == [words]


@pytest.mark.parametrize(("ending", "form"), [("data", "json"), ("jsonl", "json"), ("json", "jsonl")])
def test_format_of_questions_can_be_set(ending, form, write):
    flat = [{"id": "a", "context": "in Berlin", "question": "Where?"}]
    content = squad(("a", "Berlin", 3)) if form == "json" else flat
    good, bad = read_examples(ANSWER, write(f"questions.{ending}", content), FileOptions(format=form))
    assert ([one.id for _, one in good], bad) == (["a"], {})


READING_ERRORS = {
    "JSON object for texts": (CLASSIFY, "a.json", "{}", r"a\.json is a JSON object; expected a list of objects"),
    "words for texts": (EMBED, "a.conll", "a O\n", r"a\.conll has a format for tagged words"),
    "lines for questions": (ANSWER, "a.txt", "Where?\n", r"a\.txt: lines of text have no contexts; expected \.json"),
    "table without contexts": (
        ANSWER,
        "a.csv",
        "question,text\na,b\n",
        r"a\.csv, line 1: there is no column 'context'",
    ),
    "pairs for words": (
        TAG,
        "a.csv",
        "text1,text2\na,b\n",
        r"a\.csv, line 1: the columns 'text1' and 'text2' have pairs .*--text-column",
    ),
    "no texts": (CLASSIFY, "a.csv", "x,y\na,b\n", r"a\.csv, line 1: no column has a usual name for texts"),
    "unknown extension": (CLASSIFY, "a.doc", "a", r"a\.doc ends in '\.doc'; expected \.csv, \.tsv, \.jsonl or \.json"),
}


@pytest.mark.parametrize("case", READING_ERRORS)
def test_invalid_files_for_prediction_are_rejected(case, write):
    task, name, content, message = READING_ERRORS[case]
    with pytest.raises(InputError, match=message):
        read_examples(task, write(name, content))


def test_missing_file_is_an_error(tmp_path):
    for name in ("a.txt", "a.csv"):
        with pytest.raises(InputError, match=rf"{name} does not exist"):
            read_examples(CLASSIFY, tmp_path / name)


def test_invalid_squad_question_does_not_stop_the_others(write):
    path = write("q.json", squad(("a", "Berlin", 3), ("b", "Berlin", 4), ("c", "in", 0)))
    results = list(read_prediction_data(ANSWER, path, NO_OPTIONS))
    assert [one.example and one.example.id for one in results] == ["a", None, "c"]
    assert "question 'b': answers[0] is 'Berlin' at character 4" in str(results[1].error)
