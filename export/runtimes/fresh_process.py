"""Asks an artifact in a process of its own, with nothing of ours loaded."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import numpy as np

from bert_keras.errors import MissingExtraError, VerdictError
from bert_keras.export.runtimes import exchange

Request = tuple[str, dict[str, np.ndarray]]  # signature, and its inputs by name; strings as `bytes` objects

# kind of artifact: its program, what that imports, and the extra that brings it
_RUNTIMES = {
    "saved_model": ("run_saved_model.py", "tensorflow", ""),
    "tflite": ("run_tflite.py", "ai_edge_litert", "tflite"),
    "onnx": ("run_onnx.py", "onnxruntime", "onnx"),
}


@dataclasses.dataclass(frozen=True)
class Answers:
    """What an artifact gave.

    Attributes:
        outputs: of each request, by name.
        load_s: how long it took to open.
        seconds: how long each request took; the first of a shape may be slow.
        signatures: what the artifact says of itself: `{signature: {"inputs" or "outputs": {name: [dtype, shape]}}}`.
    """

    outputs: list[dict[str, np.ndarray]]
    load_s: float
    seconds: list[float]
    signatures: dict[str, dict[str, dict[str, list]]]


def ask(kind: str, artifact: str | os.PathLike, requests: Sequence[Request]) -> Answers:
    """Returns what an artifact answers to requests, in a fresh Python that runs it in its own runtime.

    Args:
        kind: "saved_model", "tflite" or "onnx".
        artifact: the folder or file.
        requests: what to ask.

    Raises:
        MissingExtraError: the runtime is not installed.
        VerdictError: the process failed; the message ends in the last line that it printed.
    """
    script, package, extra = _RUNTIMES[kind]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        arrays = {(call, name): values for call, (_, inputs) in enumerate(requests) for name, values in inputs.items()}
        exchange.write_arrays(folder / "requests.npz", arrays)
        (folder / "signatures.json").write_text(json.dumps([signature for signature, _ in requests]), encoding="utf-8")
        program = pathlib.Path(exchange.__file__).with_name(script)
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, str(program), str(artifact), scratch]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
        if done.returncode:
            last_line = (done.stderr.strip().split("\n") or [""])[-1]
            if f"No module named '{package}'" in last_line:
                raise MissingExtraError(f"checking {artifact}", package, extra)
            if done.returncode < 0:  # what it printed before tells nothing then
                last_line = f"signal {-done.returncode} ended it; the system sends 9 where memory runs out"
            raise VerdictError(f"{artifact} does not run in a fresh process: {last_line or done.returncode}")
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        outputs: list[dict[str, np.ndarray]] = [{} for _ in requests]
        for (call, name), values in exchange.read_arrays(folder / "answers.npz").items():
            outputs[call][name] = values
    return Answers(outputs, **facts)
