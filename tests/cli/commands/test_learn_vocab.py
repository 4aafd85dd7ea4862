"""`learn-vocab`: supported kinds of text, reproducible output, and early errors."""

import gzip
import hashlib
import io
import json
import os
import re
import sys

import pytest

from bert_keras.cli.main import main, parser
from bert_keras.pipelines.corpus.word_counts import MAX_WORDS
from bert_keras.pipelines.text.learned_vocabulary import learn_vocabulary
from bert_keras.pipelines.text.vocabulary import encode_vocabulary, read_vocabulary

SENTENCES = ["the lower the better", "lowest and newest, wider and Wider", "caf\u00e9 new-newer"] * 5
PARTS = ["\n".join(SENTENCES[:7]), "\n".join(SENTENCES[7:])]
TEXT = "\n".join(PARTS) + "\n"


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """Folder with the same sentences as a text file, a gzip file, a JSON Lines file and a folder of text files."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "text.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "records.jsonl").write_text("".join(json.dumps({"body": part}) + "\n" for part in PARTS))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a.txt").write_text(PARTS[0], encoding="utf-8")
    (tmp_path / "folder/b.txt").write_text(PARTS[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def learn(*arguments):
    return main(["learn-vocab", *map(str, arguments)])


@pytest.mark.parametrize(
    "text", [["text.txt"], ["text.txt.gz"], ["records.jsonl", "--field", "body"], ["folder"], ["folder/*.txt"], ["-"]]
)
def test_vocabulary_equals_that_of_python_for_every_kind_of_text(text, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert learn("out.txt", "--size", 77, "--text", *text) == 0
    with open("out.txt", "rb") as file:
        assert file.read() == encode_vocabulary(learn_vocabulary(sentences=SENTENCES, size=77).tokens)


def test_every_option_affects_the_vocabulary():
    options = ["--cased", "--min-frequency", 6, "--special-token", "[E1]", "--special-token", "[E2]", "--unused", 4]
    assert learn("out.txt", "--size", 77, "--text", "text.txt", *options) == 0
    expected = learn_vocabulary(
        sentences=SENTENCES, size=77, lowercase=False, min_frequency=6, special_tokens=["[E1]", "[E2]"], num_unused=4
    ).tokens
    assert read_vocabulary("out.txt") == expected
    assert (
        expected
        != learn_vocabulary(
            sentences=SENTENCES, size=77, lowercase=False, special_tokens=["[E1]", "[E2]"], num_unused=4
        ).tokens
    )


@pytest.mark.slow
def test_number_of_workers_does_not_change_the_vocabulary(cli, workplace):
    for name, workers in (("one.txt", "1"), ("two.txt", "2")):
        done = cli("learn-vocab", name, "--size", "2000", "--workers", workers, "--max-words", "5000")
        assert done.returncode == 0, done.stderr
        assert "words were discarded (--max-words)" in done.stdout
        assert re.search(r"reading [\d,]+ kB  [\d,.]+ kB/s", done.stderr)
    assert (workplace / "one.txt").read_bytes() == (workplace / "two.txt").read_bytes()


def test_json_contains_counts_time_and_memory(capsys):
    assert learn("out.txt", "--size", 77, "--text", "text.txt", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["num_words"] == 75
    assert result["num_distinct_words"] == 12
    assert result["num_forgotten"] == 0
    assert 0 < result["seconds"] < 60
    assert result["peak_memory_bytes"] > 1e6
    vocabulary = read_vocabulary("out.txt")
    assert result["sha256"] == hashlib.sha256(encode_vocabulary(vocabulary)).hexdigest()
    assert result["size"] == len(vocabulary)


def test_settings_and_progress_are_printed(capsys):
    assert learn("out.txt", "--size", 77, "--text", "folder", "text.txt", "--unused", 20) == 0
    printed = capsys.readouterr()
    assert re.search(r"text +folder text\.txt \(3 files, 0\.0 MB\)\n", printed.err)
    assert re.search(r"first_tokens +\[PAD\] \[unused0\] \[unused1\] \.\.\. .*\[SEP\] \[MASK\] \(25\)\n", printed.err)
    assert re.search(r"max_words +1,000,000\n", printed.err)
    assert "learning 130/130 words" in printed.err
    assert re.fullmatch(
        r"wrote out\.txt and out\.tokenizer_config\.json: 77 of 77 tokens from 150 words, 12 of them distinct, with an "
        r"alphabet that covers 100\.0% of the text, in .* MB\n",
        printed.out,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text.txt"], r"text\.txt exists: name another file, or give --overwrite"),
        (["folder"], r"folder is a folder; expected the name of a file to write"),
        (["folder", "--overwrite"], r"folder is a folder"),
        (["text.txt/vocab.txt"], r"text\.txt/vocab\.txt cannot be written \(.*text\.txt: Not a directory\)"),
        (["/proc/vocab.txt"], r"/proc/vocab\.txt cannot be written \(/proc: "),
        (["out", "--text", "no.txt", "*.none"], r"no\.txt does not exist.*; the pattern '\*\.none' matches no file"),
        (
            ["out", "--text", "folder", "--unused", "80", "--size", "77"],
            r"a vocabulary of 77 tokens has no room after 85 special",
        ),
        (
            ["out", "--text", "text.txt", "--size", "20", "--alphabet", "30"],
            r"of 20 tokens has no room for the text's alphabet",
        ),
        (
            ["out", "--text", "records.jsonl"],
            r"records\.jsonl, line 1: there is no field 'text'; the fields are body",
        ),
        (
            ["folder/a.txt", "--text", "folder", "--overwrite"],
            r"folder/a\.txt is an input of this run and would be replaced",
        ),
        (["text.txt", "--special-token", "a b", "--text", "no"], r"text\.txt exists.*; .*'a b'.*; no does not exist"),
    ],
)
def test_bad_input_prints_one_sentence_and_keeps_existing_files(arguments, message, workplace, capsys):
    before = {path: path.read_bytes() for path in workplace.rglob("*") if path.is_file()}
    assert learn(*arguments) == 2
    assert re.search(rf"^bert-keras learn-vocab: .*{message}", capsys.readouterr().err.strip().split("\n")[-1])
    assert {path: path.read_bytes() for path in workplace.rglob("*") if path.is_file()} == before


def test_invalid_options_are_rejected_before_reading_text(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)  # reading it would raise an AttributeError
    assert learn("text.txt/vocab.txt", "--text", "-") == 2


def test_missing_folders_are_created_and_files_replaced_only_with_overwrite(workplace):
    assert learn("new/deep/vocab.txt", "--size", 77, "--text", "text.txt") == 0
    assert learn("new/deep/vocab.txt", "--size", 57, "--text", "text.txt", "--overwrite") == 0
    assert len(read_vocabulary("new/deep/vocab.txt")) == 57
    assert sorted(os.listdir("new/deep")) == ["vocab.tokenizer_config.json", "vocab.txt"]


@pytest.mark.parametrize(
    "text", [["folder/a.txt", "folder/b.txt"], ["folder"], ["folder/*"], ["records.jsonl", "--field", "body"]]
)
def test_make_records_accepts_the_same_kinds_of_text(text, capsys):
    assert learn("vocab.txt", "--size", 77, "--text", "text.txt", "--json") == 0
    capsys.readouterr()
    assert main(["make-records", "vocab.txt", "records", "--text", *text, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["num_documents"], result["num_sentences"]) == (2, 15)


def test_records_never_replace_their_input_text(workplace, capsys):
    (workplace / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    assert main(["make-records", "vocab.txt", "folder", "--text", "folder/a.txt", "--overwrite"]) == 2
    assert re.search(r"folder/a\.txt is an input of this run and would be replaced by folder", capsys.readouterr().err)
    assert (workplace / "folder/b.txt").exists()


def test_default_word_limit_equals_that_of_python():
    assert parser().parse_args(["learn-vocab", "out"]).max_words == MAX_WORDS
