"""Run an artifact in a new process that does not import this package."""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import numpy as np

from bert_keras.errors import MissingExtraError, ParityError
from bert_keras.export.parity import artifact_program

Request = tuple[str, dict[str, np.ndarray]]  # signature, and its inputs keyed by name; strings are `bytes` objects

# kind of artifact: the package that runs it, the extra that installs it
_RUNTIMES = {
    "saved_model": ("tensorflow", ""),
    "tflite": ("ai_edge_litert", "tflite"),
    "onnx": ("onnxruntime", "onnx"),
}


@dataclasses.dataclass(frozen=True)
class Answers:
    """The answers of an artifact.

    Attributes:
        outputs: the outputs of each request that is not timed, keyed by name.
        load_s: seconds that loading the artifact took.
        seconds: seconds that each timed request took; the first one of a shape may be slow.
        signatures: the artifact's signatures, `{signature: {"inputs" or "outputs": {name: [dtype, shape]}}}`.
    """

    outputs: list[dict[str, np.ndarray]]
    load_s: float
    seconds: list[float]
    signatures: dict[str, dict[str, dict[str, list]]]


class FreshProcess:
    """A fresh Python process that runs an artifact in its own runtime and answers requests in the background.

    Args:
        kind: "saved_model", "tflite" or "onnx".
        artifact: the folder or file.
        requests: the requests to answer.
        timed: requests to answer and time afterwards, while this process is idle.
    """

    def __init__(
        self, kind: str, artifact: str | os.PathLike, requests: Sequence[Request], timed: Sequence[Request] = ()
    ):
        self._kind, self._artifact, self._num_answered = kind, artifact, len(requests)
        self._scratch = tempfile.TemporaryDirectory()
        self._folder = pathlib.Path(self._scratch.name)
        all_requests = [*requests, *timed]
        arrays = {(n, name): values for n, (_, inputs) in enumerate(all_requests) for name, values in inputs.items()}
        artifact_program.write_arrays(self._folder / "requests.npz", arrays)
        calls = {"signatures": [signature for signature, _ in all_requests], "num_timed": len(timed)}
        (self._folder / "calls.json").write_text(json.dumps(calls), encoding="utf-8")
        command = [sys.executable, artifact_program.__file__, kind, str(artifact), str(self._folder)]
        with open(self._folder / "printed.txt", "wb") as printed:  # an unread pipe could fill up
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=printed,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            )

    def answers(self) -> Answers:
        """Wait for the answers and return them.

        Raises:
            MissingExtraError: the runtime is not installed.
            ParityError: the process failed; the message ends with the last line that it printed.
        """
        self._process.communicate(b"\n")  # starts the timed requests
        if self._process.returncode:
            raise self._build_error()
        facts = json.loads((self._folder / "facts.json").read_text(encoding="utf-8"))
        outputs: list[dict[str, np.ndarray]] = [{} for _ in range(self._num_answered)]
        for (call, name), values in artifact_program.read_arrays(self._folder / "answers.npz").items():
            outputs[call][name] = values
        return Answers(outputs, **facts)

    def _build_error(self) -> Exception:
        package, extra = _RUNTIMES[self._kind]
        printed = (self._folder / "printed.txt").read_text(encoding="utf-8", errors="replace")
        last_line = printed.strip().split("\n")[-1]
        if f"No module named '{package}'" in last_line:
            return MissingExtraError(f"checking {self._artifact}", package, extra)
        if self._process.returncode < 0:  # the lines that it printed do not explain a signal
            last_line = f"signal {-self._process.returncode} ended it (the system sends 9 if memory runs out)"
        reason = last_line or self._process.returncode
        return ParityError(f"{self._artifact} does not run in a fresh process: {reason}")

    def close(self) -> None:
        """End the process if it still runs, and delete its files."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
        self._scratch.cleanup()


def query_artifact(kind: str, artifact: str | os.PathLike, requests: Sequence[Request]) -> Answers:
    """Run an artifact in a fresh process and return its answers; see `FreshProcess`.

    Example:
        >>> requests = [("serving_default", {"text": np.array([b"A text."], object)})]
        >>> sorted(query_artifact("saved_model", "demo/artifacts/saved_model/1", requests).outputs[0])
        ['label', 'label_id', 'probabilities', 'scores']
    """
    with contextlib.closing(FreshProcess(kind, artifact, requests)) as process:
        return process.answers()
