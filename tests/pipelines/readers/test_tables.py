"""Tables are read from files and streams, example by example; errors name the line."""

import gzip
import io
import os
import sys

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.readers.tables.tables import open_table
from tests.pipelines.readers.whole_tables import read_table

TABLES = {
    "csv": ("t.csv", b'text,label\n"a, b","say ""no"""\n'),
    "csv, CRLF and a byte order mark": ("t.csv", b'\xef\xbb\xbftext,label\r\n"a, b","say ""no"""\r\n'),
    "csv, blank lines, no line end": ("t.CSV", b'\n text, label\n\n"a, b","say ""no"""'),
    "csv, gzip": ("t.csv.gz", gzip.compress(b'text,label\n"a, b","say ""no"""\n')),
    "csv, gzip by content": ("t.csv", gzip.compress(b'text,label\n"a, b","say ""no"""\n')),
    "tsv": ("t.tsv", b'text\tlabel\na, b\tsay "no"\n'),
    "tsv, CRLF and a byte order mark": ("t.tsv", b'\xef\xbb\xbftext\tlabel\r\na, b\tsay "no"\r\n\r\n'),
    "tsv, gzip": ("t.TSV.GZ", gzip.compress(b'text\tlabel\na, b\tsay "no"\n')),
    "json lines": ("t.jsonl", b'{"text": "a, b", "label": "say \\"no\\""}\n'),
    "json lines, CRLF and a byte order mark": (
        "t.jsonl",
        b'\xef\xbb\xbf\r\n{"text": "a, b", "label": "say \\"no\\""}\r\n',
    ),
}


@pytest.fixture
def feed(monkeypatch):
    """Function that sets the bytes of standard input."""
    return lambda content: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("kind", TABLES)
def test_every_format_gives_the_same_table(write, kind):
    table = read_table(write(*TABLES[kind]))
    assert table.columns == ["text", "label"]
    assert table.examples == [["a, b", 'say "no"']]


def test_quotes_in_tsv_are_text(write):
    table = read_table(write("t.tsv", b'"a\t"b" c\n"\t""\n" x\t\'\n'))
    assert table.columns == ['"a', '"b" c']
    assert table.examples == [['"', '""'], ['" x', "'"]]


def test_line_of_an_example_is_its_first_line_also_after_multiline_texts(write):
    table = read_table(write("t.csv", b'text,label\n"one\n\ntwo\r\nthree",a\n\nb,c\n"d\n",e\nf,g\n'))
    assert table.examples == [["one\n\ntwo\r\nthree", "a"], ["b", "c"], ["d\n", "e"], ["f", "g"]]
    assert table.lines == [2, 7, 8, 10]


def test_columns_name_the_fields_of_a_file_without_a_header(write):
    table = read_table(write("t.csv", b"one,two,5.0\n"), columns=("a", "b", "score"))
    assert (table.columns, table.examples, table.lines) == (["a", "b", "score"], [["one", "two", "5.0"]], [1])


def test_json_values_keep_their_spelling_and_the_order_of_the_first_line(write):
    first = '{"t": "\u4e2d\u6587 \\u00e9", "n": 5.0, "b": true, "l": ["x", 3]}\n'
    second = '{"l": [], "b": false, "n": 12345678901234567890123, "t": ""}\n'
    table = read_table(write("t.jsonl", (first + second).encode()))
    assert table.columns == ["t", "n", "b", "l"]
    assert table.examples == [
        ["\u4e2d\u6587 \u00e9", "5.0", "true", ["x", "3"]],
        ["", "12345678901234567890123", "false", []],
    ]


def test_only_named_columns_of_json_lines_are_read(write):
    content = b'{"id": null, "b": "1", "a": "x"}\n{"a": "y", "b": "2", "more": {"deep": []}}\n'
    assert read_table(write("t.jsonl", content), columns=("a", "b")).examples == [["x", "1"], ["y", "2"]]


@pytest.mark.parametrize("kind", TABLES)
def test_examples_have_the_requested_columns_in_order(write, kind):
    with open_table(write(*TABLES[kind])) as table:
        [example] = table.read(["label", "text"])
    assert example.fields == ['say "no"', "a, b"]


