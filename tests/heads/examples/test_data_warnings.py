"""Likely mistakes in data get a warning that says how to fix them; published data sets get none."""

import pytest

from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.training.training_data import read_training_data
from tests.shared_data import shared

GOOD = "text,label\na,good\nb,bad\nc,good\nd,bad\n"


def find_warnings(write, task, train, dev, *, ending=".csv", options=None, **settings):
    paths = [write(f"train{ending}", train), None if dev is None else write(f"dev{ending}", dev)]
    return read_training_data(task, *paths, options or FileOptions(), **settings).warnings


DEV = "text,label\nx,good\ny,bad\n"
CASES = {
    "case": (GOOD + "e,Good\nf,Good\n", DEV, r"the labels 'Good' (2) and 'good' (2) differ only by case or spaces"),
    "spaces": (
        GOOD + "e,good  one\nf,good one\ng,good one\nh,good  one\n",
        DEV,
        r"the labels 'good  one' (2) and 'good one' (2) differ only by case or spaces: spell them the same way",
    ),
    "numbers": (
        "text,label\na,0\nb,1\nc,0.0\nd,1.0\ne,0\nf,1\ng,0.0\nh,1.0\n",
        "text,label\nx,0\n",
        r"the labels '0' (2) and '0.0' (2); '1' (2) and '1.0' (2) are the same number",
    ),
    "class with one example": (
        GOOD + "e,odd\n",
        DEV,
        r"a class has only one example ('odd'): add some, or look for a typo",
    ),
    "classes with one example": (
        GOOD + "e,odd\nf,even\n",
        DEV,
        r"2 classes have only one example ('even', 'odd'): add some",
    ),
    "as many classes as examples": (
        "text,label\na,p\nb,q\nc,r\n",
        "text,label\nx,p\n",
        r"as many classes as examples (3), so none can be learned: name the column of classes with --label-column",
    ),
    "many numbers": (
        "text,label\n" + "".join(f"a{i},{i % 25}.5\n" for i in range(50)),
        "text,label\nx,1.5\n",
        r"the 25 classes are all numbers: to learn values, add --problem regression",
    ),
    "text with two labels": (
        GOOD + "a,bad\n",
        DEV,
        r"a text has different labels in different places, such as 'a', 'good' in line 2 and 'bad' in line 6",
    ),
    "leak": (
        GOOD,
        DEV + "a,good\n",
        r"dev.csv: 1 of 3 held-out examples (33.3%) is also in the training examples, which makes the scores too good",
    ),
    "second header": (
        "text,label\n" + GOOD + "e,label\n",
        DEV,
        r"train.csv, line 2: the first example is 'text' with the label 'label', which are usual names of columns",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_likely_mistake_gets_one_warning(case, write):
    train, dev, message = CASES[case]
    [warning] = find_warnings(write, "classify", train, dev)
    assert message in warning


def test_good_data_get_no_warnings(write):
    assert find_warnings(write, "classify", GOOD, DEV) == []
    assert find_warnings(write, "classify", GOOD, None, dev_share=0.5) == []


def test_header_that_is_read_as_data_gets_a_warning(write):
    options = FileOptions(columns=["text", "label"])
    header = GOOD + "e,label\n"
    train, dev, *_ = find_warnings(write, "classify", header, "text,label\nx,good\n", options=options)
    assert "train.csv, line 1: the first example is 'text' with the label 'label'" in train
    assert "dev.csv, line 1: the first example is 'text'" in dev
    assert "if it is the header line, leave --columns out" in dev


def test_single_example_of_a_class_stays_in_training_with_a_warning(write):
    [warning] = find_warnings(write, "classify", GOOD + "e,odd\n", None, dev_share=0.4)
    assert "a class has only one example, which remains a training example ('odd')" in warning


def test_label_sets_and_tags_are_compared(write):
    [warning] = find_warnings(
        write,
        "classify",
        "text,labels\na,x|Y\nb,y|x\nc,Y\nd,y\n",
        "text,labels\nq,x\n",
        problem="multi_label",
    )
    assert "the labels 'Y' (2) and 'y' (2) differ only by case" in warning
    tags = "a B-per\n\nb B-PER\n\nc B-per\n\nd B-PER\ne O\n"
    [warning] = find_warnings(write, "tag", tags, "q O\n", ending=".conll")
    assert "the labels 'PER' (2) and 'per' (2) differ only by case" in warning


SETS = {
    "banking77": ("classify", "banking77/train.csv", "banking77/test.csv", ""),
    "sst2": ("classify", "sst2/dev.tsv", None, ""),
    "wnut17": ("tag", "wnut17/wnut17train.conll.gz", "wnut17/emerging.dev.conll.gz", ""),
    "squad": ("answer", "squad/squad_v2.0_dev_subset.json.gz", None, ""),
}


@pytest.mark.parametrize("name", SETS)
def test_published_data_get_only_expected_warnings(name):
    task, train, dev, expected = SETS[name]
    data = read_training_data(task, shared(train), dev and shared(dev), FileOptions())
    assert [warning for warning in data.warnings if expected not in warning] == []
    assert len(data.warnings) == bool(expected)
