"""The test program of a client that cannot run a model itself, because there is no runtime for it on this machine."""

import json
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnxruntime

from .client_process import ClientError, ClientProcess
from .python_client import bert_client

Run = Callable[[Sequence[int], Sequence[int]], Mapping[str, np.ndarray]]


class RunnerProcess(ClientProcess):
    """A running test program that asks this process for the outputs of the model.

    Before it answers, it writes `{"run": ids, "segments": ids}` for each window, and reads a line with the flat outputs
    keyed by name.

    Args:
        command: the program and its arguments.
        folder: the folder with `model.json` and the vocabulary.
        run: takes the token ids and the segment ids of a sequence, returns the outputs without the batch axis.
    """

    def __init__(self, command: Sequence[object], folder: pathlib.Path, run: Run):
        self._run = run
        super().__init__(command, folder)

    def ask_all(self, requests: Sequence[Mapping]) -> Iterator[dict]:
        """Yield the answers to requests, one after the other.

        Raises:
            ClientError: an answer is an error.
        """
        for request in requests:
            answer = self._exchange(request)
            while "run" in answer:
                outputs = self._run(answer["run"], answer["segments"])
                answer = self._exchange({name: values.ravel().tolist() for name, values in outputs.items()})
            if "error" in answer:
                raise ClientError(answer["error"])
            yield answer

    def _exchange(self, message: Mapping) -> dict:
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the program ended with the status {self._process.wait(30)}"
        return json.loads(line)


def make_runner(path: pathlib.Path) -> Run:
    """Return a function that runs a TFLite or an ONNX file on a sequence."""
    if path.suffix == ".tflite":
        return bert_client.LiteRtRunner(path, pad_id=0)
    session = onnxruntime.InferenceSession(str(path))
    names = [output.name for output in session.get_outputs()]

    def run(token_ids: Sequence[int], segment_ids: Sequence[int]) -> dict[str, np.ndarray]:
        columns = {"input_ids": token_ids, "attention_mask": [1] * len(token_ids), "token_type_ids": segment_ids}
        outputs = session.run(names, {name: np.array([values], np.int64) for name, values in columns.items()})
        return {name: values[0] for name, values in zip(names, outputs, strict=True)}

    return run
