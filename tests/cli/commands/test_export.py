"""`bert-keras export` with a trimmed vocabulary."""

import json

import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from tests.cli.conftest import tiny_encoder


@pytest.fixture
def folder(tokenizer, tmp_path):
    """Folder of a classifier, with labelled examples and texts."""
    model = bk.BertClassifier(tiny_encoder(tokenizer, num_layers=1), 2, labels=("cat", "dog"))
    bk.save(model, tokenizer, tmp_path / "model")
    (tmp_path / "dev.csv").write_text("text,label\nthe cat,cat\nevery dog,dog\nthe dog,dog\n", encoding="utf-8")
    (tmp_path / "texts.txt").write_text("the cat\nthe dog ran\n", encoding="utf-8")
    return tmp_path


def export(folder, *options):
    words = ["export", str(folder / "model"), str(folder / "out"), "--to", "tflite", "--quantize", "float32"]
    return main([*words, *options])


def test_export_prints_what_was_trimmed_and_verify_accepts_the_file(folder, tokenizer, capsys):
    options = ["--trim-vocabulary", str(folder / "texts.txt"), "--eval", str(folder / "dev.csv")]
    assert export(folder, *options) == 0
    printed = capsys.readouterr()
    kept = (folder / "out/tflite/vocab.txt").read_text("utf-8").split()
    assert kept == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "a", "dog", "ran", ".", ",", "##s"]
    line = f"vocabulary: 13 of {tokenizer.vocabulary_size} tokens kept for 2 texts, "
    assert line in printed.out
    assert "of the parameters removed; 1 of 3 labelled examples have other tokens\n" in printed.out
    assert main(["verify", str(folder / "out"), str(folder / "model"), "--json"]) == 0
    [report] = json.loads(capsys.readouterr().out)["artifacts"].values()
    assert report["passed"]


@pytest.mark.parametrize(("content", "message"), [("", "has no text"), ("\u200b", "have no tokens; expected texts")])
def test_texts_without_tokens_are_reported_before_anything_is_written(content, message, folder, capsys):
    (folder / "texts.txt").write_text(content, encoding="utf-8")
    assert export(folder, "--trim-vocabulary", str(folder / "texts.txt")) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "out").exists()
