"""Text is found by files, folders and patterns, and all kinds of sources give the same text."""

import gzip
import io
import itertools
import json
import os
import re
import sys
import threading

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_sources import find_sources, get_total_bytes, read_lines

TEXT = "one two\nthr\u00e9\u00e9\u2028still three\n\nfour\x85 five\r\n\n\n six \n"
LINES = ["one two", "thr\u00e9\u00e9\u2028still three", "", "four\x85 five", "", "", "six"]
DOCUMENTS = [LINES[:2], ["four\x85 five"], ["six"]]


@pytest.fixture
def tree(tmp_path):
    """A folder with four kinds of text files, and other files."""
    for name in (
        "b/deep/two.txt",
        "b/also/2.txt",
        "b/one.TXT",
        "b/.git/hidden.txt",
        "b/table.csv",
        "b/.note.txt",
        "a.txt",
        "c.md",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {path.name}\n")
    (tmp_path / "b/packed.txt.gz").write_bytes(gzip.compress(b"text of packed\n"))
    (tmp_path / "b/records.jsonl.gz").write_bytes(gzip.compress(b'{"text": "text of records"}\n'))
    return tmp_path


def found(names, folder):
    return [source.path.relative_to(folder).as_posix() for source in find_sources(names)]


def lines(names, **options):
    return list(read_lines(find_sources(names), **options))


def test_a_folder_is_searched_recursively_in_a_fixed_order(tree):
    assert found(tree, tree) == [
        "a.txt",
        "c.md",
        "b/one.TXT",
        "b/packed.txt.gz",
        "b/records.jsonl.gz",
        "b/also/2.txt",
        "b/deep/two.txt",
    ]


def test_a_named_file_can_have_any_suffix(tree):
    assert lines(tree / "b/table.csv") == ["text of table.csv", ""]


def test_patterns_match_files_and_folders_and_two_stars_any_depth(tree):
    assert found(str(tree / "**/*.txt"), tree) == ["a.txt", "b/also/2.txt", "b/deep/two.txt"]
    assert found(str(tree / "b/[dt]*"), tree) == ["b/deep/two.txt", "b/table.csv"]


def test_an_existing_file_has_priority_over_a_pattern(tree):
    (tree / "[a].txt").write_text("odd name\n")
    assert lines(tree / "[a].txt") == ["odd name", ""]


def test_files_are_read_in_the_order_of_the_names_and_once(tree):
    (tree / "link.txt").symlink_to(tree / "a.txt")
    assert found([tree / "c.md", tree / "link.txt", str(tree / "*.txt"), tree / "b/../c.md"], tree) == [
        "c.md",
        "link.txt",
    ]
    assert len(find_sources(["-", "-"])) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.txt", r"no\.txt does not exist; expected a UTF-8 text file or a folder there"),
        ("*.none", r"the pattern '.*\*\.none' matches no file"),
        ("empty", r"empty has no text files; expected names that end in \.txt \.text \.md \.jsonl"),
        ("links/", r"nowhere\.txt does not exist"),
        ("x" * 300, "xxx' cannot be read .File name too long.; expected a file or folder"),
    ],
)
def test_a_name_without_files_is_an_error(tmp_path, name, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/picture.png").touch()
    (tmp_path / "links").mkdir()
    (tmp_path / "links/nowhere.txt").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match=message):
        find_sources(os.path.join(tmp_path, name))


def test_all_invalid_names_are_in_one_error(tree):
    with pytest.raises(InputError, match=r"x\.txt does not exist.*; .*y\.txt does not exist"):
        find_sources([tree / "x.txt", tree / "a.txt", tree / "y.txt"])


def group_documents(stream):
    return [list(group) for has_text, group in itertools.groupby(stream, key=bool) if has_text]


def write_records(path):
    records = [json.dumps({"id": 7, "body": "\n\n".join(document)}) for document in DOCUMENTS]
    path.write_text("\ufeff" + "\n\n".join(records) + "\r\n", encoding="utf-8")


@pytest.mark.parametrize("form", ["a.txt", "a.txt.gz", "bom.txt", "a.jsonl", "a.jsonl.gz", "-", "packed -", "pipe"])
def test_all_kinds_of_sources_give_the_same_documents(tmp_path, monkeypatch, form):
    path = tmp_path / form.removesuffix(".gz")
    if form.endswith("-"):
        content = gzip.compress(TEXT.encode()) if form.startswith("packed") else TEXT.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        path = "-"
    elif form == "pipe":
        os.mkfifo(path)
        threading.Thread(target=path.write_bytes, args=(TEXT.encode(),), daemon=True).start()
    elif ".jsonl" in form:
        write_records(path)
    else:
        path.write_bytes((("\ufeff" if form == "bom.txt" else "") + TEXT).encode())
    if form.endswith(".gz"):
        packed = gzip.compress(path.read_bytes())
        path = tmp_path / form
        path.write_bytes(packed)
    assert group_documents(lines(path, field="body")) == DOCUMENTS


def test_lines_include_the_blank_lines_between_documents(tmp_path):
    (tmp_path / "a.txt").write_bytes(TEXT.encode())
    assert lines([tmp_path / "a.txt"]) == [*LINES, ""]


def test_a_document_never_spans_two_files(tmp_path):
    (tmp_path / "one.txt").write_bytes(b"\n\n a b \r\nc\n \n\nd\n")
    (tmp_path / "two.txt").write_text("e\n\n\nf", encoding="utf-8")
    assert group_documents(lines([tmp_path / "one.txt", tmp_path / "two.txt"])) == [["a b", "c"], ["d"], ["e"], ["f"]]


def test_only_a_file_found_in_a_folder_can_be_blank(tree):
    (tree / "blank.txt").write_text("\n \n")
    assert lines(tree).count("text of a.txt") == 1
    with pytest.raises(InputError, match=r"blank\.txt has no text; expected one sentence per line"):
        lines([tree / "a.txt", tree / "blank.txt"])


def test_invalid_utf8_in_a_folder_is_an_error_with_file_and_line(tree):
    (tree / "b/latin.txt").write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(InputError, match=r"b/latin\.txt, line 2: byte 0xef at column 3 is not UTF-8"):
        lines(tree)


def test_invalid_bytes_of_standard_input_are_an_error_with_the_line(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"fine\n\0")))
    with pytest.raises(InputError, match=r"^standard input, line 2: there is a NUL byte"):
        lines("-")


def test_an_invalid_record_is_an_error_with_file_and_line(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n\n{"text": 3}\n')
    with pytest.raises(InputError, match=re.escape(f"{tmp_path}/a.jsonl, line 3: the field 'text' is 3;")):
        lines(tmp_path)


def test_progress_ends_at_the_bytes_on_disk(tree):
    (tree / "large.txt").write_bytes(b"a line of text\n" * 50_000)
    sources, calls = find_sources(tree), []
    list(read_lines(sources, progress=lambda *call: calls.append(call)))
    whole = get_total_bytes(sources)
    assert whole == sum(source.path.stat().st_size for source in sources)
    assert calls[-1] == (whole, whole)
    assert sorted(calls) == calls
    assert len(calls) > len(sources)
    assert get_total_bytes([*sources, *find_sources("-")]) is None
