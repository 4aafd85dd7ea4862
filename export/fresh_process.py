"""Asks an artifact in a process of its own, with nothing of ours loaded."""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from bert_keras.errors import VerdictError
from bert_keras.export import plain_runtime

Request = tuple[str, dict[str, np.ndarray]]  # signature, and its inputs by name


def ask_saved_model(folder: str | os.PathLike, requests: list[Request]) -> list[dict[str, np.ndarray]]:
    """Returns the outputs of each request, by name, from a fresh Python that loads the SavedModel.

    Raises:
        VerdictError: the process failed; the message ends in the last line that it printed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        asked, answered = pathlib.Path(scratch, "requests.npz"), pathlib.Path(scratch, "answers.npz")
        arrays = {
            f"{call}/{signature}/{name}": value
            for call, (signature, inputs) in enumerate(requests)
            for name, value in inputs.items()
        }
        np.savez(asked, **arrays)
        command = [sys.executable, plain_runtime.__file__, str(folder), str(asked), str(answered)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
        if done.returncode:
            last_line = (done.stderr.strip().split("\n") or [""])[-1]
            raise VerdictError(f"the SavedModel in {folder} does not run in a fresh process: {last_line}")
        answers = dict(np.load(answered).items())
    return [
        {name.split("/", 1)[1]: value for name, value in answers.items() if name.split("/")[0] == str(call)}
        for call in range(len(requests))
    ]
