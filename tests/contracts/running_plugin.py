"""Run a function of a test module in a new process that loads the module as a package of a user."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).parents[2]


def run_command(*arguments: object, has_json: bool = True) -> dict | str:
    """Run a command of `bert-keras` in this process and return what it printed."""
    from bert_keras.cli.main import main

    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = main([*map(str, arguments), *(["--json"] if has_json else [])])
    assert status == 0, arguments
    return json.loads(output.getvalue()) if has_json else output.getvalue()


def check_contract(module: str, file: str, name: str) -> None:
    """Run the rules of a file for the head or architecture of a module, in a new process that loads it as a plug-in."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/contracts/{file}", "-k", name]
    environment = {**os.environ, "BERT_KERAS_PLUGINS": module}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 0, done.stdout[-4000:]  # 5 if there are no rules for this name


def run_in_new_process(module: str, function: str, folder: pathlib.Path) -> dict:
    """Call a function of a module with a folder in a new process, and return its result."""
    code = f"import json, pathlib, sys; from {module} import {function} as run; "
    code += "print(json.dumps(run(pathlib.Path(sys.argv[1]))))"
    environment = {**os.environ, "BERT_KERAS_PLUGINS": module}
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
