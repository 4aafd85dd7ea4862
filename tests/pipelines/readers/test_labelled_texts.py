"""Labelled texts: round trip, published data sets, and errors that name the line."""

import gzip
import json
import random
import types

import pytest

from bert_keras.errors import InputError
from bert_keras.heads.classify.examples import read_texts
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.labelled_texts import read_text_examples, write_labelled_csv
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.tables import open_table
from tests.shared_data import shared

EXAMPLES = [
    ("plain", "a"),
    ('with, comma and "quotes"', "b"),
    ('" one quote mark', "a"),
    ("caf\u00e9 \u4e2d\u6587", "c"),
    (" spaces are text ", "b"),
]

# name: options, columns, number of examples (as in shared/data/README.md), number of classes
PUBLISHED = {
    "sst2/train.tsv.gz": ({}, ("sentence", None, "label"), 67349, 2),
    "sst2/dev.tsv": ({}, ("sentence", None, "label"), 872, 2),
    "banking77/train.csv": ({}, ("text", None, "category"), 10003, 77),
    "banking77/test.csv": ({}, ("text", None, "category"), 3080, 77),
    "conjnli/adversarial_train_15k.tsv.gz": ({}, ("Premise", "Hypothesis", "Label"), 15000, 3),
    "conjnli/conj_dev.tsv.gz": ({}, ("Premise", "Hypothesis", "Label"), 623, 3),
    "stsb/stsb-en-train.csv": ({"problem": "regression"}, ("sentence1", "sentence2", "score"), 5749, None),
    "stsb/stsb-en-dev.csv": ({"problem": "regression"}, ("sentence1", "sentence2", "score"), 1500, None),
    "stsb/stsb-en-test.csv": ({"problem": "regression"}, ("sentence1", "sentence2", "score"), 1379, None),
}


def read_labelled_texts(path, problem="single_label", **options):
    """Return the columns of a file of labelled texts, and its examples as lists of their parts."""
    bad = BadExamples()
    examples, columns = read_texts(path, FileOptions(**options), problem, bad)
    bad.check()
    texts, second_texts, labels, lines, _ = map(list, zip(*examples, strict=True))
    return types.SimpleNamespace(columns=columns, texts=texts, second_texts=second_texts, labels=labels, lines=lines)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_data_sets_are_read_completely(name):
    options, columns, num_examples, num_classes = PUBLISHED[name]
    if options:
        options = {**options, "columns": columns}  # these files have no header line
    data = read_labelled_texts(shared(name), **options)
    assert data.columns == Columns(*columns)
    assert len(data.texts) == len(data.labels) == len(data.lines) == num_examples
    assert (None in data.second_texts) == (columns[1] is None)
    if num_classes is None:
        assert 0.0 == min(data.labels) < max(data.labels) == 5.0
    else:
        assert len(set(data.labels)) == num_classes


@pytest.mark.parametrize("name", ["texts.csv", "texts.tsv", "TEXTS.TSV"])
def test_written_examples_are_read_back(tmp_path, name):
    write_labelled_csv(tmp_path / name, iter(EXAMPLES))
    data = read_labelled_texts(tmp_path / name)
    assert list(zip(data.texts, data.labels, strict=True)) == EXAMPLES
    assert data.columns == Columns("text", None, "label")
    assert set(data.second_texts) == {None}
    assert data.lines == [2, 3, 4, 5, 6]


def test_any_text_survives_a_csv_round_trip(tmp_path):
    rng = random.Random(5)
    separators = [*'a",\t \n\r', "\r\n", "\u2028", "\x85", "\x0c", "\ufeff", "\U0001f600"]
    examples = [("x" + "".join(rng.choices(separators, k=rng.randrange(9))), rng.choice("ab")) for _ in range(2000)]
    write_labelled_csv(tmp_path / "texts.csv", examples)
    data = read_labelled_texts(tmp_path / "texts.csv")
    assert list(zip(data.texts, data.labels, strict=True)) == examples
    line_counts = [1 + text.count("\n") for text, _ in examples]
    assert data.lines == [2 + sum(line_counts[:index]) for index in range(len(examples))]


