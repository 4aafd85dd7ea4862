"""The parts of `bert-keras predict`: the model, the examples that it reads, and the output that can be continued.

The answers of an unfinished run are in `.NAME.partial` next to the output file, with the number of examples that they
answer. A run with the same settings on the same files continues after them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from bert_keras.cli.console import print_line, printable_json
from bert_keras.cli.interrupts import load_tensorflow
from bert_keras.cli.options import task_options
from bert_keras.cli.options.argument_checks import read_model
from bert_keras.engines.cores import count_cores
from bert_keras.errors import InputError
from bert_keras.files import format_json, read_json, write_json
from bert_keras.hub.downloading import ONNX_FLOAT32, download_folder
from bert_keras.hub.names import is_hub_name
from bert_keras.publishing import get_companion_folder, publish_file
from bert_keras.staging import lock_folder

if TYPE_CHECKING:
    from bert_keras.checkpoints.checkpoint import Checkpoint
    from bert_keras.engines.artifact_files import Artifact
    from bert_keras.engines.predictor import Predictor


_LINE_FORMATS = ("txt", "csv", "tsv", "jsonl")
_BLOCK_BYTES = 1 << 22

_DECIMALS = 6
_LAST_KEYS = ("score", "null_score", "best")  # at the end of each line, because few users need them
_ANSWERS, _STATE = "answers.jsonl", "state.json"


class PredictionModel(NamedTuple):
    """What MODEL is: a checkpoint, or an artifact, whose description is a checkpoint without weights."""

    checkpoint: Checkpoint
    artifact: Artifact | None

    @property
    def paths(self) -> list[pathlib.Path]:
        """The files and folders that determine the answers."""
        folder = pathlib.Path(self.checkpoint.source)
        return [folder] if self.artifact is None else [self.artifact.path, folder]

    @classmethod
    def read(cls, arguments: argparse.Namespace) -> PredictionModel:
        """Read the checkpoint folder, or the description of the artifact.

        Raises:
            InputError: it cannot be used, or an option is for artifacts and MODEL is a checkpoint folder.
        """
        from bert_keras.checkpoints.checkpoint import check_has_vocabulary
        from bert_keras.engines.artifact_files import find_artifact, is_artifact

        path = arguments.model
        if is_hub_name(path) and arguments.engine is not None:
            onnx = None if arguments.engine == "tensorflow" else ONNX_FLOAT32
            path = download_folder(path, with_weights=False, onnx=onnx, report=print_line)
        if not is_hub_name(path) and path.exists() and (arguments.engine is not None or is_artifact(path)):
            artifact = find_artifact(path, arguments.engine)
            check_has_vocabulary(artifact.description)
            return cls(artifact.description, artifact)
        checkpoint = read_model(path)
        if given := task_options.get_given_options(arguments, "threads", "instances"):
            raise InputError(
                f"{task_options.format_options(given)} is for artifacts, and {path} is a checkpoint folder: leave it "
                "out, or name an artifact that export wrote"
            )
        return cls(checkpoint, None)

    def load(self, arguments: argparse.Namespace, changes: dict[str, object]) -> Predictor:
        """Load the model; TensorFlow only if it is needed."""
        from bert_keras.engines.engine import FAST_SAVED_MODEL

        if self.artifact is None:
            load_tensorflow()
        elif self.artifact.engine == "tensorflow":
            for name in FAST_SAVED_MODEL:  # this process changes no weights
                os.environ.setdefault(name, "1")
            load_tensorflow()
        from bert_keras.engines.predictor import Predictor

        if self.artifact is None:
            return Predictor.from_checkpoint(self.checkpoint, **changes)
        return Predictor.from_artifact(self.artifact, **self._select_threads(arguments), **changes)

    def _select_threads(self, arguments: argparse.Namespace) -> dict[str, int]:
        """Return the threads and instances that were given; else one instance per core for a file of texts."""
        given = task_options.get_given_options(arguments, "threads", "instances")
        if given or arguments.texts or self.artifact.engine == "tensorflow":  # TensorFlow gains nothing by instances
            return given
        return {"instances": count_cores()}


class ExampleStream:
    """Iterator over the valid examples of a file. Invalid ones are reported and skipped, or end the iteration.

    Args:
        read: yields `(line, example, error)`, see `read_prediction_data`.
        skip: whether invalid examples are skipped.
        report: prints a sentence about a skipped example.

    Attributes:
        error: the error that ended the iteration.
        num_read: number of examples read so far, including invalid ones.
        num_skipped: number of invalid examples so far.
    """

    def __init__(self, read: Iterator, *, skip: bool, report: Callable[[str], None]):
        self.error: InputError | None = None
        self.num_read = 0
        self.num_skipped = 0
        self._read = read
        self._skip = skip
        self._report = report
        self._lines: list[int | None] = []

    def __iter__(self) -> Iterator:
        try:
            for line, example, error in self._read:
                self.num_read += 1
                if error is None:
                    self._lines.append(line)
                    yield example
                elif self._skip:
                    self.num_skipped += 1
                    self._report(f"skipped: {error}")
                else:
                    raise error
        except InputError as error:  # also raised where the rest of the file cannot be parsed
            self.error = error  # raised after the examples before it are answered

    def skip_answered(self, num_read: int, num_skipped: int) -> None:
        """Pass over the first `num_read` examples, which an earlier run answered or skipped."""
        for _ in itertools.islice(self._read, num_read):
            pass
        self.num_read, self.num_skipped = num_read, num_skipped

    def take_lines(self, number: int) -> list[int | None]:
        """Remove and return the line numbers of the next answered examples."""
        taken, self._lines = self._lines[:number], self._lines[number:]
        return taken


def count_examples(path: pathlib.Path, file_format: str) -> int | None:
    """Return the number of examples of a file by counting its lines, for a progress bar.

    Line breaks inside quoted fields and blank lines count too. None if the format has no line per example or the file
    is compressed.
    """
    if file_format not in _LINE_FORMATS or path.suffix == ".gz" or not path.is_file():
        return None
    num_lines, end = 0, b"\n"
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            num_lines += block.count(b"\n")
            end = block[-1:]
    return max(0, num_lines + (end != b"\n") - (file_format in ("csv", "tsv")))


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


@contextlib.contextmanager
def open_output(
    out: pathlib.Path | None,
    standard_output: TextIO,
    fingerprint: Mapping[str, object],
    report: Callable[[str], None],
) -> Iterator[tuple[Position, Callable[[str, Position], None]]]:
    """Yield the position after which a run continues, and a function that writes lines and the position after them.

    A file appears under its name when the block ends without an error. If the block ends with an `InputError`, nothing
    is left; after any other error, such as Ctrl-C, the partial folder is kept and the same command continues.

    Args:
        out: the file; None: standard output.
        standard_output: standard output; a progress bar replaces `sys.stdout` while it runs.
        fingerprint: everything that the answers depend on. A run with another fingerprint starts afresh.
        report: prints a sentence if an unfinished run is continued or replaced.
    """
    if out is None:

        def write(lines: str, _: Position) -> None:
            standard_output.write(lines)
            standard_output.flush()

        yield Position(), write
        return
    folder = get_companion_folder(out, "partial")
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        try:
            with _open_answers(folder, json.loads(json.dumps(fingerprint)), report) as start_and_write:
                yield start_and_write
            with publish_file(out) as staging:
                os.replace(folder / _ANSWERS, staging)
        except InputError:
            shutil.rmtree(folder)
            raise
        finally:
            if not (folder / _STATE).exists():  # nothing to continue
                shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _open_answers(
    folder: pathlib.Path, fingerprint: dict, report: Callable[[str], None]
) -> Iterator[tuple[Position, Callable[[str, Position], None]]]:
    """Open the partial file of a run after the answers of an unfinished one; see `open_output`."""
    state = _read_state(folder, fingerprint)
    if state is None and (folder / _STATE).exists():
        report("an interrupted run with other settings or files was discarded")
    start = Position(*state["position"]) if state else Position()
    with open(folder / _ANSWERS, "r+b" if state else "wb") as file:
        file.truncate(state["bytes"] if state else 0)
        file.seek(0, os.SEEK_END)
        if state:
            report(f"continuing an interrupted run after {start.num_answers:,} answers")

        def write(lines: str, position: Position) -> None:
            """Append lines, and store the position after them once they are on the disk."""
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())
            staging = folder / f".{_STATE}"
            write_json(staging, {"fingerprint": fingerprint, "position": position, "bytes": file.tell()})
            os.replace(staging, folder / _STATE)

        yield start, write


def _read_state(folder: pathlib.Path, fingerprint: dict) -> dict | None:
    """Return the state of an unfinished run with the same fingerprint whose answers are complete."""
    try:
        state = read_json(folder / _STATE)
        is_complete = (folder / _ANSWERS).stat().st_size >= state["bytes"]
        return state if state["fingerprint"] == fingerprint and is_complete else None
    except (InputError, OSError, KeyError, TypeError):  # missing or damaged
        return None


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
