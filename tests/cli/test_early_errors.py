"""Bad input is reported in one sentence before TensorFlow loads, which takes several seconds."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

from bert_keras.cli.main import COMMANDS

from .bad_inputs import CASES

REPOSITORY = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of all cases, run in a process that never loads TensorFlow."""
    command = [sys.executable, "-m", "tests.cli.bad_inputs", str(tmp_path_factory.mktemp("bad"))]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES)
def test_bad_input_prints_one_sentence_before_loading_tensorflow_and_changes_no_file(case, results):
    _, message = CASES[case]
    result = results[case]
    assert result["loaded"] == [], "modules were loaded before the input was checked"
    assert result["changed"] == [], "files were written"
    assert (result["status"], result["out"]) == (2, ""), result["err"]
    [line] = result["err"].splitlines()
    assert line.startswith("bert-keras")
    assert re.search(message, line), line


def split_command(command):
    return command.split() if isinstance(command, str) else command


def test_cases_include_every_command():
    commands = {next(word for word in split_command(command) if "=" not in word) for command, _ in CASES.values()}
    assert commands >= set(COMMANDS)
