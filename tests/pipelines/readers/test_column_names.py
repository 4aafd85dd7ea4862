"""Columns are chosen by the names that the user sets, then by exact usual names."""

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.readers.tables.column_names import Columns, guess_columns

MNLI = (
    "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse "
    "sentence1 sentence2 label1 gold_label"
).split()
SNLI = (
    "gold_label sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse sentence1 sentence2 "
    "captionID pairID label1 label2 label3 label4 label5"
).split()
GUESSED = {
    "ours": (["text", "label"], ("text", None, "label")),
    "banking77": (["text", "category"], ("text", None, "category")),
    "SST-2": (["sentence", "label"], ("sentence", None, "label")),
    "MNLI": (MNLI, ("sentence1", "sentence2", "gold_label")),
    "SNLI": (SNLI, ("sentence1", "sentence2", "gold_label")),
    "QNLI": (["index", "question", "sentence", "label"], ("question", "sentence", "label")),
    "QQP": (
        ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
        ("question1", "question2", "is_duplicate"),
    ),
    "MRPC": (["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"], ("#1 String", "#2 String", "Quality")),
    "STS-B": (
        ["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score"],
        ("sentence1", "sentence2", "score"),
    ),
    "RTE": (["index", "sentence1", "sentence2", "label"], ("sentence1", "sentence2", "label")),
    "ConjNLI": (["Premise", "Hypothesis", "Label"], ("Premise", "Hypothesis", "Label")),
    "CoLA, named": (["source", "label", "star", "sentence"], ("sentence", None, "label")),
    "SICK": (
        ["pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment"],
        ("sentence_A", "sentence_B", "relatedness_score"),
    ),
    "single question": (["question", "intent"], ("question", None, "intent")),
    "reviews": (["id", "review", "sentiment"], ("review", None, "sentiment")),
    "stars": (["stars", "content"], ("content", None, "stars")),
    "label and label name": (["text", "label", "label_text"], ("text", None, "label")),
    "exact spelling first": (["TEXT", "text", "Label"], ("text", None, "Label")),
    "other spellings, first column": (["TEXT", "Text", "Label"], ("TEXT", None, "Label")),
    "half a pair": (["text", "hypothesis", "label"], ("text", None, "label")),
}


@pytest.mark.parametrize("kind", GUESSED)
def test_usual_names_are_recognized(kind):
    names, expected = GUESSED[kind]
    assert guess_columns(names) == Columns(*expected)


SET_NAMES = {
    "text only, so no pair": ({"text": "sentence1"}, ("sentence1", None, "gold_label")),
    "text and label": ({"text": "genre", "label": "label1"}, ("genre", None, "label1")),
    "both texts": ({"text": "sentence2", "second_text": "sentence1"}, ("sentence2", "sentence1", "gold_label")),
    "second text only": ({"second_text": "sentence2"}, ("sentence1", "sentence2", "gold_label")),
    "label only": ({"label": "genre"}, ("sentence1", "sentence2", "genre")),
    "label that is a text of the pair": ({"label": "sentence2"}, ("sentence1", None, "sentence2")),
    "text with a usual name of labels": ({"text": "gold_label", "label": "label1"}, ("gold_label", None, "label1")),
    "no label needed": ({"needs_label": False}, ("sentence1", "sentence2", None)),
    "label set but not needed": ({"label": "label1", "needs_label": False}, ("sentence1", "sentence2", "label1")),
}


@pytest.mark.parametrize("kind", SET_NAMES)
def test_set_names_have_priority(kind):
    arguments, expected = SET_NAMES[kind]
    assert guess_columns(MNLI, **arguments) == Columns(*expected)


ERRORS = {
    "no text": (["a", "label"], {}, r"csv, line 1: no column has a usual name for texts.*'a', 'label'.*--text-column"),
    "no label": (["text", "b"], {}, r"csv, line 1: no column has a usual name for labels.*'text', 'b'.*--label-column"),
    "no header": (["A plane.", "A jet.", "5.0"], {}, r"'A plane\.', 'A jet\.', '5\.0'.*a file without a header line"),
    "text missing": (["a", "b"], {"text": "c"}, r"data\.csv, line 1: there is no column 'c'; the columns are 'a', 'b'"),
    "second missing": (["text", "label"], {"text": "text", "second_text": "c"}, "there is no column 'c'"),
    "label missing": (["text", "label"], {"label": "Label"}, "there is no column 'Label'"),
    "other case": (["Text", "label"], {"text": "text"}, "there is no column 'text'; the columns are 'Text'"),
    "duplicate column": (["text", "label", "text"], {}, "there is more than one column 'text'"),
    "text is label": (["a", "b"], {"text": "a", "label": "a"}, r"line 1: the column 'a' is named twice"),
    "text is second": (["a", "label"], {"text": "a", "second_text": "a"}, "the column 'a' is named twice"),
    "only text column is the label": (["text", "b"], {"label": "text"}, "no column has a usual name for texts"),
    "only label column is the text": (["b", "label"], {"text": "label"}, "no column has a usual name for labels"),
    "no columns": ([], {}, "the columns are none"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_list_the_columns_and_the_options(kind):
    names, arguments, message = ERRORS[kind]
    with pytest.raises(InputError, match=message):
        guess_columns(names, place="data.csv, line 1", **arguments)


def test_names_lists_the_chosen_columns():
    assert Columns("a", None, "b").names == ["a", "b"]
    assert Columns("a", "c", "b").names == ["a", "c", "b"]
    assert Columns("a", None, None).names == ["a"]
