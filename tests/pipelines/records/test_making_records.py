"""`make_records` accepts text and vocabularies by path and writes what the command and `write_records` write."""

import json

import pytest

import bert_keras as bk
from bert_keras.pipelines.corpus.text_sources import find_sources
from bert_keras.pipelines.records.documents import FileText
from bert_keras.pipelines.records.making_records import write_records
from bert_keras.pipelines.records.manifest import read_manifest

SENTENCES = "play a b .\nunable un\n\nplaying c d\na b c\n\nd , unable\n"
SETTINGS = {"max_sequence_length": 24, "held_out_rate": 0.3, "packed": True, "seed": 3}


@pytest.fixture
def vocabulary(tiny_tokenizer, tmp_path):
    """Path of a vocabulary file."""
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in tiny_tokenizer.vocabulary))
    return path


@pytest.fixture
def text(tmp_path):
    """Path of a text file."""
    path = tmp_path / "text.txt"
    path.write_text(SENTENCES)
    return path


def read_content(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.tfrecord")}


def test_paths_and_objects_give_the_same_records(vocabulary, text, tiny_tokenizer, tmp_path):
    manifest = bk.make_records(vocabulary, tmp_path / "by path", text, **SETTINGS)
    bk.make_records(tiny_tokenizer, tmp_path / "by object", str(text), **SETTINGS)
    write_records(tmp_path / "written", FileText(find_sources(text)), tiny_tokenizer, **SETTINGS)
    assert manifest == read_manifest(tmp_path / "by path", tokenizer=tiny_tokenizer)
    assert manifest["num_documents"] == 3
    assert (
        read_content(tmp_path / "by path") == read_content(tmp_path / "by object") == read_content(tmp_path / "written")
    )


def test_documents_in_memory_and_in_a_file_give_the_same_records(vocabulary, text, tmp_path):
    documents = [document.splitlines() for document in SENTENCES.split("\n\n")]
    manifest = bk.make_records(vocabulary, tmp_path / "memory", documents=documents, **SETTINGS)
    bk.make_records(vocabulary, tmp_path / "file", text, **SETTINGS)
    assert manifest["sources"][0]["name"] == "documents"
    assert read_content(tmp_path / "memory") == read_content(tmp_path / "file")


def test_running_text_and_json_records_are_read(vocabulary, tmp_path):
    path = tmp_path / "text.jsonl"
    path.write_text("".join(json.dumps({"body": text}) + "\n" for text in ("play a. unable b.", "c d. a.")))
    manifest = bk.make_records(vocabulary, tmp_path / "out", path, field="body", sentences="split", **SETTINGS)
    assert (manifest["num_documents"], manifest["sentences"]) == (2, "split")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"documents": [["a"]]}, "text and documents are given together; expected one of them"),
        ({"text": None, "sentences": "split"}, "sentences is 'split', but no text was passed; expected 'lines'"),
        ({"text": None, "documents": [["a"]], "sentences": "split"}, "sentences is 'split', but no text was passed"),
        ({"tokenizer": "no.txt"}, "no.txt does not exist"),
        ({"text": "no.txt"}, "no.txt"),
        ({"max_sequence_length": 4, "seed": -1}, "max_sequence_length is 4; .*; seed is -1; expected"),
        ({"num_workers": 0}, "num_workers is 0; expected"),
    ],
)
def test_invalid_arguments_are_rejected_and_write_nothing(changes, message, vocabulary, text, tmp_path):
    arguments = {"tokenizer": vocabulary, "out": tmp_path / "out", "text": text, **SETTINGS, **changes}
    with pytest.raises(bk.InputError, match=message):
        bk.make_records(**arguments)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["text", "tokenizer"])
def test_input_inside_the_output_folder_is_rejected(name, vocabulary, text, tmp_path):
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "file.txt"
    path.write_bytes({"text": text, "tokenizer": vocabulary}[name].read_bytes())
    arguments = {"tokenizer": vocabulary, "text": text, name: path}
    with pytest.raises(bk.InputError, match="is an input of this run and would be replaced"):
        bk.make_records(**arguments, out=tmp_path / "out", overwrite=True, **SETTINGS)
    assert path.exists()