@pytest.mark.parametrize("text", ["two\nlines\tand a tab", "an old\rMacintosh", "CR\r\nLF"])
def test_line_ends_in_a_text_survive_in_csv_and_are_rejected_in_tsv(tmp_path, text):
    write_labelled_csv(tmp_path / "texts.csv", [(text, "a"), ("b", "c")])
    assert read_labelled_texts(tmp_path / "texts.csv").texts == [text, "b"]
    with pytest.raises(InputError, match=r"example 0 has a tab or a line end.*write a \.csv file"):
        write_labelled_csv(tmp_path / "texts.tsv", [(text, "a")])
    assert [path.name for path in tmp_path.iterdir()] == ["texts.csv"]


def test_other_file_extensions_are_rejected_before_writing(tmp_path):
    with pytest.raises(InputError, match=r"ends in '\.txt'; expected \.csv or \.tsv"):
        write_labelled_csv(tmp_path / "texts.txt", EXAMPLES)
    assert list(tmp_path.iterdir()) == []


def test_columns_are_found_by_name(write):
    path = write("t.csv", "\ufeffid,kind,query\r\n1, x ,one\r\n\r\n2,y,two\r\n".encode())
    data = read_labelled_texts(path, text_column="query", label_column="kind")
    assert (data.texts, data.labels, data.lines) == (["one", "two"], ["x", "y"], [2, 4])


def test_pair_columns_are_used_together_or_not_at_all(write):
    path = write("t.tsv", b"premise\thypothesis\tlabel\na\tb\tyes\n")
    assert read_labelled_texts(path).second_texts == ["b"]
    assert read_labelled_texts(path, text_column="premise").second_texts == [None]
    named = read_labelled_texts(path, text_column="hypothesis", second_text_column="premise")
    assert (named.texts, named.second_texts) == (["b"], ["a"])


def test_json_labels_keep_their_spelling(write):
    path = write("t.jsonl", '{"text": "\u4e2d", "label": 1, "idx": null}\n{"text": "b", "label": true}\n'.encode())
    data = read_labelled_texts(path)
    assert (data.texts, data.labels) == (["\u4e2d", "b"], ["1", "true"])


def test_label_sets_are_lists_or_separated_strings(write):
    table = write("t.csv", b'text,labels\na,x|y\nb,\nc,"z, z"\nd, y | x | y \n')
    assert read_labelled_texts(table, problem="multi_label").labels == [["x", "y"], [], ["z, z"], ["y", "x"]]
    lines = b"".join(
        json.dumps({"text": "a", "labels": value}).encode() + b"\n"
        for value in (["x", "y|z"], [], "x|y", 3, ["y", "y"])
    )
    labels = read_labelled_texts(write("t.jsonl", lines), problem="multi_label").labels
    assert labels == [["x", "y|z"], [], ["x", "y"], ["3"], ["y"]]


def test_separator_of_labels_can_be_set(write):
    path = write("t.tsv", b"text\tlabels\na\tx, y\nb\tx|y\n")
    assert read_labelled_texts(path, problem="multi_label", separator=",").labels == [["x", "y"], ["x|y"]]


def test_numbers_are_read(write):
    path = write("t.csv", b"text,score\na, 3.5\nb,-1e-2\nc,4\n")
    assert read_labelled_texts(path, problem="regression").labels == [3.5, -0.01, 4.0]


