"""All bad examples are counted before an error lists the first of them, or all are skipped."""

import json
import re

import pytest

from bert_keras.errors import InputError
from bert_keras.heads.classify.task import TextClassification
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.scoring_data import read_scoring_data
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.training.training_data import read_training_data

NO_OPTIONS = FileOptions()
BAD_CSV = "text,label\na,x\nb\n,x\nc,y\nd,y,z\ne,\n" + "f,g,h\n" * 3  # bad lines: 3, 4, 6, 7, 8, 9, 10


def test_error_counts_all_bad_examples_and_lists_the_first_five(write):
    train, dev = write("train.csv", BAD_CSV), write("dev.csv", "text,label\nq,x\nr,odd\n")
    with pytest.raises(InputError) as raised:
        read_training_data("classify", train, dev, NO_OPTIONS)
    message = str(raised.value)
    assert message.startswith(f"7 of 11 examples are bad: {train}, line 3: the row has 1 field but there are 2")
    assert re.findall(r"train\.csv, line (\d+)", message) == ["3", "4", "6", "7", "8"]
    assert message.endswith("; and 2 more: correct them, or skip them with --on-error skip")
    assert "\n" not in message


def test_single_bad_example_raises_its_own_error(write):
    path = write("train.csv", "text,label\na,x\n,y\nb,y\n")
    with pytest.raises(InputError, match=r"^\S+train\.csv, line 3: the column 'text' is empty; expected a text"):
        read_training_data("classify", path, [("q", "x")], NO_OPTIONS)


SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "in Berlin",
                    "qas": [
                        {"id": name, "question": "Where?", "answers": [{"text": "Berlin", "answer_start": start}]}
                        for name, start in (("a", 3), ("b", 4), ("c", 3), ("c", 3))
                    ],
                }
            ]
        },
        {"paragraphs": [{"context": "no", "qas": [{"id": "d", "question": "", "answers": []}]}]},
    ]
}
FORMS = {
    "csv": ("classify", "t.csv", BAD_CSV, "text,label\nq,x\nr,odd\n", 8, 11, 2, 1),
    "jsonl": (
        "classify",
        "t.jsonl",
        '{"text": "a", "label": "x"}\nno\n{"text": "b", "label": "y"}\n{"label": "y"}\n',
        '{"text": "a", "label": "x"}\n',
        2,
        5,
        2,
        1,
    ),
    "json": (
        "classify",
        "t.json",
        '[{"text": "a", "label": "x"}, 3, {"text": "b", "label": "y"}]',
        '[{"text": "a", "label": "z"}, {"text": "a", "label": "y"}]',
        2,
        5,
        2,
        1,
    ),
    "conll": (
        "tag",
        "t.conll",
        "a O\nb B-X\n\nc\n\nd O\ne\n\nf B-X\n",
        "a O\n\nb B-Y\n\nc B-X\n",
        3,
        7,
        2,
        2,
    ),
    "scores": (
        "embed",
        "t.csv",
        "text1,text2,score\na,b,1\nc,,2\nd,e,high\n",
        "text1,text2,score\na,b,1\n",
        2,
        4,
        1,
        1,
    ),
    "squad": ("answer", "t.json", json.dumps(SQUAD), json.dumps(SQUAD), 6, 10, 2, 2),
}


@pytest.mark.parametrize("form", FORMS)
def test_bad_examples_are_skipped_and_counted(form, write):
    task, name, train, dev, num_bad, num_read, num_train, num_dev = FORMS[form]
    paths = write(name, train), write(f"dev_{name}", dev)
    data = read_training_data(task, *paths, NO_OPTIONS, on_error="skip")
    assert (data.bad.num_bad, data.bad.num_read) == (num_bad, num_read)
    assert (len(data.train), len(data.dev)) == (num_train, num_dev)
    with pytest.raises(InputError, match=r"examples are bad: .*t\.\w+, |t\.json\[1\] is a number"):
        read_training_data(task, *paths, NO_OPTIONS)


def test_bad_examples_in_memory_are_counted():
    records = [("a", "x"), ("b", "y"), ("", "x"), ("c", None)]
    with pytest.raises(InputError, match=r"^2 of 5 examples are bad: train\[2\]: .*; train\[3\]: .*--on-error skip$"):
        read_training_data("classify", records, records[:1], NO_OPTIONS)
    data = read_training_data("classify", records, records[:1], NO_OPTIONS, on_error="skip")
    assert (len(data.train), data.bad.num_bad) == (2, 2)


def test_data_without_good_examples_are_rejected(write):
    path = write("t.csv", "text,label\na\nb\n")
    with pytest.raises(InputError, match=r"t\.csv has no good examples, 2 of 2 examples are bad: .*line 2: .*line 3: "):
        read_training_data("classify", path, path, NO_OPTIONS, on_error="skip")
    dev = write("dev.csv", "text,label\na,odd\n")
    with pytest.raises(InputError, match=r"dev\.csv has no good examples, 1 of 3 examples is bad: .*'odd'"):
        read_training_data("classify", [("a", "x"), ("b", "y")], dev, NO_OPTIONS, on_error="skip")


def test_unknown_labels_count_as_bad_examples_in_scoring(write):
    task = TextClassification(labels=("x", "y"))
    path = write("t.csv", 'text,label\na,x\nb,odd\nc,y\n"",x\nd,ods\n')
    with pytest.raises(InputError, match=r"^3 of 5 examples are bad: .*line 5: .* is empty.*line 3: .*'odd'.*line 6"):
        read_scoring_data(task, path, NO_OPTIONS)
    bad = BadExamples(skip=True)
    assert [one.text for one in read_scoring_data(task, path, NO_OPTIONS, bad)] == ["a", "c"]
    assert (bad.num_bad, len(bad.first)) == (3, 3)


def test_faults_of_a_whole_file_are_not_skipped(write):
    path = write("t.csv", 'text,label\na,x\n"never closed,y\n')
    with pytest.raises(InputError, match="a quote mark that is never closed"):
        read_training_data("classify", path, path, NO_OPTIONS, on_error="skip")
    with pytest.raises(InputError, match="on_error is 'ignore'; expected one of stop, skip"):
        read_training_data("classify", path, path, NO_OPTIONS, on_error="ignore")
