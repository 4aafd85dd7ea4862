"""Labelled texts survive a file, and a faulty file is named by line."""

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.tasks import read_labelled_csv, write_labelled_csv

ROWS = [
    ("plain", "a"),
    ('with, comma and "quotes"', "b"),
    ('" one quote mark', "a"),
    ("caf\u00e9 \u4e2d\u6587", "c"),
    ("", "b"),
]


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "ROWS.TSV"])
def test_rows_written_are_the_rows_read(tmp_path, name):
    write_labelled_csv(tmp_path / name, iter(ROWS))
    texts, labels = read_labelled_csv(tmp_path / name)
    assert list(zip(texts, labels, strict=True)) == ROWS


def test_line_ends_inside_a_text_survive_in_csv_and_are_refused_in_tsv(tmp_path):
    row = ("two\nlines\tand a tab", "a")
    write_labelled_csv(tmp_path / "rows.csv", [row])
    assert read_labelled_csv(tmp_path / "rows.csv") == ([row[0]], ["a"])
    with pytest.raises(InputError, match=r"row 0 holds a tab or a line end.*write a \.csv file"):
        write_labelled_csv(tmp_path / "rows.tsv", [row])
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_columns_are_found_by_name_and_blank_lines_passed_over(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("\ufeffid,category,query\r\n1,x,one\r\n\r\n2,y,two\r\n".encode())
    assert read_labelled_csv(path, text_column="query", label_column="category") == (["one", "two"], ["x", "y"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"line 1: there is no column 'text'; the header has \[\]"),
        (b"text,category\na,b\n", r"line 1: there is no column 'label'; the header has \['text', 'category'\]"),
        (b"text,label,text\na,b,c\n", "line 1: there is more than one column 'text'"),
        (b"text,label\n", "holds a header and no rows"),
        (b"text,label\na,b\na,b,c\n", "line 3: the row has 3 fields where the header has 2"),
        (b'text,label\n"two\nlines",b\na\n', "line 4: the row has 1 fields"),
        (b"text,label\na, \n", "line 2: the column 'label' is empty"),
        (b'text,label\n"a,b\nc,d\n', "line 3: unexpected end of data; expected fields quoted"),
        (b'text,label\n"a"x,b\n', "line 2: .*look for a quote mark"),
        (b"text,label\ncaf\xe9,b\n", "line 2: byte 0xe9 at column 4 is not UTF-8"),
        (b"text,label\na\0,b\n", "line 2: there is a NUL byte"),
    ],
)
def test_a_faulty_file_is_named_by_line(tmp_path, content, message):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"rows\.csv.*" + message):
        read_labelled_csv(path)


def test_other_endings_are_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match=r"ends in '\.txt'; expected \.csv or \.tsv"):
        write_labelled_csv(tmp_path / "rows.txt", ROWS)
    with pytest.raises(InputError, match=r"ends in '\.json'; expected \.csv or \.tsv"):
        read_labelled_csv(tmp_path / "rows.json")
    assert list(tmp_path.iterdir()) == []
