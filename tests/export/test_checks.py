"""Parity checks run in processes of their own while the next artifact is written."""

import time

import numpy as np
import pytest

from bert_keras.errors import MissingExtraError, ParityError
from bert_keras.export.export_job import Stages
from bert_keras.export.runtimes import exchange, fresh_process
from bert_keras.export.runtimes.fresh_process import FreshProcess, query_artifact

REQUEST = ("sum", {"x": np.arange(3)})
PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from exchange import serve
serve(lambda: (lambda signature, inputs: {{"y": inputs["x"] + 1}}, {{"sum": {{}}}}), sys.argv[2])
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Returns `program(source)`, which makes a program the runtime of ONNX files."""

    def use(source: str) -> None:
        folder = tmp_path / "runtimes"
        folder.mkdir()
        (folder / "run.py").write_text(source)
        monkeypatch.setattr(exchange, "__file__", str(folder / "exchange.py"))
        monkeypatch.setitem(fresh_process._RUNTIMES, "onnx", ("run.py", "numpy_of_another_world", "onnx"))

    use.real = exchange.__file__.rpartition("/")[0]
    return use


def test_answers_are_those_of_the_requests_and_the_timed_ones_are_timed(program, tmp_path):
    program(PROGRAM.format(folder=program.real))
    with FreshProcess("onnx", tmp_path, [REQUEST, REQUEST], [REQUEST] * 3) as process:
        answers = process.answers()
    assert [outputs["y"].tolist() for outputs in answers.outputs] == [[1, 2, 3]] * 2
    assert len(answers.seconds) == 3
    assert answers.signatures == {"sum": {}}
    assert [outputs["y"].tolist() for outputs in query_artifact("onnx", tmp_path, [REQUEST]).outputs] == [[1, 2, 3]]


def test_timed_requests_wait_until_the_answers_are_asked_for(program, tmp_path):
    marked = PROGRAM.replace('inputs["x"] + 1}}', 'inputs["x"] + (open({mark!r}, "a").write("1") and 1)}}')
    program(marked.format(folder=program.real, mark=str(tmp_path / "answered")))
    with FreshProcess("onnx", tmp_path, [REQUEST], [REQUEST] * 3) as process:
        wait_for(tmp_path / "answered")
        with pytest.raises(Exception, match="timed out"):
            process._process.wait(0.5)
        assert (tmp_path / "answered").read_text() == "1"
        process.answers()
    assert (tmp_path / "answered").read_text() == "1111"


def wait_for(path):
    for _ in range(600):
        if path.exists() and path.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} was not written in 30 s")


def test_a_process_that_nobody_waits_for_is_ended_and_leaves_no_file(program, tmp_path):
    program("import time\ntime.sleep(600)")
    process = FreshProcess("onnx", tmp_path, [REQUEST])
    assert process._process.poll() is None
    process.close()
    assert process._process.returncode == -9
    assert not process._folder.exists()


def test_a_process_whose_asker_is_gone_ends_by_itself(program, tmp_path):
    program(PROGRAM.format(folder=program.real))
    process = FreshProcess("onnx", tmp_path, [REQUEST], [REQUEST])
    process._process.stdin.close()
    assert process._process.wait(60) == 0
    assert not (process._folder / "answers.npz").exists()
    process._process.stdin = None
    process.close()


def test_a_failure_is_told_by_the_last_line_and_a_missing_runtime_by_its_extra(program, tmp_path):
    program("import sys\nprint('noise', file=sys.stderr)\nimport numpy_of_another_world")
    with pytest.raises(MissingExtraError, match=r"numpy_of_another_world.*bert-keras\[onnx\]"):
        query_artifact("onnx", tmp_path / "model", [REQUEST])
    (tmp_path / "runtimes/run.py").write_text("print('x' * 1_000_000, file=__import__('sys').stderr)\n1 / 0")
    with pytest.raises(ParityError, match="model does not run in a fresh process: ZeroDivisionError: d"):
        query_artifact("onnx", tmp_path / "model", [REQUEST])


class Noted:
    """A check that notes what is done to it."""

    def __init__(self, notes, name, passed=True):
        self.notes, self.name, self.passed = notes, name, passed
        notes.append(f"{name} started")

    def report(self):
        self.notes.append(f"{self.name} judged")
        return {"passed": self.passed}

    def close(self):
        self.notes.append(f"{self.name} closed")


def checks_of(notes) -> Checks:
    def passed(name, verdict):
        if not verdict["passed"]:
            raise ParityError(f"{name} differs")

    return Checks(Stages(lambda *stage: notes.append(stage), 5), passed)


def test_one_check_runs_while_the_next_artifact_is_written():
    notes: list = []
    checks = checks_of(notes)
    checks.begin("a", lambda: Noted(notes, "a"))
    notes.append("b is written")
    checks.begin("b", lambda: Noted(notes, "b"), lambda verdict: {**verdict, "more": 1})
    checks.finish()
    checks.finish()
    checks.close()
    judged = [(0, 5, "comparing a"), "a judged", "b started", (1, 5, "comparing b"), "b judged"]
    assert notes == ["a started", "b is written", *judged]
    assert checks.verdicts == {"a": {"passed": True}, "b": {"passed": True, "more": 1}}


def test_a_bad_verdict_stops_the_export_and_no_check_is_left_running():
    notes: list = []
    checks = checks_of(notes)
    checks.begin("a", lambda: Noted(notes, "a", passed=False))
    with pytest.raises(ParityError, match="a differs"):
        checks.begin("b", lambda: Noted(notes, "b"))
    checks.close()
    assert "b started" not in notes
    checks.begin("c", lambda: Noted(notes, "c"))
    checks.close()
    assert notes[-1] == "c closed"