ERRORS = {
    "no text column": ({}, "t.csv", b"a,label\nx,y\n", r"t\.csv, line 1: no column has a usual name for texts"),
    "no label column": ({}, "t.csv", b"text,b\nx,y\n", r"t\.csv, line 1: no column has a usual name for labels"),
    "no such column": ({"label_column": "c"}, "t.csv", b"text,b\nx,y\n", r"t\.csv, line 1: there is no column 'c'"),
    "ragged": ({}, "t.csv", b'text,label\n"x\n",y\nz\n', r"t\.csv, line 4: the row has 1 field"),
    "encoding": ({}, "t.tsv", b"text\tlabel\ncaf\xe9\ty\n", r"t\.tsv, line 2: byte 0xe9"),
    "no examples": ({}, "t.csv", b"text,label\n", r"t\.csv has no examples"),
    "no examples, gzip": ({}, "t.csv.gz", gzip.compress(b"text,label\n"), r"t\.csv\.gz has no examples"),
    "empty text": ({}, "t.csv", b"text,label\na,b\n,b\n", r"t\.csv, line 3: the column 'text' is empty; expected a"),
    "blank text": ({}, "t.tsv", b"text\tlabel\n \ta\n", r"t\.tsv, line 2: the column 'text' is empty"),
    "empty second text": (
        {}, "t.csv", b"sentence1,sentence2,label\na,,b\n", r"t\.csv, line 2: the column 'sentence2' is empty"),
    "list as text": (
        {}, "t.jsonl", b'{"text": ["a"], "label": "b"}\n', r"t\.jsonl, line 1: the column 'text' is a list"),
    "empty label": ({}, "t.csv", b"text,label\na, \n", r"line 2: the column 'label' is empty; expected a label"),
    "list as label": (
        {}, "t.jsonl", b'{"text": "a", "label": ["b"]}\n',
        r"t\.jsonl, line 1: the column 'label' is a list; expected one label.*multi_label"),
    "text as score": (
        {"problem": "regression"}, "t.csv", b"text,label\na,1\nb,high\n",
        r"t\.csv, line 3: the column 'label' has the value 'high'; expected a finite number"),
    "NaN": ({"problem": "regression"}, "t.csv", b"text,label\na,nan\n", r"line 2: .* has the value 'nan'"),
    "infinity": ({"problem": "regression"}, "t.csv", b"text,label\na,-inf\n", r"line 2: .* has the value '-inf'"),
    "grouped digits": ({"problem": "regression"}, "t.csv", b"text,label\na,1_000\n", r".* has the value '1_000'"),
    "no score": ({"problem": "regression"}, "t.csv", b"text,label\na,\n", r"line 2: .* has the value ''"),
    "list as score": ({"problem": "regression"}, "t.jsonl", b'{"text": "a", "label": [1]}\n', r"the value \['1'\]"),
    "empty label in a set": (
        {"problem": "multi_label"}, "t.csv", b"text,label\na,x||y\n",
        r"t\.csv, line 2: the column 'label' has an empty label"),
    "empty label in a list": ({"problem": "multi_label"}, "t.jsonl", b'{"text": "a", "label": [""]}\n', "empty label"),
    "unexpected header": (
        {"problem": "regression", "columns": ("text", "score")}, "t.csv", b"text,score\na,1\n",
        r"t\.csv, line 1: the column 'score' has the value 'score'"),
    "unknown problem": ({"problem": "ranking"}, "t.csv", b"", r"problem is 'ranking'; expected single_label, m"),
    "empty separator": ({"problem": "multi_label", "separator": ""}, "t.csv", b"", r"the separator of labels is empty"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_name_the_line(write, kind):
    options, name, content, message = ERRORS[kind]
    with pytest.raises(InputError, match=message):
        read_labelled_texts(write(name, content), **options)


def test_empty_text_in_a_stream_is_reported_and_reading_continues(write):
    columns = Columns("text", None, None)
    with open_table(write("t.csv", b"id,text\n1,a\n2,\n3,c\n4\n5,e\n")) as table:
        examples = list(read_text_examples(table, columns))
    assert [example.fields for example in examples] == [["a"], [], ["c"], [], ["e"]]
    assert [example.line for example in examples if example.error] == [3, 5]
    assert "line 3: the column 'text' is empty" in str(examples[1].error)
