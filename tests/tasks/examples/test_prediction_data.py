"""Files and standard input become examples to answer, one by one; invalid ones are reported and the rest is read."""

import gzip
import io
import json
import os
import sys

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.words.tagged_words import read_tagged_words
from bert_keras.tasks.answer_extraction import QuestionAnswering
from bert_keras.tasks.examples.file_options import FileOptions
from bert_keras.tasks.examples.prediction_data import find_prediction_columns, read_prediction_data
from bert_keras.tasks.examples.scoring_data import find_labelled_columns
from bert_keras.tasks.sentence_embedding import SentenceEmbedding
from bert_keras.tasks.text_classification import TextClassification, TextExample
from bert_keras.tasks.token_classification import TokenClassification
from tests.tasks.squad_json import squad

NO_OPTIONS = FileOptions()
CLASSIFY = TextClassification(labels=("bad", "good"))
TAG = TokenClassification(labels=("O", "B-LOC", "I-LOC", "B-PER"), scheme="IOB2")
ANSWER = QuestionAnswering()
EMBED = SentenceEmbedding()


def answering(task, source, options=NO_OPTIONS) -> tuple[list, dict]:
    """Return [(line, example)] of the good examples, and the messages of the bad ones by line."""
    read = list(read_prediction_data(task, source, options))
    assert all((example is None) == (error is not None) for _, example, error in read)
    return [(line, one) for line, one, error in read if not error], {
        line: str(error) for line, _, error in read if error
    }


def test_lines_are_texts_and_invalid_ones_are_reported(write):
    path = write("texts.txt", b"one text\r\n\n caf\xc3\xa9 \ncaf\xe9\nlast")
    good, bad = answering(CLASSIFY, path)
    assert good == [
        (1, TextExample("one text", None, None, 1)),
        (3, TextExample(" café ", None, None, 3)),
        (5, TextExample("last", None, None, 5)),
    ]
    assert list(bad) == [2, 4]
    assert "texts.txt, line 2: the line is empty; expected a text: remove the line" in bad[2]
    assert "texts.txt, line 4: byte 0xe9 at column 4 is not UTF-8" in bad[4]


@pytest.mark.parametrize("ending", ["txt", "TXT", "txt.gz"])
def test_lines_are_known_by_the_ending(ending, write):
    content = gzip.compress(b"one\n") if ending.endswith("gz") else b"one\n"
    assert answering(EMBED, write(f"a.{ending}", content))[0] == [(1, TextExample("one", None, None, 1))]


