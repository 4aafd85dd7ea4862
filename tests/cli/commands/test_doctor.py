"""`bert-keras doctor`: exit statuses, the printed report, and no TensorFlow in the process of the command."""

import json
import subprocess
import sys

import pytest

from bert_keras.cli.main import main
from tests.checkpoints.tiny_folders import write_classifier

VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n"


@pytest.fixture
def vocabulary(tmp_path):
    (tmp_path / "vocab.txt").write_text(VOCABULARY)
    return tmp_path / "vocab.txt"


def test_a_sound_file_has_status_0(vocabulary, capsys):
    assert main(["doctor", str(vocabulary)]) == 0
    title, item, blank, summary = capsys.readouterr().out.splitlines()
    assert title == f"Vocabulary {vocabulary}"
    assert item == "  ok     vocabulary  6 tokens, no duplicates, BERT's special tokens"
    assert (blank, summary) == ("", "0 faults, 0 notes")


def test_a_fault_has_status_1_and_its_line_is_marked(vocabulary, capsys):
    vocabulary.write_text(VOCABULARY + "cat\n")
    assert main(["doctor", str(vocabulary)]) == 1
    printed = capsys.readouterr()
    assert "\n  FAULT  vocabulary  " in printed.out
    assert printed.err == "bert-keras doctor: found 1 fault: see the lines marked FAULT\n"


def test_json_has_every_item(vocabulary, capsys):
    assert main(["doctor", str(vocabulary), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["num_faults"], result["num_notes"]) == (0, 0)
    [section] = result["sections"]
    assert section["items"][0].keys() == {"mark", "name", "text", "fix"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "nothing does not exist; expected a checkpoint, a records folder, "),
        (["."], ". is no folder or file that doctor can check; expected a checkpoint, a records folder, "),
        (["vocab.txt", "--no-self-test"], "--no-self-test is for the check without a PATH; leave one of them out"),
    ],
)
def test_bad_input_has_status_2(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err


@pytest.mark.parametrize("width", [80, 200])
def test_lines_fit_the_terminal_and_columns_are_aligned(width, tmp_path, monkeypatch, capsys):
    folder = write_classifier(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"damaged")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(folder)
    assert main(["doctor", "."]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    starts = [line.index(line.split()[1]) for line in lines if line.startswith(("  ok", "  note", "  FAULT"))]
    assert len(set(starts)) == 1
    assert len(starts) > 3


def test_the_command_loads_no_tensorflow(vocabulary):
    code = (
        "import sys; from bert_keras.cli.main import main; main(sys.argv[1:]); "
        "sys.exit(sorted({'tensorflow', 'keras', 'torch', 'jax'} & set(sys.modules)) or 0)"
    )
    folder = vocabulary.parent / "model"
    write_classifier(folder)
    for arguments in (["--no-self-test"], [str(folder)], [str(vocabulary)]):
        command = [sys.executable, "-c", code, "doctor", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=vocabulary.parent)
        assert done.returncode == 0, done.stderr
