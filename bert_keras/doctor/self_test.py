"""The section "Self-test": import TensorFlow and run a tiny model in another process, which may crash or hang."""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bert_keras.doctor.findings import FAULT, Section
from bert_keras.doctor.versions import build_install_command
from bert_keras.extras import make_python_command

IMPORT = "import TensorFlow"
STAGES = (IMPORT, "import Keras", "tokenize", "training step", "prediction", "save and load")
TIME_LIMIT_S = 300  # the imports took 8 to 30 s on a machine with two slow cores
_PROGRAM = "bert_keras.doctor.self_test_program"
_MAX_LINE = 500  # characters of an error that are printed


class SelfTest(NamedTuple):
    """The result of the process.

    Attributes:
        stages: the finished stages: `stage`, `seconds`, and `result` or `error`.
        problem: why the process ended before its last stage without an error; None: it did not.
    """

    stages: Sequence[Mapping[str, object]]
    problem: str | None

    @property
    def tensorflow(self) -> Mapping[str, object] | None:
        """What TensorFlow reports about itself and its GPUs; None: it could not be imported."""
        return next((one["result"] for one in self.stages if one["stage"] == IMPORT and "result" in one), None)


def run_self_test(
    stages: Sequence[str] = STAGES, *, folder: pathlib.Path | None = None, limit_s: float = TIME_LIMIT_S
) -> SelfTest:
    """Run stages of the self-test in another process.

    Args:
        stages: the stages, in order; see `self_test_program.py`.
        folder: the argument of the stages; None: a temporary folder.
        limit_s: seconds after which the process is ended.
    """
    with tempfile.TemporaryDirectory() as scratch:
        report, printed = pathlib.Path(scratch, "report.jsonl"), pathlib.Path(scratch, "printed.txt")
        command = [*make_python_command(_PROGRAM), str(report), str(folder or scratch), *stages]
        problem = _run(command, printed, limit_s)
        finished = []
        for line in report.read_text(encoding="utf-8").splitlines() if report.is_file() else ():
            with contextlib.suppress(json.JSONDecodeError):  # the disk was full, or the process was killed
                finished.append(json.loads(line))
    has_ended = len(finished) == len(stages) or any("error" in one for one in finished)
    return SelfTest(finished, None if has_ended else problem or "the process ended without a message")


def check_self_test(test: SelfTest, stages: Sequence[str] = STAGES) -> Section:
    """Describe the result of `run_self_test`."""
    section = Section("Self-test")
    for one in test.stages:
        name, seconds = str(one["stage"]), f"{one['seconds']:.1f} s"
        if "error" in one:
            section.add_fault(name, f"{one['error']!s:.{_MAX_LINE}}", _get_fix(name))
        else:
            result = f"tensorflow {one['result']['version']}" if name == IMPORT else one["result"]
            section.add_ok(name, f"{seconds:>6}  {result}")
    if test.problem is not None:
        name = next(stage for stage in stages if stage not in [one["stage"] for one in test.stages])
        section.add_fault(name, test.problem, _get_fix(name))
    return section


def add_loading(section: Section, path: pathlib.Path) -> None:
    """Load a checkpoint of any format in another process, and add the result to a section."""
    stages = (IMPORT, "import Keras", "load")
    for item in check_self_test(run_self_test(stages, folder=path), stages).items:
        if item.name == "load" or item.mark == FAULT:
            section.items.append(item)


def _run(command: Sequence[str], printed: pathlib.Path, limit_s: float) -> str | None:
    """Run the process, and return why it ended without success, or None."""
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with open(printed, "wb") as output:  # an unread pipe could fill up
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=limit_s, env=variables
            )
        except subprocess.TimeoutExpired:
            return f"took more than {limit_s:g} s and was ended"
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"crashed: signal {-done.returncode} ended the process"
    lines = printed.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it printed nothing"]
    return f"ended with status {done.returncode}: {lines[-1][:_MAX_LINE]}"


def _get_fix(stage: str) -> str:
    if stage == "load":
        return "copy it again from its source, if the message names no other fix"
    if stage.startswith("import"):
        command = build_install_command("tensorflow", "tensorflow-text", "keras")
        return f"correct the faults above; without any, in a new virtual environment run  {command}"
    return "correct the faults above; without any, report it with this output"