def test_standard_input_is_lines_of_text(monkeypatch):
    end, begin = os.pipe()
    os.write(begin, "Zürich now\n\nso 😀\n".encode())
    os.close(begin)
    with open(end, encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        good, bad = answering(TAG, "-")
    assert [(line, one.words) for line, one in good] == [(1, ("Zürich", "now")), (3, ("so", "😀"))]
    assert bad == {2: "standard input, line 2: the line is empty; expected a text: remove the line"}


def test_standard_input_can_be_a_table(monkeypatch):
    content = b"question,context,id\nWhere?,in Berlin,seven\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    [(line, one)], bad = answering(ANSWER, "-", FileOptions(format="csv"))
    assert (line, one.question, one.context, one.id, bad) == (2, "Where?", "in Berlin", "seven", {})


def test_standard_input_of_a_form_that_is_read_whole_is_refused():
    with pytest.raises(InputError, match="standard input is read line by line; expected jsonl, csv or tsv: write"):
        answering(ANSWER, "-", FileOptions(format="json"))


@pytest.mark.parametrize("form", ["conll", "conllu"])
def test_sentences_in_columns_are_streamed_and_invalid_ones_are_reported(form, monkeypatch):
    rows = [b"1\ta", b"2\tb", b"", "1\tcaf\u00e9".encode(), b"2\t", b"", b"", b"1\tc", b"", b"1\t\xff", b"", b"1\td"]
    if form == "conll":
        rows = [row.partition(b"\t")[2] + b"\tX" if row else row for row in rows]
    else:
        rows = [row + b"\t_" * 8 if row else row for row in rows]
    content = b"\n".join(rows)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    good, bad = answering(TAG, "-", FileOptions(format=form))
    assert [(line, one.words) for line, one in good] == [(1, ("a", "b")), (8, ("c",)), (12, ("d",))]
    assert list(bad) == [4, 10]
    assert "standard input, line 5: the word is empty" in bad[4]
    assert "standard input, line 10: byte 0xff" in bad[10]


def test_examples_are_texts_or_pairs_and_invalid_ones_are_reported(write):
    good, bad = answering(CLASSIFY, write("texts.csv", "label,text\ngood,one\nbad\nodd,\nx,two\n"))
    assert good == [(2, TextExample("one", None, None, 2)), (5, TextExample("two", None, None, 5))]
    assert "line 3: the row has 1 field but there are 2 columns" in bad[3]
    assert "line 4: the column 'text' is empty" in bad[4]
    rows = [{"premise": "a", "hypothesis": "b"}, {"premise": "c"}, {"premise": "d", "hypothesis": "e"}]
    good, bad = answering(EMBED, write("pairs.jsonl", rows))
    assert good == [(1, TextExample("a", "b", None, 1)), (3, TextExample("d", "e", None, 3))]
    assert "line 2: there is no field 'hypothesis'" in bad[2]


def test_invalid_lines_before_the_first_valid_one_are_reported(write):
    path = write("texts.jsonl", b'{broken\n["a"]\n\n{"text": "one"}\n{"text": ""}\n')
    good, bad = answering(CLASSIFY, path)
    assert good == [(4, TextExample("one", None, None, 4))]
    assert list(bad) == [1, 2, 5]
    with pytest.raises(InputError, match=r"texts\.jsonl, line 1: "):
        answering(CLASSIFY, write("texts.jsonl", b"{broken\n[]\n"))


def test_the_columns_that_are_read_are_known_before(write, tmp_path):
    table = write("pairs.csv", "n,premise,hypothesis,label\n1,a,b,x\n")
    assert find_prediction_columns(CLASSIFY, table, NO_OPTIONS) == Columns("premise", "hypothesis", None)
    assert find_labelled_columns(CLASSIFY, table, NO_OPTIONS) == Columns("premise", "hypothesis", "label")
    named = FileOptions(text_column="n", label_column="premise")
    assert find_labelled_columns(CLASSIFY, table, named) == Columns("n", None, "premise")
    words = write("words.jsonl", b'{"tokens": ["a"], "text": "b"}\n')
    assert find_prediction_columns(TAG, words, NO_OPTIONS) == Columns("tokens", None, None)
    os.mkfifo(tmp_path / "pipe.csv")  # to open it would wait for a writer, and take from it
    for path in (write("a.txt", b"a\n"), write("a.conll", b"a O\n"), "-", tmp_path / "pipe.csv"):
        assert find_prediction_columns(TAG, path, NO_OPTIONS) is None
    assert find_labelled_columns(TAG, table, NO_OPTIONS) is None
    assert find_labelled_columns(CLASSIFY, tmp_path / "pipe.csv", NO_OPTIONS) is None


def test_columns_without_a_header_can_be_named(write):
    options = FileOptions(format="tsv", columns=["n", "words"], text_column="words")
    assert answering(CLASSIFY, write("rows.data", "1\tone\n"), options)[0] == [(1, TextExample("one", None, None, 1))]


@pytest.mark.parametrize("with_id", [False, True])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_questions_of_tables_keep_their_ids(ending, with_id, write):
    rows = [{"id": "x7", "context": "in Berlin", "question": "Where?"}, {"id": "x8", "context": "so", "question": ""}]
    rows = [row if with_id else {name: row[name] for name in ("context", "question")} for row in rows]
    table = "\n".join(",".join(row) for row in (rows[0], *(row.values() for row in rows))) + "\n"
    good, bad = answering(ANSWER, write(f"questions.{ending}", table if ending == "csv" else rows))
    first = 2 if ending == "csv" else 1
    [(line, one)] = good
    assert (line, one.question, one.context, one.answers) == (first, "Where?", "in Berlin", ())
    assert (one.id, one.place) == ("x7" if with_id else str(first), f"line {first}")
    assert "the column 'question' is empty" in bad[first + 1]


def test_questions_of_squad_need_no_answers(write):
    content = json.loads(squad(("a", "Berlin", 3), ("b", "", None)))
    del content["data"][0]["paragraphs"][0]["qas"][0]["answers"]
    good, bad = answering(ANSWER, write("questions.json", json.dumps(content)))
    assert [(line, one.id, one.answers) for line, one in good] == [(None, "a", ()), (None, "b", ())]
    assert bad == {}


@pytest.mark.parametrize("content", ["New\nYork\n\nnow\n", "New B-LOC\nYork I-LOC\n\nnow O\n"], ids=["bare", "tagged"])
def test_words_need_no_tags(content, write):
    good, _ = answering(TAG, write("words.conll", content))
    assert [(line, one.words) for line, one in good] == [(1, ("New", "York")), (4, ("now",))]


def test_texts_of_a_table_are_split_into_words(write):
    [(line, one)], _ = answering(TAG, write("texts.jsonl", [{"text": " It's\there.", "id": "3"}]))
    assert (line, one.line, one.text, one.tags) == (1, 1, " It's\there.", None)
    assert one.words == ("It", "'", "s", "here", ".")
    assert [one.text[start:end] for start, end in zip(one.starts, one.ends, strict=True)] == list(one.words)


@pytest.mark.parametrize("field", ["words", "tokens", "pieces of text"])
def test_words_of_json_lines_are_taken_as_they_are(field, write):
    rows = [{field: words, "id": 7} for words in (["New York", "is."], [], ["a", " "], "It's here", ["so"], [["so"]])]
    options = FileOptions(word_column=field if " " in field else None)
    good, bad = answering(TAG, write("words.jsonl", rows), options)
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
def test_words_to_answer_equal_words_to_train_on(more, options, words, write):
    path = write("words.jsonl", [{"text": "Now, here", "tokens": ["Now,", "here"], **more}])
    assert [one.words for _, one in answering(TAG, path, FileOptions(**options))[0]] == [words]
    if "text_column" not in options:  # which files to learn from do not have
        assert [one.words for one in read_tagged_words(path, needs_tags=False, **options)] == [words]


@pytest.mark.parametrize(("ending", "form"), [("data", "json"), ("jsonl", "json"), ("json", "jsonl")])
def test_the_format_of_questions_can_be_set(ending, form, write):
    flat = [{"id": "a", "context": "in Berlin", "question": "Where?"}]
    content = squad(("a", "Berlin", 3)) if form == "json" else flat
    good, bad = answering(ANSWER, write(f"questions.{ending}", content), FileOptions(format=form))
    assert ([one.id for _, one in good], bad) == (["a"], {})


ANSWERING_ERRORS = {
    "json for texts": (CLASSIFY, "a.json", "{}", r"a\.json is a JSON object; expected a list of objects"),
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
    "unknown ending": (CLASSIFY, "a.doc", "a", r"a\.doc ends in '\.doc'; expected \.csv, \.tsv, \.jsonl or \.json"),
}


@pytest.mark.parametrize("case", ANSWERING_ERRORS)
def test_files_that_cannot_be_answered_are_refused(case, write):
    task, name, content, message = ANSWERING_ERRORS[case]
    with pytest.raises(InputError, match=message):
        answering(task, write(name, content))


def test_a_missing_file_is_an_error(tmp_path):
    for name in ("a.txt", "a.csv"):
        with pytest.raises(InputError, match=rf"{name} does not exist"):
            answering(CLASSIFY, tmp_path / name)


def test_a_bad_question_of_squad_does_not_keep_the_others_from_being_answered(write):
    path = write("q.json", squad(("a", "Berlin", 3), ("b", "Berlin", 4), ("c", "in", 0)))
    read = list(read_prediction_data(ANSWER, path, NO_OPTIONS))
    assert [one.example and one.example.id for one in read] == ["a", None, "c"]
    assert "question 'b': answers[0] is 'Berlin' at character 4" in str(read[1].error)
