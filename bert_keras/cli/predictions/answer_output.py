"""Write answers as JSON lines, to standard output or to a file that an interrupted run can continue.

The answers of an unfinished run are in `.NAME.partial` next to the output file, with the number of examples that they
answer. A run with the same settings on the same files continues after them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TextIO

from bert_keras.cli.console.terminal import printable_json
from bert_keras.errors import InputError
from bert_keras.files import format_json, read_json, write_json
from bert_keras.publishing import get_companion_folder, publish_file
from bert_keras.staging import lock_folder

_DECIMALS = 6
_LAST_KEYS = ("score", "null_score", "best")  # at the end of each line, because few users need them
_ANSWERS, _STATE = "answers.jsonl", "state.json"


class Position(NamedTuple):
    """How far a run has come.

    Attributes:
        num_read: number of examples read, including skipped ones.
        num_skipped: number of invalid examples.
        num_answers: number of answers written.
    """

    num_read: int = 0
    num_skipped: int = 0
    num_answers: int = 0


class StandardOutput:
    """Write answers to standard output."""

    start = Position()

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, lines: str, position: Position) -> None:
        """Write lines at once."""
        del position
        self._stream.write(lines)
        self._stream.flush()


class AnswerFile:
    """Write answers to the partial file of a run.

    Args:
        folder: the existing folder of the unfinished run.
        fingerprint: everything that the answers depend on. A run with another fingerprint starts afresh.
        report: prints a sentence if an unfinished run is continued or replaced.

    Attributes:
        start: the position after which the run continues.
        path: the file of the answers.
    """

    def __init__(self, folder: pathlib.Path, fingerprint: Mapping[str, object], report: Callable[[str], None]):
        self.path = folder / _ANSWERS
        self._state = folder / _STATE
        self._fingerprint = json.loads(json.dumps(fingerprint))
        state = self._read_state()
        if state is None and self._state.exists():
            report("an interrupted run with other settings or files was discarded")
        self.start = Position(*state["position"]) if state else Position()
        self._file = open(self.path, "r+b" if state else "wb")  # noqa: SIM115  closed by `close`
        self._file.truncate(state["bytes"] if state else 0)
        self._file.seek(0, os.SEEK_END)
        if state:
            report(f"continuing an interrupted run after {self.start.num_answers:,} answers")

    def _read_state(self) -> dict | None:
        """Return the state of an unfinished run with the same fingerprint whose answers are complete."""
        try:
            state = read_json(self._state)
            is_same = state["fingerprint"] == self._fingerprint
            return state if is_same and self.path.stat().st_size >= state["bytes"] else None
        except (InputError, OSError, KeyError, TypeError):  # missing or damaged
            return None

    def write(self, lines: str, position: Position) -> None:
        """Append lines, and store the position after them once they are on the disk."""
        self._file.write(lines.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        state = {"fingerprint": self._fingerprint, "position": position, "bytes": self._file.tell()}
        staging = self._state.with_name(f".{_STATE}")
        write_json(staging, state)
        os.replace(staging, self._state)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextlib.contextmanager
def open_output(
    out: pathlib.Path | None,
    standard_output: TextIO,
    fingerprint: Mapping[str, object],
    report: Callable[[str], None],
) -> Iterator[StandardOutput | AnswerFile]:
    """Yield the output of a run; a file appears under its name when the block ends without an error.

    If the block ends with an `InputError`, nothing is left; after any other error, such as Ctrl-C, the partial folder
    is kept and the same command continues.

    Args:
        out: the file; None: standard output.
        standard_output: standard output; a progress bar replaces `sys.stdout` while it runs.
        fingerprint: everything that the answers depend on.
        report: prints a sentence if an unfinished run is continued.
    """
    if out is None:
        yield StandardOutput(standard_output)
        return
    folder = get_companion_folder(out, "partial")
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        file = AnswerFile(folder, fingerprint, report)
        try:
            with contextlib.closing(file):
                yield file
            with publish_file(out) as staging:
                os.replace(file.path, staging)
        except InputError:
            shutil.rmtree(folder)
            raise
        finally:
            if not (folder / _STATE).exists():  # nothing to continue
                shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def fingerprint_files(*paths: pathlib.Path) -> str:
    """Return a digest of the names, sizes and times of files and of the files in folders; it does not read them."""
    facts = []
    for path in paths:
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        facts += [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def format_json_line(position_key: str, number: int | None, answer: dict) -> str:
    """Format an answer as a JSON line that begins with the position of its example in the file, if there is one."""
    named = {} if number is None else {position_key: number}
    named |= {name: value for name, value in answer.items() if name not in _LAST_KEYS}
    named |= {name: answer[name] for name in _LAST_KEYS if name in answer}
    return printable_json(format_json(_round(named)), "utf-8") + "\n"


def _round(value: Any) -> Any:
    """Round the numbers of a JSON value to the precision of float32."""
    if isinstance(value, dict):
        return {name: _round(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_round(part) for part in value]
    return round(value, _DECIMALS) if isinstance(value, float) else value
