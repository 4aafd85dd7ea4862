"""Parity checks run in separate processes while the next artifact is being written."""

import contextlib
import time

import numpy as np
import pytest

from bert_keras.errors import MissingExtraError, ParityError
from bert_keras.export.export_job import BackgroundChecks, Stages
from bert_keras.export.parity import artifact_program, fresh_process
from bert_keras.export.parity.fresh_process import FreshProcess, query_artifact

REQUEST = ("sum", {"x": np.arange(3)})
PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from artifact_program import serve
serve(lambda: (lambda signature, inputs: {{"y": inputs["x"] + 1}}, {{"sum": {{}}}}), sys.argv[3])
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Function that installs a program as the runtime of ONNX files."""

    def use(source: str) -> None:
        folder = tmp_path / "runtimes"
        folder.mkdir()
        (folder / "run.py").write_text(source)
        monkeypatch.setattr(artifact_program, "__file__", str(folder / "run.py"))
        monkeypatch.setitem(fresh_process._RUNTIMES, "onnx", ("missing_numpy", "onnx"))

    use.real = artifact_program.__file__.rpartition("/")[0]
    return use


def test_requests_are_answered_in_order_and_timed_requests_return_only_seconds(program, tmp_path):
    program(PROGRAM.format(folder=program.real))
    with contextlib.closing(FreshProcess("onnx", tmp_path, [REQUEST, REQUEST], [REQUEST] * 3)) as process:
        answers = process.answers()
    assert [outputs["y"].tolist() for outputs in answers.outputs] == [[1, 2, 3]] * 2
    assert len(answers.seconds) == 3
    assert answers.signatures == {"sum": {}}
    assert [outputs["y"].tolist() for outputs in query_artifact("onnx", tmp_path, [REQUEST]).outputs] == [[1, 2, 3]]


def test_timed_requests_wait_until_the_parent_process_is_idle(program, tmp_path):
    marked = PROGRAM.replace('inputs["x"] + 1}}', 'inputs["x"] + (open({mark!r}, "a").write("1") and 1)}}')
    program(marked.format(folder=program.real, mark=str(tmp_path / "answered")))
    with contextlib.closing(FreshProcess("onnx", tmp_path, [REQUEST], [REQUEST] * 3)) as process:
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


def test_close_ends_the_process_and_deletes_its_files(program, tmp_path):
    program("import time\ntime.sleep(600)")
    process = FreshProcess("onnx", tmp_path, [REQUEST])
    assert process._process.poll() is None
    process.close()
    assert process._process.returncode == -9
    assert not process._folder.exists()


def test_process_ends_with_its_parent(program, tmp_path):
    program(PROGRAM.format(folder=program.real))
    process = FreshProcess("onnx", tmp_path, [REQUEST], [REQUEST])
    process._process.stdin.close()
    assert process._process.wait(60) == 0
    assert not (process._folder / "answers.npz").exists()
    process._process.stdin = None
    process.close()


def test_error_contains_the_last_line_or_the_missing_extra(program, tmp_path):
    program("import sys\nprint('noise', file=sys.stderr)\nimport missing_numpy")
    with pytest.raises(MissingExtraError, match=r"missing_numpy.*bert-keras\[onnx\]"):
        query_artifact("onnx", tmp_path / "model", [REQUEST])
    (tmp_path / "runtimes/run.py").write_text("print('x' * 1_000_000, file=__import__('sys').stderr)\n1 / 0")
    with pytest.raises(ParityError, match="model does not run in a fresh process: ZeroDivisionError: d"):
        query_artifact("onnx", tmp_path / "model", [REQUEST])


class FakeCheck:
    """Check that records calls of its methods."""

    def __init__(self, events, name, passed=True):
        self.events, self.name, self.passed = events, name, passed
        events.append(f"{name} started")

    def report(self):
        self.events.append(f"{self.name} reported")
        return {"passed": self.passed}

    def close(self):
        self.events.append(f"{self.name} closed")


def make_checks(events) -> BackgroundChecks:
    def check_passed(name, report):
        if not report["passed"]:
            raise ParityError(f"{name} differs")

    return BackgroundChecks(Stages(lambda *stage: events.append(stage), 5), check_passed)


def test_one_check_runs_while_the_next_artifact_is_written():
    events: list = []
    checks = make_checks(events)
    checks.begin("a", lambda: FakeCheck(events, "a"))
    events.append("b is written")
    checks.begin("b", lambda: FakeCheck(events, "b"), lambda report: {**report, "more": 1})
    checks.finish()
    checks.finish()
    checks.close()
    rest = [(0, 5, "comparing a"), "a reported", "b started", (1, 5, "comparing b"), "b reported"]
    assert events == ["a started", "b is written", *rest]
    assert checks.reports == {"a": {"passed": True}, "b": {"passed": True, "more": 1}}


def test_failed_check_stops_the_export_and_all_other_checks():
    events: list = []
    checks = make_checks(events)
    checks.begin("a", lambda: FakeCheck(events, "a", passed=False))
    with pytest.raises(ParityError, match="a differs"):
        checks.begin("b", lambda: FakeCheck(events, "b"))
    checks.close()
    assert "b started" not in events
    checks.begin("c", lambda: FakeCheck(events, "c"))
    checks.close()
    assert events[-1] == "c closed"
