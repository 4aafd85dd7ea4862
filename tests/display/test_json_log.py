"""Standard error in the JSON format: every line is an object, whoever writes it."""

import io
import json
import os
import subprocess
import sys
import warnings

import pytest

from bert_keras.cli import console
from bert_keras.cli.console import escaped_warnings, print_line
from bert_keras.cli.main import main
from bert_keras.display.printing import VARIABLE, find_log_format, format_event, is_json, log_in_format
from bert_keras.errors import InputError
from bert_keras.training.tracking.tracked_training import FitProgress


def read_events(text: str) -> list[dict]:
    """Parse every line of standard error."""
    events = [json.loads(line) for line in text.splitlines()]
    for event in events:
        assert list(event)[:4] == ["time", "level", "event", "message"]
        assert event["time"].endswith("+00:00")
    return events


@pytest.mark.parametrize(
    ("words", "variable", "expected"),
    [
        (["plan"], None, "text"),
        (["plan", "--log-format", "json"], None, "json"),
        (["plan", "--log-format=json"], None, "json"),
        (["--log-format", "json", "plan"], None, "json"),
        (["plan"], "json", "json"),
        (["plan", "--log-format", "text"], "json", "text"),
        (["plan", "--log-format", "json", "--log-format", "text"], None, "text"),
        (["inspect", "--", "--log-format", "json"], None, "text"),
        (["plan", "--log-format"], None, "text"),
        (["plan", "--log-format", "xml"], "json", "text"),
    ],
)
def test_the_option_wins_over_the_environment(words, variable, expected, monkeypatch):
    monkeypatch.setenv(VARIABLE, variable or "")
    assert find_log_format(words) == expected


def test_an_unknown_format_in_the_environment_is_rejected(monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, "xml")
    with pytest.raises(InputError, match="BERT_KERAS_LOG_FORMAT is 'xml'; expected text or json"):
        find_log_format(["plan"])
    assert main(["plan", "tiny"]) == 2
    assert capsys.readouterr().err.startswith("bert-keras: BERT_KERAS_LOG_FORMAT is 'xml'")


def test_settings_tables_warnings_and_progress_are_events_with_numbers(capsys):
    with log_in_format("json"):
        console.print_settings("finetune", {"batch size": 32, "out": "out"})
        console.print_warnings(["few examples"])
        console.print_table(["epoch", "accuracy"], [[1, 0.5]])
        with console.ProgressBar("training", "steps") as bar:
            bar.update(1, 2)
            bar.update(2, 2, "loss 0.500", {"loss": 0.5, "other": float("nan")})
            bar.print("held out", event="scores", scores={"accuracy": 0.25})
    settings, warning, table, _, progress, scores = read_events(capsys.readouterr().err)
    assert settings["settings"] == {"batch size": 32, "out": "out"}
    assert (warning["level"], warning["message"]) == ("warning", "warning: few examples")
    assert table["values"] == {"epoch": 1, "accuracy": 0.5}
    assert (progress["event"], progress["done"], progress["total"], progress["unit"]) == ("progress", 2, 2, "steps")
    assert progress["rate"] > 0
    assert progress["metrics"] == {"loss": 0.5, "other": None}
    assert (scores["event"], scores["scores"]) == ("scores", {"accuracy": 0.25})


def test_the_bar_of_a_training_reports_its_metrics_as_numbers(capsys):
    with log_in_format("json"), FitProgress(2) as progress:
        for batch in range(2):
            progress.on_train_batch_end(batch, {"loss": 0.5, "mlm_logits_accuracy": 0.25, "tokens": 100 * (batch + 1)})
        progress.on_epoch_end(0, {"val_accuracy": 0.75})
    _, last, scores = read_events(capsys.readouterr().err)
    assert last["metrics"].keys() == {"tokens/s", "loss", "mlm_accuracy"}
    assert last["metrics"]["mlm_accuracy"] == 0.25
    assert (scores["step"], scores["scores"]) == (2, {"accuracy": 0.75})


