"""Run `bert-keras doctor` in a process, with packages that exist only as metadata."""

import json
import os
import pathlib
import subprocess
import sys
from typing import NamedTuple

import pytest

# like the installed program, which does not search the current folder for modules
_PROGRAM = "import sys; del sys.path[0]; from bert_keras.cli.main import main; sys.exit(main(sys.argv[1:]))"


class Report(NamedTuple):
    """The printed report of a process, and its exit status."""

    status: int
    stdout: str
    stderr: str

    @property
    def items(self) -> list[dict]:
        return [item for section in json.loads(self.stdout)["sections"] for item in section["items"]]

    @property
    def faults(self) -> list[str]:
        """One line for each fault: its name, its text and its fix."""
        return join_faults(self.items)


def join_faults(items: list[dict]) -> list[str]:
    return [f"{one['name']}: {one['text']} | {one['fix']}" for one in items if one["mark"] == "FAULT"]


def run_doctor(*arguments: object, cwd: pathlib.Path, **variables: str) -> Report:
    """Run the command in a folder; a variable of `None` is not set."""
    environment = {**os.environ, **variables}
    environment = {name: value for name, value in environment.items() if value is not None}
    command = [sys.executable, "-c", _PROGRAM, "doctor", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment)
    return Report(done.returncode, done.stdout, done.stderr)


def write_distribution(folder: pathlib.Path, name: str, version: str, *requires: str) -> None:
    """Write the metadata of an installed package, as pip does, without its code."""
    path = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    path.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {one}" for one in requires]
    (path / "METADATA").write_text("\n".join(lines) + "\n")


def write_program(path: pathlib.Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)


@pytest.fixture
def find_faults():
    """Function that examines a path and returns its faults, one line for each."""
    from bert_keras.doctor.examination import examine_path

    return lambda path: join_faults([vars(item) for section in examine_path(path) for item in section.items])
