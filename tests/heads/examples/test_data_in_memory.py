"""Dicts, pairs, data frames and JSON arrays give the same examples as files."""

import json

import numpy as np
import pandas
import polars
import pytest

from bert_keras.errors import InputError
from bert_keras.heads.classify.task import TextClassification, TextExample
from bert_keras.heads.embed.task import SentenceEmbedding
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.prediction_data import read_prediction_data
from bert_keras.heads.examples.scoring_data import read_scoring_data
from bert_keras.heads.tag.task import TokenClassification
from bert_keras.pipelines.readers.tables.raw_examples import as_source
from tests.heads.read_examples import read_task

NO_OPTIONS = FileOptions()
RECORDS = [{"id": 1, "text": "a fine film", "label": "good"}, {"id": 2, "text": "a waste", "label": "bad"}]
EXAMPLES = [TextExample("a fine film", None, "good", 0), TextExample("a waste", None, "bad", 1)]


FORMS = {
    "dicts": RECORDS,
    "tuple of dicts": tuple(RECORDS),
    "iterator": iter(RECORDS),
    "pairs": [("a fine film", "good"), ["a waste", "bad"]],
    "pandas": pandas.DataFrame(RECORDS, index=[7, 3]),
    "pandas, text and categories": pandas.DataFrame(RECORDS).astype({"text": "string", "label": "category"}),
    "polars": polars.DataFrame(RECORDS),
    "NumPy values": [{key: np.array([value])[0] for key, value in record.items()} for record in RECORDS],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_examples(form):
    task, train_examples, dev_examples = read_task("classify", FORMS[form], RECORDS, NO_OPTIONS)
    assert task.labels == ("bad", "good")
    assert train_examples == dev_examples == EXAMPLES


def test_array_in_a_file_gives_the_same_examples(write):
    path = write("train.json", json.dumps(RECORDS, indent=1))
    _, train_examples, dev_examples = read_task("classify", path, path, NO_OPTIONS)
    assert train_examples == dev_examples == EXAMPLES
    unusual = write("train.data", json.dumps(RECORDS))
    assert (
        read_scoring_data(TextClassification(labels=("bad", "good")), unusual, FileOptions(format="json")) == EXAMPLES
    )


def test_labels_of_every_type_become_the_strings_of_a_file(write):
    values = [0, 1.0, True, "x", np.int64(3), np.float32(0.5)]
    records = [{"text": str(index), "label": value} for index, value in enumerate(values)]
    task, *_ = read_task("classify", records, records, NO_OPTIONS)
    assert task.labels == ("0", "0.5", "1.0", "3", "True", "x")
    lines = write("t.jsonl", "\n".join(json.dumps({**one, "label": to_python(one["label"])}) for one in records))
    assert read_task("classify", lines, lines, NO_OPTIONS)[0].labels == ("0", "0.5", "1.0", "3", "true", "x")
    array = write("t.json", json.dumps([{**one, "label": to_python(one["label"])} for one in records]))
    assert read_task("classify", array, array, NO_OPTIONS)[0].labels == ("0", "0.5", "1.0", "3", "true", "x")
    records = [{"text": "a", "labels": ["x", "y"]}, {"text": "b", "labels": np.array(["y"])}]
    _, train_examples, _ = read_task("classify", records, records, NO_OPTIONS, problem="multi_label")
    assert [one.label for one in train_examples] == [["x", "y"], ["y"]]


def to_python(value):
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame])
def test_missing_value_in_a_data_frame_is_a_bad_example(frame):
    records = frame([*RECORDS, {"id": None, "text": "so", "label": None}])
    with pytest.raises(InputError, match=r"train\[2\]"):
        read_task("classify", records, RECORDS, NO_OPTIONS)
    numbers = frame({"text": ["a", "b", "c"], "label": [1, 2, None]})
    with pytest.raises(InputError, match=r"train\[2\]"):
        read_task("classify", numbers, RECORDS, NO_OPTIONS, problem="regression")


def test_columns_of_data_in_memory_can_be_named():
    records = [{"body": "a", "kind": "x", "text": "-"}, {"body": "b", "kind": "y", "text": "-"}]
    options = FileOptions(text_column="body", label_column="kind")
    _, train_examples, _ = read_task("classify", records, records, options)
    assert [(one.text, one.label) for one in train_examples] == [("a", "x"), ("b", "y")]


def test_scored_pairs_tagged_words_and_questions_are_read(write):
    scored = [("one", "two", 3.5), ("three", "four", 1)]
    task, train_examples, _ = read_task("embed", scored, scored, NO_OPTIONS)
    assert (task, train_examples[0]) == (SentenceEmbedding(highest_score=3.5), TextExample("one", "two", 3.5, 0))
    words = [(["in", "Berlin"], ["O", "B-LOC"]), {"tokens": ["Bonn"], "ner_tags": ["B-LOC"]}]
    task, train_examples, _ = read_task("tag", words, words, NO_OPTIONS)
    assert [(one.words, one.tags, one.line) for one in train_examples] == [
        (("in", "Berlin"), ("O", "B-LOC"), 0),
        (("Bonn",), ("B-LOC",), 1),
    ]
    spans = [{"text": "in Berlin", "entities": [[3, 9, "LOC"]]}, {"text": "so", "entities": []}]
    path = write("spans.json", json.dumps(spans))
    assert read_task("tag", path, path, NO_OPTIONS)[1] == read_task("tag", spans, spans, NO_OPTIONS)[1]
    answers = {"text": ["Berlin"], "answer_start": [3]}
    records = [{"id": "q", "question": "Where?", "context": "in Berlin", "answers": answers}]
    [question] = read_task("answer", records, records, NO_OPTIONS)[1]
    assert (question.place, question.answers) == ("[0]", (("Berlin", 3),))
    array = write("flat.json", json.dumps(records))
    assert read_task("answer", array, array, NO_OPTIONS)[1] == [question]