def test_output_of_libraries_becomes_events(capsys):
    with log_in_format("json"), escaped_warnings():
        print("from a library", file=sys.stderr)
        print("two\nlines", file=sys.stderr)
        print("", file=sys.stderr)
        print_line("")
        # as Python does, because pytest records warnings instead of printing them
        sys.stderr.write(warnings.formatwarning("be careful\x1b[2J", UserWarning, "a.py", 1, ""))
        sys.stderr.write("no line break")
    first, second, warning, last = read_events(capsys.readouterr().err)
    assert (first["event"], first["message"], second["message"]) == ("output", "from a library", "two\nlines")
    assert (warning["event"], warning["level"], warning["category"]) == ("warning", "warning", "UserWarning")
    assert warning["message"] == r"be careful\x1b[2J"
    assert last["message"] == "no line break"


def test_child_processes_use_json_too_and_their_events_are_passed_on(capfd):
    code = "from bert_keras.cli.main import main; main(['plan', 'nothing'])"
    with log_in_format("json"):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        print_line(done.stderr.strip())
        print(done.stderr, file=sys.stderr)
    first, second = read_events(capfd.readouterr().err)
    assert first == second
    assert (first["event"], first["command"], first["exit_status"]) == ("error", "plan", 2)


def test_text_around_an_event_is_kept(capsys):
    event = format_event("scores", "done")
    with log_in_format("json"):
        sys.stderr.write(f"Downloading ...\n10%\r\n\n{event}\n{event}\n\n{event}\nlast line\n")
        sys.stderr.write(f"\n{event}\n")
    printed = capsys.readouterr().err
    events = [(one["event"], one["message"]) for one in read_events(printed)]
    scores = ("scores", "done")
    assert events == [("output", "Downloading ...\n10%"), scores, scores, scores, ("output", "last line"), scores]
    assert printed.splitlines().count(event) == 4


def test_the_stream_and_the_environment_are_restored(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(sys, "stderr", before := io.StringIO())
    with log_in_format("json"), log_in_format("text"):
        assert is_json(), "a command inside a command changed the format"
    assert sys.stderr is before
    assert VARIABLE not in os.environ


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["--log-format=json"], "COMMAND"),
        (["export", "a", "--log-format", "json"], "the following arguments are required: OUT"),
        (["plan", "tiny", "--nonsense", "--log-format", "json"], "unrecognized arguments: --nonsense"),
    ],
)
def test_errors_of_the_parser_are_events(command, message, capsys):
    with pytest.raises(SystemExit):
        main(command)
    [event] = read_events(capsys.readouterr().err)
    assert (event["level"], event["event"], event["exit_status"]) == ("error", "error", 2)
    assert message in event["message"]


def test_errors_of_commands_are_events_and_standard_output_stays_the_same(tmp_path, capsys):
    assert main(["plan", str(tmp_path / "nothing"), "--log-format", "json"]) == 2
    [event] = read_events(capsys.readouterr().err)
    assert (event["command"], event["exit_status"]) == ("plan", 2)
    outputs = []
    for log_format in ("text", "json"):
        assert main(["plan", "tiny", "--quick", "--log-format", log_format]) == 0
        outputs.append(capsys.readouterr())
    assert outputs[0].out == outputs[1].out
    assert read_events(outputs[1].err)[0]["settings"]["model"] == "tiny"


def test_an_unexpected_error_is_one_event_with_its_traceback(monkeypatch, capsys):
    def fail(_):
        raise RuntimeError("unexpected")

    monkeypatch.setattr("bert_keras.cli.commands.plan.run", fail)
    assert main(["plan", "tiny", "--log-format", "json"]) == 1
    [event] = read_events(capsys.readouterr().err)
    assert event["message"] == "bert-keras plan: RuntimeError: unexpected"
    assert event["traceback"].startswith("Traceback")


@pytest.mark.parametrize("function", ["running.make_parser", "commands.plan.run"])
def test_an_interrupt_is_an_event(function, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"bert_keras.cli.{function}", interrupt)
    assert main(["plan", "tiny", "--log-format", "json"]) == 130
    [event] = read_events(capsys.readouterr().err)
    assert "interrupted" in event["message"]
    assert event["exit_status"] == 130
