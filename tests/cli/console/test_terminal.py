"""Text from users is escaped, shortened and encoded before it reaches terminals and logs."""

import ast
import errno
import io
import json
import logging
import pathlib
import re
import sys
import warnings

import pytest

from bert_keras.cli.console import report, terminal
from bert_keras.cli.console.terminal import escaped_warnings, printable_json
from bert_keras.cli.main import COMMANDS, main
from bert_keras.training.tracking.tracked_training import FitProgress

CLI = pathlib.Path(terminal.__file__).parents[1]
DISPLAY = CLI.parent / "display"
HOSTILE = "a\x1b[2Jb\nc\rd\x9b31me\u202ef\x7f\u2028"
RAW = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", None])
@pytest.mark.parametrize("text", [HOSTILE, "caf\u00e9 \U0001f600", "caf\udce9"])
def test_escaped_json_has_the_same_value(text, encoding):
    value = {text: [text, 1.5, None]}
    escaped = printable_json(json.dumps(value, ensure_ascii=False), encoding)
    assert json.loads(escaped) == value
    assert not RAW.search(escaped)
    escaped.encode(encoding or "utf-8")


def test_json_keeps_its_line_breaks():
    assert printable_json('{\n  "a": "\u00e9"\n}', "utf-8") == '{\n  "a": "\u00e9"\n}'


def test_commands_print_only_through_the_modules_for_printing():
    """Only `main` may call `print`, and only before the first import."""
    raw = {}
    for path in [*CLI.rglob("*.py"), *DISPLAY.rglob("*.py")]:
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = [ast.unparse(call.func) for call in calls]
        raw[path.stem] = [
            name for name in names if name in ("print", "sys.stderr.write", "sys.stdout.write", "warnings.warn")
        ]
    assert {name: found for name, found in raw.items() if found} == {"main": ["print"], "printing": ["print"]}


def test_settings_results_tables_and_progress_are_escaped(capsys):
    report.print_settings(HOSTILE, {HOSTILE: HOSTILE, "long": "x" * 70_000})
    report.print_table([HOSTILE], [[1.5]])
    with report.ProgressBar(HOSTILE, HOSTILE) as bar:
        bar.print(HOSTILE)
        bar.print("x" * 70_000)
        bar.update(1, 2, note=HOSTILE)
    with FitProgress(2) as bar:
        bar.on_epoch_end(0, {f"val_{HOSTILE}": 1.0})
    report.print_result(HOSTILE, {}, as_json=False)
    report.print_result([HOSTILE, report.format_table([[HOSTILE, "x"]])], {}, as_json=False)
    printed = capsys.readouterr()
    assert not RAW.search(printed.err + printed.out)
    assert len(printed.err.splitlines()) == 3 + 2 + 3 + 1
    assert len(printed.out.splitlines()) == 3
    assert max(map(len, printed.err.splitlines())) < 3100


def test_warnings_and_log_messages_are_escaped(capsys):
    record = logging.LogRecord("bert_keras", logging.WARNING, "", 1, "%s", (HOSTILE + "x" * 70_000,), None)
    before = logging.lastResort, warnings.formatwarning
    with escaped_warnings():
        # called directly, because pytest installs handlers that replace the last resort
        logging.lastResort.handle(record)
        escaped = warnings.formatwarning(HOSTILE, UserWarning, "a.py", 1, "")
    assert (logging.lastResort, warnings.formatwarning) == before
    [line] = capsys.readouterr().err.splitlines()
    assert not RAW.search(line + escaped)
    assert len(line) < 3100
    assert escaped.count("\n") == 1


# a command line per command, each with a hostile name
LINES = {
    "demo": [],
    "learn-vocab": ["out", "--text", HOSTILE],
    "make-records": [HOSTILE, "out"],
    "pretrain": [HOSTILE, "out"],
    "finetune": [HOSTILE, "out", "--train", HOSTILE, "--dev", HOSTILE],
    "distill": [HOSTILE, "out", "--layers", "1", "--train", HOSTILE],
    "evaluate": [HOSTILE, HOSTILE],
    "predict": [HOSTILE],
    "fill-mask": [HOSTILE, "[MASK]"],
    "export": [HOSTILE, "out"],
    "verify": [HOSTILE, HOSTILE],
    "serve": [HOSTILE],
    "convert": [HOSTILE, "out"],
    "plan": [HOSTILE],
    "doctor": [HOSTILE],
    "push": [HOSTILE, "me/model"],
    "inspect": [HOSTILE, "text", "--out", "out"],
}


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "completion"])  # it takes no name
@pytest.mark.parametrize("hostile", [HOSTILE, "x" * 70_000, "caf\udce9"])
def test_every_command_rejects_a_hostile_name_in_one_line(command, hostile, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if command == "demo":
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / (hostile[:200])).touch()
        arguments = ["demo", "full"]
    else:
        arguments = [command, *(hostile if word == HOSTILE else word for word in LINES[command])]
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    [line] = printed.err.splitlines()
    assert not RAW.search(line)
    assert len(line) <= 3100


@pytest.mark.parametrize(
    "arguments",
    [
        [HOSTILE],
        ["plan", "tiny", f"--{HOSTILE}"],
        ["plan", "tiny", "--length", HOSTILE],
        ["plan", "x" * 70_000, "y" * 70_000],
    ],
)
def test_error_for_a_hostile_argument_is_one_line(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert not RAW.search(line)
    assert len(line) <= 3100


def test_successful_command_escapes_names_in_its_output(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    hostile = HOSTILE + "caf\udce9"
    pathlib.Path(hostile).write_text("the cat sat on a mat\n" * 3)
    arguments = ["learn-vocab", "out" + hostile, "--text", hostile, "--size", "60"]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert not RAW.search(printed.err + printed.out)
    assert len(printed.out.splitlines()) == 1
    assert main([*arguments, "--overwrite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["out"] == "out" + hostile


def test_failing_progress_output_does_not_stop_the_command(tmp_path, monkeypatch, capfd):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    pathlib.Path("text.txt").write_text("the cat sat on a mat\n" * 3)
    monkeypatch.setattr(sys, "stderr", Full())
    assert main(["learn-vocab", "out", "--text", "text.txt", "--size", "60"]) == 0
    with report.ProgressBar("working", None) as bar:
        bar.print("something")


def test_vocabulary_can_be_learned_from_one_letter_words(tmp_path, monkeypatch, capsys):
    """There is nothing to merge, so the total of the progress bar is 0, which must not fail."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("text.txt").write_text("a b c\n")
    assert main(["learn-vocab", "out", "--text", "text.txt", "--size", "60"]) == 0
    assert pathlib.Path("out").read_text().split() == [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"abc",
        "##a",
        "##b",
        "##c",
    ]


@pytest.mark.parametrize("arguments", [["predict", "x", "caf\udce9 au lait"], ["fill-mask", "x", "caf\udce9 [MASK]"]])
def test_text_that_is_not_utf_8_is_rejected(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert re.search(r"the text 'caf\\udce9 .*' is not UTF-8; expected UTF-8", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("plan tiny --length 1000000000001", "'1000000000001' is not an integer from 1 to 1,000,000,000,000"),
        ("plan tiny --memory 1e300", "'1e300' is not a number above 0 to 1e+30"),
        ("learn-vocab out --unused " + "9" * 5000, "is not an integer >= 0"),
        ("export in out --tolerance nan", "'nan' is not a number from 0"),
    ],
)
def test_numbers_out_of_range_are_rejected(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments.split())
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
