"""The delimiter of a `.csv` file is detected; commas are never mistaken for another delimiter."""

import csv
import io
import random

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.readers.tables.tables import DELIMITERS, choose_delimiter, open_table, parse_delimiter
from tests.pipelines.readers.whole_tables import read_table
from tests.shared_data import shared


@pytest.fixture(scope="module")
def real_examples():
    """Texts written by people, with many kinds of characters, and their labels."""
    queries = read_table(shared("banking77/test.csv")).examples[:400]
    sentences = read_table(shared("stsb/stsb-en-dev.csv"), columns=["a", "b", "score"]).examples[:400]
    return queries + [[first, score] for first, _, score in sentences]


def write_csv(rows, delimiter):
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize("delimiter", DELIMITERS, ids=DELIMITERS.values())
def test_delimiter_does_not_change_the_examples(delimiter, write, real_examples):
    path = write("t.csv", write_csv([["text", "label"], *real_examples], delimiter).encode("utf-8-sig"))
    with open_table(path) as table:
        assert (table.delimiter, table.columns) == (delimiter, ["text", "label"])
        assert [example.fields for example in table.read()] == real_examples
    path = write("bare.csv", write_csv(real_examples, delimiter).encode())
    assert read_table(path, columns=["text", "label"]).examples == real_examples


def test_comma_is_detected_for_any_texts():
    """The texts contain the other delimiters, and the header has one to four columns."""
    rng = random.Random(7)
    names = ["text", "label", "id; old", "a|b"]
    for case in range(300):
        header = rng.sample(names, rng.randint(1, 4))
        num_examples = rng.randint(1, 8)
        rows = [
            ["".join(rng.choices(["a b", ";", "\t", "|", ","], [6, 2, 1, 1, 1], k=rng.randint(1, 9))) for _ in header]
            for _ in range(num_examples)
        ]
        text = write_csv([header, *rows], ",")
        if len(header) > 1:
            assert choose_delimiter(text.splitlines(True)) == ",", (case, text)


CASES = {
    "single column": ("text\nwell; then\nso; be; it\n", None, ","),
    "single column with a delimiter in its name": ("text; raw\none\ntwo\n", None, ","),
    "other delimiter would give more columns": ("a;b;c,label\nx;y;z,1\nu;v;w,2\n", None, ","),
    "header only": ("text;label\n", None, ";"),
    "commas in texts": ("text;label\nwell, then, so;a\nno, never;b\n", None, ";"),
    "comma in quotes in the header": ('"text, old";label\na;b\n', None, ";"),
    "no header": ("well, then;a\nno;b\n", 2, ";"),
    "no header, commas": ("well; then,a\nno; no; no,b\n", 2, ","),
    "spreadsheet with tabs": ("text\tlabel\n1,5 kg\ta\n", None, "\t"),
    "empty": ("", None, ","),
    "blank lines first": ("\n\ntext;label\na;b\n", None, ";"),
}


@pytest.mark.parametrize("case", CASES)
def test_delimiter_splits_all_lines_into_the_same_number_of_fields(case, write):
    text, num_columns, delimiter = CASES[case]
    assert choose_delimiter(text.splitlines(True), num_columns) == delimiter
    if text:
        columns = None if num_columns is None else list("ab")
        with open_table(write("t.csv", text.encode()), columns=columns) as table:
            assert table.delimiter == delimiter


def test_named_delimiter_is_used_without_detection(write):
    path = write("t.csv", b"a;b,c\n1;2,3\n")
    assert read_table(path).columns == ["a;b", "c"]
    with open_table(path, delimiter=";") as table:
        assert table.columns == ["a", "b,c"]
    assert [parse_delimiter(name) for name in ("tab", "\\t", "\t", ";")] == ["\t", "\t", "\t", ";"]
    with pytest.raises(InputError, match=r"the delimiter is '#'; expected ,, ;, \| or tab"):
        parse_delimiter("#")
    with pytest.raises(InputError, match=r"t\.tsv is read as tsv, and a delimiter is for csv"):
        open_table(write("t.tsv", b"a\tb\n"), delimiter=",").__enter__()


def test_error_for_a_wrong_number_of_fields_names_the_delimiter(write):
    with pytest.raises(InputError, match=r"t\.csv, line 4: the row has 3 fields .* quote fields that contain a semi"):
        read_table(write("t.csv", b"text;label\na;b\nc;d\ne;f;g\n"))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_error_for_utf_16_explains_the_conversion(encoding, write):
    path = write("t.csv", ("\ufeff" + "text,label\na,b\n").encode(encoding))
    with pytest.raises(InputError, match=r"t\.csv is UTF-16; expected UTF-8: save it as UTF-8 .*iconv -f utf-16 -t"):
        read_table(path)