def test_data_frame_gives_the_labels_of_its_csv_file(tmp_path):
    labels = {
        "booleans": [True, False, True],
        "integers": [0, 1, 0],
        "integers with a missing value": [0, 1, None],
        "booleans with a missing value": [True, False, None],
        "numbers": [0.5, 1.0, None],
    }
    for name, values in labels.items():
        frame = pandas.DataFrame({"text": ["a", "b", "c"], "label": values})
        path = tmp_path / f"{name}.csv"
        is_upcast = name == "integers with a missing value"
        (frame.astype({"label": "Int64"}) if is_upcast else frame).to_csv(path, index=False)
        labels_found = [
            [example.label for example in read_task("classify", data, data, NO_OPTIONS, on_error="skip")[1]]
            for data in (frame, path)
        ]
        assert labels_found[0] == labels_found[1], name


def test_contrastive_pairs_need_no_scores():
    scored = [("one", "two", 3.5), ("three", "four", 1)]
    for pairs in ([("a", "b"), ("c", "d")], pandas.DataFrame([("a", "b"), ("c", "d")], columns=["text1", "text2"])):
        _, train_examples, _ = read_task("embed", pairs, scored, NO_OPTIONS, objective="contrastive")
        assert train_examples == [TextExample("a", "b", None, 0), TextExample("c", "d", None, 1)]


def test_examples_of_an_array_have_indices(write):
    path = write("texts.json", '[{"text": "a"}, {"text": ""}, {"text": "b"}]')
    found = list(read_prediction_data(TextClassification(labels=("x", "y")), path, NO_OPTIONS))
    assert [one.line for one in found] == [0, 1, 2]
    assert [one.example and one.example.text for one in found] == ["a", None, "b"]
    assert "texts.json[1]: the column 'text' is empty" in str(found[1].error)
    words = write("words.json", '[{"words": ["a", "b"]}]')
    [one] = read_prediction_data(TokenClassification(labels=("O", "X")), words, NO_OPTIONS)
    assert one.example.words == ("a", "b")


ERRORS = {
    "dict": ({"text": ["a"]}, r"train has type dict; expected a path, a list of dicts such as"),
    "number": (3, r"train has type int; expected a path, a list of dicts"),
    "empty list": ([], r"train has no examples; expected at least one"),
    "text": (["a fine film"], r"train\[0\] is 'a fine film'; expected a dict such as .* or a pair"),
    "tuple of four": ([("a", "b", "c", "d")], r"train\[0\] is \('a', 'b', 'c', 'd'\); expected a dict"),
    "missing text": ([*RECORDS, {"label": "x"}], r"train\[2\]: there is no field 'text'; the fields are 'label'"),
    "missing label": ([*RECORDS, ("c", None)], r"train\[2\]: the field 'label' has no value"),
    "missing number": ([*RECORDS, ("c", float("nan"))], r"train\[2\]: the field 'label' has no value"),
    "empty label": ([*RECORDS, ("c", " ")], r"train\[2\]: the column 'label' is empty; expected a label"),
    "one class": ([("a", "x"), ("b", "x")], r"train: every text has the label 'x'; expected two"),
    "no usual column name": ([{"prose": "a", "label": "x"}], r"train\[0\]: no column has a usual name for texts"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_argument_and_the_index(case):
    data, message = ERRORS[case]
    with pytest.raises(InputError, match=message):
        read_task("classify", data, RECORDS, NO_OPTIONS)


FILE_ERRORS = {
    "SQuAD": ('{"data": []}', r"t\.json is a JSON object; expected a list of objects .* need --task answer"),
    "lines": ('{"text": "a", "label": "x"}\n{"text": "b"}\n', r"t\.json: not JSON .* set --format jsonl if it has one"),
    "no objects": ("[1, 2]", r"t\.json has no objects; expected a list of objects"),
    "number among objects": (
        '[{"text": "a", "label": "x"}, 7]',
        r"t\.json\[1\] is a number; expected an object such as",
    ),
    "not a number": ('[{"text": "a", "label": NaN}]', r"t\.json: not JSON \(NaN is not a JSON number\)"),
}


@pytest.mark.parametrize("case", FILE_ERRORS)
def test_errors_name_the_file_and_the_index(case, write):
    content, message = FILE_ERRORS[case]
    path = write("t.json", content)
    with pytest.raises(InputError, match=message):
        read_task("classify", path, path, NO_OPTIONS)


def test_path_is_returned_unchanged(tmp_path):
    assert as_source(tmp_path, "train") is tmp_path
    assert as_source("a.csv", "train") == "a.csv"
