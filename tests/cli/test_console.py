"""What commands print: text from users is escaped, shortened and encoded; tables of parity reports; peak memory."""

import ast
import errno
import io
import json
import logging
import pathlib
import re
import subprocess
import sys
import warnings

import pytest

from bert_keras.checks import format_count
from bert_keras.cli import console
from bert_keras.cli.console import (
    escaped_warnings,
    format_notes,
    format_parity_table,
    get_peak_memory,
    printable_json,
)
from bert_keras.cli.main import COMMANDS, main
from bert_keras.training.tracking.tracked_training import FitProgress

CLI = pathlib.Path(console.__file__).parents[0]
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
    console.print_settings(HOSTILE, {HOSTILE: HOSTILE, "long": "x" * 70_000})
    console.print_table([HOSTILE], [[1.5]])
    with console.ProgressBar(HOSTILE, HOSTILE) as bar:
        bar.print(HOSTILE)
        bar.print("x" * 70_000)
        bar.update(1, 2, note=HOSTILE)
    with FitProgress(2) as bar:
        bar.on_epoch_end(0, {f"val_{HOSTILE}": 1.0})
    console.print_result(HOSTILE, {}, as_json=False)
    console.print_result([HOSTILE, console.format_table([[HOSTILE, "x"]])], {}, as_json=False)
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
    with console.ProgressBar("working", None) as bar:
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


EQUAL = {
    "passed": True,
    "measure": "max",
    "outputs": {"ids/logits": {"max": 1.5e-7, "mean_relative": 9.0}, "logits": {"max": 2.4e-6, "mean_relative": 0.0}},
    "labels": {"ids/logits": {"compared": 1000, "differ": 0}, "label": {"compared": 300, "differ": 0}},
    "num_inputs": 1300,
    "bytes": 90_400_000,
    "load_s": 0.52,
    "latency_ms": 12.34,
}
OTHER = {
    **EQUAL,
    "passed": False,
    "measure": "mean_relative",
    "outputs": {"logits": {"max": 3.0, "mean_relative": 0.25}},
    "labels": {},
}


def test_each_artifact_has_one_line_with_aligned_columns():
    header, first, second = format_parity_table({"saved_model/12": EQUAL, "tflite/m": OTHER}).split("\n")
    assert header.split() == "artifact parity inputs difference different labels size load time latency".split()
    assert first.split() == "saved_model/12 equal 1,300 2.4e-06 (max) 0 of 1,300 90.4 MB 0.5 s 12.3 ms".split()
    assert second.split() == ("tflite/m DIFFERS 1,300 2.5e-01 (mean, relative) no labels 90.4 MB 0.5 s 12.3 ms".split())
    assert len({line.index(end) + len(end) for line, end in ((header, "latency"), (first, "ms"), (second, "ms"))}) == 1


def test_scores_list_rejected_candidates_and_the_loss_with_mediapipe():
    tried = [
        {"quantization": "dynamic_int8", "bytes": 23_000_000, "score": 88.0, "drop": 3.25},
        {"quantization": "float16", "bytes": 45_000_000, "score": 91.5, "drop": -0.25, "passed": True},
        {"quantization": "static", "bytes": 23_000_000, "score": 91.0, "drop": 0.25, "passed": False},
    ]
    scores = {"score": "accuracy", "checkpoint": 91.25, "file": 91.5, "with_mediapipe_tokenizer": 90.0, "tried": tried}
    assert format_notes({"saved_model/1": EQUAL, "model.tflite": {**EQUAL, "scores": scores}}) == [
        "model.tflite: accuracy 91.50, checkpoint 91.25",
        "  tried dynamic_int8, 23.0 MB: 88.00, +3.25 points lost",
        "  tried float16, 45.0 MB: 91.50, -0.25 points lost",
        "  tried static, 23.0 MB: 91.00, +0.25 points lost, differs too much on random ids",
        "  warning: with MediaPipe's tokenizer, which splits text differently, the score is 90.00 (-1.50 points): "
        "fine-tune with MediaPipe's tokenization rules",
    ]


def test_equal_mediapipe_score_causes_no_warning():
    scores = {"score": "accuracy", "checkpoint": 91.25, "file": 91.25}
    assert len(format_notes({"a": {**EQUAL, "scores": scores}})) == 1
    assert len(format_notes({"a": {**EQUAL, "scores": {**scores, "with_mediapipe_tokenizer": 91.25}}})) == 1


def test_a_trimmed_vocabulary_has_one_line_for_all_artifacts():
    trimmed = {"num_tokens_before": 30522, "num_tokens_after": 6400, "num_texts": 1, "removed_parameters": 0.4081}
    line = "vocabulary: 6,400 of 30,522 tokens kept for 1 text, 40.8% of the parameters removed"
    reports = {name: {**EQUAL, "trimmed_vocabulary": trimmed} for name in ("a", "b")}
    assert format_notes(reports) == [line]
    trimmed |= {"num_examples": 3080, "num_changed_examples": 12}
    assert format_notes(reports) == [f"{line}; 12 of 3,080 labelled examples have other tokens"]
    assert format_notes({"a": EQUAL}) == []


def test_count_of_one_is_singular():
    assert [format_count(number, "document") for number in (0, 1, 2, 12_345)] == [
        "0 documents",
        "1 document",
        "2 documents",
        "12,345 documents",
    ]


def test_peak_memory_excludes_the_parent_process():
    code = "from bert_keras.cli.console import get_peak_memory; print(get_peak_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1_000_000 < int(done.stdout) < get_peak_memory() / 2  # only this process has imported TensorFlow


def test_peak_memory_comes_from_the_resource_module_without_proc(monkeypatch):
    resource = pytest.importorskip("resource", reason="Windows has no resource module")
    unit = 1 if sys.platform == "darwin" else 1024

    def fail(*_, **__):
        raise FileNotFoundError

    with monkeypatch.context() as patched:
        patched.setattr(pathlib.Path, "read_text", fail)
        peak = get_peak_memory()
    assert peak == resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