def test_text_longer_than_the_csv_limit_of_python_is_read(write):
    long = "word, " * 30_000  # 180,000 characters; the limit of Python's csv is 131,072
    assert read_table(write("t.csv", f'text,label\n"{long}",a\n'.encode())).examples == [[long, "a"]]


ERRORS = {
    "empty file": ("t.csv", b"", r"t\.csv is empty; expected a line of column names"),
    "blank lines": ("t.tsv", b"\n\r\n", r"t\.tsv is empty"),
    "empty json lines": ("t.jsonl", b" \n", r"t\.jsonl is empty; expected one JSON object per line"),
    "header only": ("t.csv", b"text,label\n", r"t\.csv has no examples; expected at least one"),
    "wide row": ("t.csv", b"a,b\n1,2\n1,2,3\n", r"t\.csv, line 3: the row has 3 fields .* 2 columns.*quote"),
    "narrow row": ("t.csv", b'a,b\n"1\n",2\n1\n', r"t\.csv, line 4: the row has 1 field but there are 2 columns"),
    "wide tsv": ("t.tsv", b"a\tb\n1\t2\t3\n", r"t\.tsv, line 2: the row has 3 fields but .*remove the tab"),
    "latin 1": ("t.csv", b"a,b\ncaf\xe9,2\n", r"t\.csv, line 2: byte 0xe9 at column 4 is not UTF-8"),
    "latin 1 in a long text": ("t.csv", b'a,b\n"1\ncaf\xe9\n",2\n', r"t\.csv, line 3: byte 0xe9 at column 4"),
    "latin 1 header": ("t.tsv", b"caf\xe9\tb\n1\t2\n", r"t\.tsv, line 1: byte 0xe9"),
    "latin 1 json": ("t.jsonl", b'{"a": "x"}\n{"a": "caf\xe9"}\n', r"t\.jsonl, line 2: byte 0xe9"),
    "utf-16": ("t.csv", "a,b\n1,2\n".encode("utf-16"), r"t\.csv is UTF-16; expected UTF-8: save it as UTF-8"),
    "nul": ("t.csv", b"a,b\n1\0,2\n", r"t\.csv, line 2: there is a NUL byte"),
    "nul in a long text": ("t.csv", b'a,b\n"1\n2\0\n",2\n', r"t\.csv, line 3: there is a NUL byte"),
    "nul tsv": ("t.tsv", b"a\tb\n\0\n", r"t\.tsv, line 2: there is a NUL byte"),
    "unclosed quote": ("t.csv", b'a,b\n1,"2\n3,4\n', r"t\.csv, line 2: .*a quote mark that is never closed"),
    "unclosed quote in the header": ("t.csv", b'a,"b\n1,2\n', r"t\.csv, line 1: .*a quote mark that is never closed"),
    "bad quotes": ("t.csv", b'a,b\n"1"x,2\n', r"t\.csv, line 2: ',' expected after '\"'; expected fields quoted"),
    "carriage return": ("t.csv", b"a,b\r1,2\r", r"t\.csv, line 1: the line contains a carriage return"),
    "carriage return in tsv": ("t.tsv", b"a\tb\r1\t2\r", r"t\.tsv, line 1: the line contains a carriage return"),
    "json array": ("t.jsonl", b'{"a": "x"}\n["a"]\n', r"line 2: the line is a JSON array; expected an object"),
    "json string": ("t.jsonl", b'"x"\n', r"t\.jsonl, line 1: the line is a JSON string"),
    "json number": ("t.jsonl", b"5\n", r"t\.jsonl, line 1: the line is a JSON number"),
    "invalid json": ("t.jsonl", b'{"a": "x"}\n\n{"a": \n', r"t\.jsonl, line 3: not JSON .*one JSON object per line"),
    "json nan": ("t.jsonl", b'{"a": NaN}\n', r"t\.jsonl, line 1: not JSON \(NaN"),
    "json nested too deeply": ("t.jsonl", b"[" * 99_999, r"t\.jsonl, line 1: not JSON"),
    "json null": ("t.jsonl", b'{"a": "x"}\n{"a": null}\n', r"t\.jsonl, line 2: the field 'a' has no value \(null\)"),
    "json object": ("t.jsonl", b'{"a": {}}\n', r"t\.jsonl, line 1: the field 'a' is a JSON object"),
    "json null in a list": ("t.jsonl", b'{"a": ["x", null]}\n', r"line 1: .* a JSON array with a null in it"),
    "json list in a list": ("t.jsonl", b'{"a": [["x"]]}\n', r"line 1: .* a JSON array with an array in it"),
    "json nul": ("t.jsonl", b'{"a": "x\\u0000"}\n', r"line 1: the field 'a' has \\u0000, which is not valid in text"),
    "json lone surrogate": ("t.jsonl", b'{"a": ["\\ud800"]}\n', r"t\.jsonl, line 1: the field 'a' has \\ud800"),
    "json missing field": (
        "t.jsonl", b'{"a": "1", "b": "2"}\n{"a": "1"}\n', r"line 2: there is no field 'b'; the fields are 'a'"),
    "json extra field": (
        "t.jsonl", b'{"a": "1"}\n{"a": "1", "b": ""}\n', r"line 2: there is a field 'b', which line 1 does not have"),
    "truncated gzip": ("t.csv.gz", gzip.compress(b"a,b\n1,2\n")[:-9], r"t\.csv\.gz: the gzip data is truncated"),
    "not gzip": ("t.csv.gz", b"a,b\n1,2\n", r"t\.csv\.gz is not gzip"),
    "extension": ("t.txt", b"a\n", r"t\.txt ends in '\.txt'; expected \.csv, \.tsv, \.jsonl or \.json, or .* \.gz"),
    "other extension, gzip": ("t.conll.gz", b"a\n", r"t\.conll\.gz ends in '\.conll'; expected \.csv"),
    "no extension": ("table", b"a\n", r"table has no ending; expected \.csv"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_name_the_line(write, kind):
    name, content, message = ERRORS[kind]
    with pytest.raises(InputError, match=message):
        read_table(write(name, content))


def test_missing_file_and_folder_are_errors(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv does not exist"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(InputError, match=r"t\.csv is a folder"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize(("name", "content"), [("t.csv", b"a,b,a\n1,2,3\n"), ("t.tsv", b"a\tb\ta\n1\t2\t3\n")])
def test_duplicate_or_missing_columns_cannot_be_requested(write, name, content):
    path = write(name, content)
    with open_table(path) as table:
        assert next(table.read(["b"])).fields == ["2"]
    with open_table(path) as table, pytest.raises(InputError, match=r"line 1: there is more than one column 'a'"):
        table.read(["a"])
    with (
        open_table(path) as table,
        pytest.raises(InputError, match=r"line 1: there is no column 'c'; .* 'a', 'b', 'a'"),
    ):
        table.read(["c"])


BAD_EXAMPLES = {  # the second of three examples is bad
    "wide csv": ("csv", b"a,b\n1,2\n3,4,5\n6,7\n", [2, 3, 4], "3 fields"),
    "quotes in csv": ("csv", b'a,b\n1,2\n"3"x,4\n6,7\n', [2, 3, 4], "line 3: ',' expected after"),
    "latin 1 in csv": ("csv", b"a,b\n1,2\n\xe9,4\n6,7\n", [2, 3, 4], "line 3: byte 0xe9"),
    "latin 1 in a long text": ("csv", b'a,b\n1,2\n"3\n\xe9\n,",4\n6,7\n', [2, 3, 6], "line 4: byte 0xe9"),
    "nul in csv": ("csv", b"a,b\n1,2\n\0\n6,7\n", [2, 3, 4], "line 3: there is a NUL byte"),
    "narrow tsv": ("tsv", b"a\tb\n1\t2\n3\n6\t7\n", [2, 3, 4], "1 field "),
    "latin 1 in tsv": ("tsv", b"a\tb\n1\t2\n\xe9\t4\n6\t7\n", [2, 3, 4], "line 3: byte 0xe9"),
    "invalid json": ("jsonl", b'{"a":1,"b":2}\n{"a":3,\n{"a":6,"b":7}\n', [1, 2, 3], "line 2: not JSON"),
    "nul in json": ("jsonl", b'{"a":1,"b":2}\n\0\n{"a":6,"b":7}\n', [1, 2, 3], "line 2: there is a NUL byte"),
    "null in json": ("jsonl", b'{"a":1,"b":2}\n{"a":3,"b":null}\n{"a":6,"b":7}\n', [1, 2, 3], "has no value (null)"),
    "latin 1 in json": ("jsonl", b'{"a":1,"b":2}\n"\xe9"\n{"a":6,"b":7}\n', [1, 2, 3], "line 2: byte 0xe9"),
}


@pytest.mark.parametrize("kind", BAD_EXAMPLES)
def test_invalid_example_in_a_stream_is_reported_and_reading_continues(feed, kind):
    form, content, lines, message = BAD_EXAMPLES[kind]
    feed(content)
    with open_table("-", format=form) as table:
        good, bad, last = table.read()
    assert [good.line, bad.line, last.line] == lines
    assert (good.fields, good.error) == (["1", "2"], None)
    assert (last.fields, last.error) == (["6", "7"], None)
    assert isinstance(bad.error, InputError)
    assert message in str(bad.error)
    assert str(bad.error).startswith("standard input, line ")
    assert bad.fields == []


def test_first_json_line_may_be_invalid_if_the_columns_are_set(feed):
    feed(b'oh\n{"a": "x"}\n')
    with open_table("-", format="jsonl", columns=["a"]) as table:
        bad, good = table.read()
    assert "standard input, line 1: not JSON" in str(bad.error)
    assert good.fields == ["x"]


@pytest.mark.parametrize("num_lines", [2, 2000])
def test_unclosed_quote_ends_the_stream_with_bounded_memory(feed, monkeypatch, num_lines):
    monkeypatch.setattr("bert_keras.pipelines.readers.tables.tables.MAX_CSV_FIELD", 1000)
    feed(b'a,b\n1,2\n3,"4\n' + b"5,6\n" * num_lines)
    with open_table("-", format="csv") as table:
        examples = table.read()
        assert next(examples).fields == ["1", "2"]
        with pytest.raises(InputError, match=r"standard input, line 3: .*a quote mark that is never closed"):
            next(examples)


@pytest.mark.parametrize(
    ("form", "head", "line"),
    [("csv", b"a\n", b"1\n"), ("tsv", b"a\n", b"1\n"), ("jsonl", b"", b'{"a": 1}\n')],
)
def test_example_is_yielded_before_the_next_one_is_written(monkeypatch, form, head, line):
    read_end, write_end = os.pipe()
    with open(read_end) as stdin, open(write_end, "wb", buffering=0) as pipe:
        monkeypatch.setattr(sys, "stdin", stdin)
        pipe.write(head + line)
        with open_table("-", format=form) as table:
            examples = table.read()
            assert next(examples).fields == ["1"]
            pipe.write(line)
            assert next(examples).fields == ["1"]


def test_empty_stream_with_named_columns_has_no_examples(feed):
    for form in ("csv", "tsv", "jsonl"):
        feed(b"")
        with open_table("-", format=form, columns=["a"]) as table:
            assert list(table.read()) == []


def test_format_can_be_set_and_is_required_for_standard_input(write, feed):
    assert read_table(write("t.txt", b'a\tb\n"\t2\n'), format="tsv").examples == [['"', "2"]]
    message = "standard input has no file ending; expected a format: set --format to csv, tsv or jsonl"
    with pytest.raises(InputError, match=message):
        read_table("-")
    with pytest.raises(InputError, match="the format is 'xls'; expected csv, tsv, jsonl or json"):
        read_table("-", format="xls")


def test_csv_limit_of_python_is_restored(write):
    import csv

    before = csv.field_size_limit(1000)
    try:
        with open_table(write("t.csv", b"a\n" + b"x" * 2000 + b"\ny\n")) as table:
            examples = table.read()
            assert len(next(examples).fields[0]) == 2000
            assert csv.field_size_limit() == 1000
    finally:
        csv.field_size_limit(before)
