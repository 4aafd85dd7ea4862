"""Text is read as lines or paragraphs of documents; its SHA-256 equals the output of `sha256sum`."""

import gzip
import hashlib
import json

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_sources import find_sources
from bert_keras.pipelines.records.documents import DocumentText, FileText

RUNNING = "\ufeffChapter I\r\n\r\nIt rained. Mr. Smith\r\nstayed  at\r\nhome.\r\n\r\n\r\n  \r\nHe slept.\r\n"
PARAGRAPHS = ["Chapter I", "It rained. Mr. Smith stayed  at home.", "He slept."]


@pytest.fixture
def read(tmp_path):
    """Function that writes files and reads their passages."""

    def write_and_read(files, **options):
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        text = FileText(find_sources([tmp_path / name for name in files]), **options)
        return list(text.passages()), text

    return write_and_read


def test_lines_are_stripped_and_blank_lines_end_documents(read):
    passages, _ = read({"a.txt": b" One. \r\nTwo.\n\nThree.", "b.txt": b"Four.\n"})
    assert passages == ["One.", "Two.", "", "Three.", "", "Four.", ""]


def test_running_text_is_split_into_paragraphs_and_a_file_is_a_document(read):
    passages, _ = read({"a.txt": RUNNING.encode(), "b.txt": b"Last."}, sentences="split")
    assert passages == [*PARAGRAPHS, "", "Last.", ""]


def test_json_record_is_a_document_of_lines_or_paragraphs(read):
    text = RUNNING.replace("\ufeff", "")
    lines = "".join(json.dumps({"body": body}) + "\n" for body in (text, "Last."))
    passages, _ = read({"a.jsonl": lines.encode()}, field="body", sentences="split")
    assert [list(passages)[i] for i in (0, 1, 2, 3, 4, 5)] == [*PARAGRAPHS, "", "Last.", ""]
    passages, _ = read({"a.jsonl": lines.encode()}, field="body")
    assert passages[:6] == ["Chapter I", "It rained. Mr. Smith", "stayed  at", "home.", "He slept.", ""]


def test_huge_paragraph_is_split_at_a_line_end(read):
    passages, _ = read({"a.txt": b"word word word\n" * 20_000}, sentences="split")
    assert len(passages) > 4
    assert max(map(len, passages)) < 70_000
    assert " ".join(passages).split() == ["word"] * 60_000


@pytest.mark.parametrize("sentences", ["lines", "split"])
def test_facts_are_the_size_and_sha256_of_the_uncompressed_text(read, sentences):
    content = {"a.txt": RUNNING.encode(), "c.jsonl": b'{"text": "One."}\n\n{"text": "Two."}', "b.txt": b"x\n" * 99}
    _, text = read({**content, "b.txt": gzip.compress(content["b.txt"])}, sentences=sentences)
    for fact, (name, expected) in zip(text.facts(), content.items(), strict=True):
        assert fact["name"].endswith(name)
        assert fact["bytes"] == len(expected)
        assert fact["sha256"] == hashlib.sha256(expected).hexdigest()


def test_bytes_on_disk_are_counted(read, tmp_path):
    _, text = read({"a.txt": gzip.compress(b"word\n" * 9999), "b.txt": b"x"})
    assert text.num_bytes_read == text.num_bytes == (tmp_path / "a.txt").stat().st_size + 1


@pytest.mark.parametrize("sentences", ["lines", "split"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n \n", r"a\.txt has no text; expected one sentence per line: name another file"),
        (b"One.\nTwo\0", r"a\.txt, line 2: there is a NUL byte; .*binary file"),
        (b"One.\n\xff", r"a\.txt, line 2: byte 0xff at column 1 is not UTF-8"),
        (gzip.compress(b"One.\n" * 99)[:-9], r"a\.txt: the gzip data is truncated or damaged"),
    ],
    ids=["blank", "binary", "not utf-8", "truncated gzip"],  # gzip stores the time, so its bytes cannot be test ids
)
def test_invalid_text_is_rejected_with_file_and_line(read, content, message, sentences):
    with pytest.raises(InputError, match=message):
        read({"a.txt": content}, sentences=sentences)


@pytest.mark.parametrize("line", [b'{"text": "One."', b'{"body": "One."}'], ids=["not JSON", "no text"])
def test_invalid_json_records_are_rejected_with_file_and_line(read, line):
    with pytest.raises(InputError, match=r"a\.jsonl, line 2"):
        read({"a.jsonl": b'{"text": "One."}\n' + line + b"\n"})


def test_unknown_sentences_mode_is_rejected():
    with pytest.raises(InputError, match="sentences is 'words'; expected one of lines, split"):
        FileText([], sentences="words")


def test_documents_in_memory_are_passages():
    text = DocumentText(iter([["One. ", "", "a\nb"], [], ["Two."]]), name="mine")
    assert list(text.passages()) == ["One.", "a b", "", "", "Two.", ""]
    content = b"One.\na b\n\n\nTwo.\n\n"
    assert text.facts() == [{"name": "mine", "bytes": 17, "sha256": hashlib.sha256(content).hexdigest()}]
    assert text.num_bytes_read == 17
    with pytest.raises(InputError, match=r"the sentence 'bad \\ud800' has half a surrogate pair"):
        list(DocumentText([["bad \ud800"]]).passages())
