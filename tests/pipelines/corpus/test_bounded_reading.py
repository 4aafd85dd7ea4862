"""Lines, examples and files that would fill the memory are errors, found with little memory."""

import gzip
import subprocess
import sys
import tracemalloc

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus import text_lines
from bert_keras.pipelines.corpus.text_lines import open_bytes, read_whole_content, read_whole_lines
from bert_keras.pipelines.corpus.text_sources import find_sources, read_lines
from bert_keras.pipelines.readers.questions import read_questions
from bert_keras.pipelines.readers.tables import tables
from bert_keras.pipelines.readers.tables.tables import open_table
from bert_keras.pipelines.readers.words.tagged_words import read_tagged_words
from bert_keras.pipelines.records.documents import FileText
from bert_keras.pipelines.text.vocabulary import read_vocabulary
from tests.pipelines.readers.whole_tables import read_table

BOUND = 1000


@pytest.fixture
def small_bounds(monkeypatch):
    """Lines of 1,000 bytes and documents of 2,000, so that the tests need no large files."""
    monkeypatch.setattr(text_lines, "MAX_LINE_BYTES", BOUND)
    monkeypatch.setattr(text_lines, "MAX_DOCUMENT_BYTES", 2 * BOUND)
    monkeypatch.setattr(text_lines, "_MAX_PART_BYTES", 100)


READERS = {
    "csv": ("t.csv", b"text,label\nfine,a\n", lambda path: read_table(path)),
    "tsv": ("t.tsv", b"text\tlabel\nfine\ta\n", lambda path: read_table(path)),
    "jsonl": ("t.jsonl", b'{"text": "fine"}\n{"text": "fine"}\n', lambda path: read_table(path)),
    "conll": ("t.conll", b"fine O\n\n", lambda path: read_tagged_words(path)),
    "conllu": ("t.conllu", b"# a\n# b\n", lambda path: read_tagged_words(path)),
    "questions": ("q.jsonl", b"\n\n", lambda path: read_questions(path)),
    "text of JSON lines": ("t.jsonl", b'{"text": "fine"}\n\n', lambda path: list(read_lines(find_sources(path)))),
    "records of JSON lines": (
        "t.jsonl",
        b'{"text": "fine"}\n\n',
        lambda path: list(FileText(find_sources(path)).passages()),
    ),
    "vocabulary": ("vocab.txt", b"[PAD]\n[UNK]\n", lambda path: read_vocabulary(path)),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_line_that_is_too_long_is_an_error_with_its_number(reader, tmp_path, small_bounds):
    name, before, read = READERS[reader]
    path = tmp_path / name
    path.write_bytes(before + b"x" * (BOUND + 1))
    with pytest.raises(InputError, match=rf"{name}, line 3: the line has more than 1,000 bytes.*: check|divide"):
        read(path)


def test_a_line_of_the_maximum_length_is_read(tmp_path, small_bounds):
    (tmp_path / "t.tsv").write_bytes(b"text\n" + b"x" * (BOUND - 1) + b"\n" + b"y" * BOUND)
    assert [len(row[0]) for row in read_table(tmp_path / "t.tsv").examples] == [BOUND - 1, BOUND]


def test_an_example_of_too_many_lines_is_an_error_with_its_first_line(tmp_path, small_bounds):
    (tmp_path / "t.conll").write_text("a O\n\n" + "word O\n" * 200)
    with pytest.raises(InputError, match=r"t\.conll, line 3: the sentence that begins here has more than 1,000 char"):
        read_tagged_words(tmp_path / "t.conll")
    (tmp_path / "t.csv").write_text("text,label\na,b\n" + '"two\nlines",' * 200 + "\n")
    with pytest.raises(InputError, match=r"t\.csv, line 3: the row that begins here has more than 1,000 characters"):
        read_table(tmp_path / "t.csv")


def test_many_examples_can_be_longer_in_total(tmp_path, small_bounds):
    (tmp_path / "t.csv").write_text("text,label\n" + 'a,"two\nlines"\n' * 500)
    assert len(read_table(tmp_path / "t.csv").examples) == 500
    (tmp_path / "t.conll").write_text("word O\n\n" * 500)
    assert len(read_tagged_words(tmp_path / "t.conll")) == 500


def test_a_document_that_is_too_long_is_an_error(tmp_path, small_bounds):
    (tmp_path / "q.json").write_bytes(b" " * (2 * BOUND + 1))
    with pytest.raises(InputError, match=r"q\.json has more than 2,000 bytes.*write a \.jsonl file"):
        read_questions(tmp_path / "q.json")
    (tmp_path / "q.json").write_bytes(b" " * 2 * BOUND)
    with pytest.raises(InputError, match="not JSON"):
        read_questions(tmp_path / "q.json")


def test_a_vocabulary_that_is_too_long_is_an_error(tmp_path, small_bounds):
    (tmp_path / "vocab.txt").write_text("".join(f"w{number}\n" for number in range(300)))
    with pytest.raises(InputError, match=r"vocab\.txt has more than 1,000 bytes; expected a vocabulary"):
        read_vocabulary(tmp_path / "vocab.txt")


def test_invalid_lines_before_the_first_valid_one_are_not_held_in_memory(tmp_path, monkeypatch):
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress((b"x" * 100_000 + b"\n") * 500 + b'{"text": "fine"}\n', 1))
    tracemalloc.start()
    try:
        with open_table(tmp_path / "t.jsonl.gz") as table:
            errors = [row.error is not None for row in table.read()]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert errors == [True] * 500 + [False]
    assert peak < 10_000_000, f"{peak:,} bytes for lines of 50 MB"


@pytest.mark.parametrize(
    ("read", "bound"), [(read_whole_lines, "MAX_LINE_BYTES"), (read_whole_content, "MAX_DOCUMENT_BYTES")]
)
def test_a_gzip_bomb_is_an_error_with_little_memory(read, bound, tmp_path, monkeypatch):
    monkeypatch.setattr(text_lines, bound, 2_000_000)
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(30):
            file.write(b"x" * 1_000_000)
    tracemalloc.start()
    try:
        with (
            open_bytes(path, "bomb.gz", lambda _: None) as file,
            pytest.raises(InputError, match="more than 2,000,000"),
        ):
            list(read(file, "bomb.gz"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size < 200_000
    assert peak < 7_000_000, f"{peak:,} bytes"


BOMBED = """
import resource, sys
from bert_keras.errors import InputError
from bert_keras.pipelines.readers.tables.tables import open_table
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    with open_table(sys.argv[1]) as table:
        for example in table.read():
            if example.error is not None:
                raise example.error
except InputError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("filling", [b"\0", b"x"])
@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_a_real_gzip_bomb_takes_less_than_200_megabytes(form, filling, tmp_path):
    path = tmp_path / f"bomb.{form}.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"text\n")
        for _ in range(300):
            file.write(filling * 1_000_000)
    done = subprocess.run([sys.executable, "-c", BOMBED, str(path)], capture_output=True, text=True, check=True)
    kilobytes, _, message = done.stdout.partition(" ")
    assert "the line has more than 67,108,864 bytes" in message
    assert int(kilobytes) < 200_000


def test_closed_standard_input_is_an_error(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input is closed; expected text there"):
        list(read_lines(find_sources("-")))


def test_a_csv_field_fits_into_a_line():
    assert tables.MAX_CSV_FIELD < text_lines.MAX_LINE_BYTES
