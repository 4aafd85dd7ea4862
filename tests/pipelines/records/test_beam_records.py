"""Beam writes the same bytes as `write_records`, resumes after a stop, and reports invalid input in the same way."""

import importlib.util
import sys

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_sources import find_sources
from bert_keras.pipelines.records.beam_records import split_beam_options
from bert_keras.pipelines.records.documents import DocumentText, FileText
from bert_keras.pipelines.records.making_records import write_records
from tests.marks import slow

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("apache_beam") is None, reason="needs apache-beam"),
    pytest.mark.filterwarnings("ignore:apitools not found"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:apache_beam"),
]
SETTINGS = {"max_sequence_length": 29, "seed": 5, "block_bytes": 1000, "held_out_rate": 0.2, "packed": True}
OPTIONS = ["--runner=DirectRunner"]


def read_content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def text(make_text, tmp_path):
    """Function that opens a text file of four blocks."""
    documents = ["\n".join(document) for document in make_text(40)]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    return lambda: FileText(find_sources(tmp_path / "text.txt"))


@pytest.mark.parametrize("objective", ["nsp", *slow("none")])
def test_beam_writes_the_bytes_of_write_records(text, tiny_tokenizer, tmp_path, objective, read_records):
    settings = {**SETTINGS, "sentence_objective": objective}
    local = write_records(tmp_path / "local", text(), tiny_tokenizer, **settings)
    beam = write_records(tmp_path / "beam", text(), tiny_tokenizer, beam_options=OPTIONS, **settings)
    assert beam == local
    assert read_content(tmp_path / "beam") == read_content(tmp_path / "local")
    records = [sorted(map(str, read_records(tmp_path / name))) for name in ("beam", "local")]
    assert records[0] == records[1]
    assert not (tmp_path / ".beam.partial").exists()


def test_beam_resumes_with_the_finished_blocks(text, tiny_tokenizer, tmp_path):
    class StoppedError(Exception):
        pass

    calls = []

    def stop(*call):
        calls.append(call)
        if len(calls) == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        write_records(tmp_path / "out", text(), tiny_tokenizer, **SETTINGS, progress=stop)
    shard = tmp_path / ".out.partial/train-00000.tfrecord"
    inode = shard.stat().st_ino
    write_records(tmp_path / "out", text(), tiny_tokenizer, beam_options=OPTIONS, **SETTINGS)
    assert (tmp_path / "out/train-00000.tfrecord").stat().st_ino == inode
    write_records(tmp_path / "local", text(), tiny_tokenizer, **SETTINGS)
    assert read_content(tmp_path / "out") == read_content(tmp_path / "local")


def test_invalid_input_gives_the_error_of_write_records(tiny_tokenizer, tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"a b\n\nc \xff")
    bad = FileText(find_sources(tmp_path / "bad.txt"))
    with pytest.raises(InputError, match=r"bad\.txt, line 3: byte 0xff at column 3 is not UTF-8"):
        write_records(tmp_path / "out", bad, tiny_tokenizer, beam_options=OPTIONS, **SETTINGS)
    with pytest.raises(InputError, match=r"the text has 1 document\(s\).*blank line"):
        write_records(tmp_path / "out", DocumentText([["a", "b"]]), tiny_tokenizer, beam_options=[], **SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.txt"]
    with pytest.raises(InputError, match="workers cannot read standard input"):
        write_records(tmp_path / "out", FileText(find_sources("-")), tiny_tokenizer, beam_options=[], **SETTINGS)


def test_missing_beam_is_reported_with_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(InputError, match=r"pip install 'bert-keras\[beam\]'"):
        split_beam_options("--runner=DirectRunner")


def test_options_are_split_like_in_a_shell():
    assert split_beam_options("--runner=X --name='a b'") == ["--runner=X", "--name=a b"]
    with pytest.raises(InputError, match=r"cannot be split .*close the quote"):
        split_beam_options("--name='a")
