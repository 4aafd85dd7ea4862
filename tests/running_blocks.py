"""Run the code blocks of a page in one folder, in their order, and compare what they print with what the page shows."""

import ast
import io
import json
import linecache
import os
import pathlib
import re
import stat
import subprocess
import sys
from collections.abc import Mapping

from bert_keras.cli.main import main
from tests.code_blocks import Block, parse_commands
from tests.serving.running_server import RunningServer

STANDARD_INPUT = "The with statement wraps a block."
# a shape, a list, a string or a number after an expression, and an explanation
VALUE = re.compile(r"  # (\([\d, ]*\)|\[[^:;]*\]|[\d.]+)(?:$|[:;])")
_NUMBER = re.compile(r"\d[\d,.]*(?:e[+-]?\d+)?")
_SERVE = re.compile(r"^(bert-keras serve [^\n&]*)(?:&|\n|$)", re.MULTILINE)
_SHELL_SYNTAX = re.compile(r"[|<>&;*]|^\w+=", re.MULTILINE)


class PageRunner:
    """Runs the blocks of a page.

    Args:
        folder: the working folder, which must be the current one.
        capsys: pytest's fixture, which captures what commands in this process print.
        monkeypatch: pytest's fixture, with which Python blocks read `STANDARD_INPUT`.
        replacements: what the test runs in place of a text of the page, because the latter takes too long.

    Attributes:
        names: the variables of the Python blocks.
        num_checked: number of values in comments that were compared.
    """

    def __init__(self, folder: pathlib.Path, capsys, monkeypatch, replacements: Mapping[str, str] | None = None):
        self._folder, self._capsys, self._monkeypatch = folder, capsys, monkeypatch
        self._replacements = replacements or {}
        self._server: RunningServer | None = None
        self.names: dict = {"__name__": "page"}
        self.num_checked = 0

    def __enter__(self) -> "PageRunner":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_server()

    def run(self, block: Block) -> str:
        """Run a block and return what it printed. Fails if a command fails or a value differs from its comment."""
        code = self.shorten(block.code)
        self._capsys.readouterr()
        if block.language == "python":
            self._run_python(code, str(block))
            return self._capsys.readouterr().out
        printed = ""
        code = re.sub(r"\\\n *", " ", code)
        while serve := _SERVE.search(code):  # the rest of the block, and the next blocks, call this server
            printed += self._run_shell(code[: serve.start()], block)
            self._stop_server()
            [words] = parse_commands(serve[1])
            self._server = RunningServer({}, *words[2:])
            code = code[serve.end() :]
        return printed + self._run_shell(code, block)

    def shorten(self, code: str) -> str:
        """Return the code with the replacements."""
        for text, replacement in self._replacements.items():
            code = code.replace(text, replacement)
        return code

    def _run_python(self, code: str, name: str) -> None:
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(f"{STANDARD_INPUT}\n"))
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)  # for tracebacks and AutoGraph
        for statement in ast.parse(code).body:
            comment = VALUE.search(code.splitlines()[statement.end_lineno - 1])
            if isinstance(statement, ast.Expr) and comment:
                value = eval(compile(ast.Expression(statement.value), name, "eval"), self.names)
                assert make_plain(value) == ast.literal_eval(comment[1]), f"{name}: {ast.unparse(statement)}"
                self.num_checked += 1
            else:
                exec(compile(ast.Module([statement], []), name, "exec"), self.names)

    def _run_shell(self, code: str, block: Block) -> str:
        commands = parse_commands(code)
        if all(words[0] == "bert-keras" for words in commands) and not _SHELL_SYNTAX.search(_drop_quoted(code)):
            return "".join(self._run_here(words[1:], block) for words in commands)
        if self._server is not None:
            code = code.replace("localhost:8501", self._server.url.removeprefix("http://"))
        environment = {**os.environ, "PATH": f"{self._make_bin()}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{block}: {code}{done.stdout[-1000:]}{done.stderr[-3000:]}"
        return done.stdout + done.stderr

    def _run_here(self, arguments: list[str], block: Block) -> str:
        """Run `bert-keras` in this process: each import of TensorFlow would take longer than most commands."""
        status = main(arguments)
        printed = self._capsys.readouterr()
        assert status == 0, f"{block}: {' '.join(arguments)}\n{printed.err[-3000:]}"
        return printed.out + printed.err

    def _make_bin(self) -> pathlib.Path:
        """Return a folder whose `bert-keras` and `python` are those of the test, and whose `curl` fails on an error."""
        folder = self._folder / ".bin"
        folder.mkdir(exist_ok=True)
        scripts = {
            "bert-keras": f'exec {sys.executable} -m bert_keras.cli.main "$@"',
            "python": f'exec {sys.executable} "$@"',
            "curl": 'PATH="${PATH#*:}"; curl --fail-with-body --silent --show-error "$@"; s=$?; echo; exit $s',
        }
        for name, command in scripts.items():
            script = folder / name
            script.write_text(f"#!/usr/bin/env bash\n{command}\n")
            script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return folder

    def _stop_server(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server.__exit__()
            self._server = None


def _drop_quoted(code: str) -> str:
    return re.sub(r"#.*$", "", re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", "", code), flags=re.MULTILINE)


def make_plain(value):
    """Return a shape as a tuple and a tensor or array as a list."""
    if hasattr(value, "as_list"):  # tf.TensorShape
        return tuple(value)
    value = value.numpy() if hasattr(value, "numpy") else value
    return value.tolist() if hasattr(value, "tolist") else value


def find_missing_lines(shown: str, printed: str) -> list[str]:
    """Return the lines that a page shows and the block did not print.

    Numbers and spaces are ignored, and of JSON only the keys and the types of values are compared. `...` stands for any
    text.
    """
    lines = [_simplify(line) for line in printed.splitlines()]
    missing = []
    for line in shown.splitlines():
        parts = [re.escape(part.strip()) for part in _simplify(line).split("...")]
        if not any(re.search(".*".join(parts), candidate) for candidate in lines):
            missing.append(line)
    return missing


def _simplify(line: str) -> str:
    if line.startswith(("{", "[")):
        try:
            return json.dumps(_describe(json.loads(line)))
        except ValueError:
            pass
    return " ".join(_NUMBER.sub("0", line).split())


def _describe(value):
    """Return the keys and types of a JSON value; a list is described by its first element."""
    if isinstance(value, dict):
        return {key: _describe(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [_describe(item) for item in value[:1]]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
