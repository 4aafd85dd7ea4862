"""The mark between the fields of a `.csv` is recognized, and never taken for another where it is a comma."""

import csv
import io
import random

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.readers.tables.delimiters import DELIMITERS, choose_delimiter, parse_delimiter
from bert_keras.pipelines.readers.tables.tables import open_table
from tests.pipelines.readers.whole_tables import read_table
from tests.shared_data import shared


@pytest.fixture(scope="module")
def real_rows():
    """Texts of people, with all kinds of characters, and their labels."""
    rows = read_table(shared("banking77/test.csv")).examples[:400]
    sentences = read_table(shared("stsb/stsb-en-dev.csv"), columns=["a", "b", "score"]).examples[:400]
    return rows + [[first, score] for first, _, score in sentences]


def written(rows, mark):
    file = io.StringIO()
    csv.writer(file, delimiter=mark, lineterminator="\n").writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize("mark", DELIMITERS, ids=DELIMITERS.values())
def test_real_texts_are_read_alike_whatever_the_mark(mark, write, real_rows):
    path = write("t.csv", written([["text", "label"], *real_rows], mark).encode("utf-8-sig"))
    with open_table(path) as table:
        assert (table.delimiter, table.columns) == (mark, ["text", "label"])
        assert [row.fields for row in table.read()] == real_rows
    path = write("bare.csv", written(real_rows, mark).encode())
    assert read_table(path, columns=["text", "label"]).examples == real_rows


def test_a_comma_csv_stays_one_whatever_its_texts_hold():
    """Texts full of the other marks, under headers of one to four columns."""
    rng = random.Random(7)
    names = ["text", "label", "id; old", "a|b"]
    for case in range(300):
        header = rng.sample(names, rng.randint(1, 4))
        num_rows = rng.randint(1, 8)
        rows = [
            ["".join(rng.choices(["a b", ";", "\t", "|", ","], [6, 2, 1, 1, 1], k=rng.randint(1, 9))) for _ in header]
            for _ in range(num_rows)
        ]
        text = written([header, *rows], ",")
        if len(header) > 1:
            assert choose_delimiter(text.splitlines(True)) == ",", (case, text)


CASES = {
    "a single column": ("text\nwell; then\nso; be; it\n", None, ","),
    "a single column with a mark in its name": ("text; raw\none\ntwo\n", None, ","),
    "another mark that would give more columns": ("a;b;c,label\nx;y;z,1\nu;v;w,2\n", None, ","),
    "a header alone": ("text;label\n", None, ";"),
    "commas in texts": ("text;label\nwell, then, so;a\nno, never;b\n", None, ";"),
    "a comma in quotes in the header": ('"text, old";label\na;b\n', None, ";"),
    "no header": ("well, then;a\nno;b\n", 2, ";"),
    "no header, commas": ("well; then,a\nno; no; no,b\n", 2, ","),
    "tabs of a spreadsheet": ("text\tlabel\n1,5 kg\ta\n", None, "\t"),
    "nothing": ("", None, ","),
    "blank lines first": ("\n\ntext;label\na;b\n", None, ";"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_delimiter_splits_all_lines_into_the_same_number_of_fields(case, write):
    text, num_columns, mark = CASES[case]
    assert choose_delimiter(text.splitlines(True), num_columns) == mark
    if text:
        columns = None if num_columns is None else list("ab")
        with open_table(write("t.csv", text.encode()), columns=columns) as table:
            assert table.delimiter == mark


def test_a_mark_that_is_named_is_not_guessed(write):
    path = write("t.csv", b"a;b,c\n1;2,3\n")
    assert read_table(path).columns == ["a;b", "c"]
    with open_table(path, delimiter=";") as table:
        assert table.columns == ["a", "b,c"]
    assert [parse_delimiter(name) for name in ("tab", "\\t", "\t", ";")] == ["\t", "\t", "\t", ";"]
    with pytest.raises(InputError, match=r"the delimiter is '#'; expected ,, ;, \| or tab"):
        parse_delimiter("#")
    with pytest.raises(InputError, match=r"t\.tsv is read as tsv, and a delimiter is for csv"):
        open_table(write("t.tsv", b"a\tb\n"), delimiter=",").__enter__()


def test_the_fix_of_a_wrong_number_of_fields_names_the_delimiter(write):
    with pytest.raises(InputError, match=r"t\.csv, line 4: the row has 3 fields .* quote fields that contain a semi"):
        read_table(write("t.csv", b"text;label\na;b\nc;d\ne;f;g\n"))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_refused_with_what_to_do(encoding, write):
    path = write("t.csv", ("\ufeff" + "text,label\na,b\n").encode(encoding))
    with pytest.raises(InputError, match=r"t\.csv is UTF-16; expected UTF-8: save it as UTF-8 .*iconv -f utf-16 -t"):
        read_table(path)
