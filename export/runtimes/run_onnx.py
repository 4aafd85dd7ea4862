"""Run an ONNX file in onnxruntime, without importing this package.

    python run_onnx.py FILE EXCHANGE

EXCHANGE is the folder of requests and answers described in `exchange.py`.
"""

import os
import sys
from collections.abc import Callable, Mapping

import numpy as np

NUM_THREADS = 2


def load(path: str) -> tuple[Callable, Mapping]:
    """Open the file; return the function that runs it, and its only signature, which has no name."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # as `bert_keras.compat.import_onnxruntime`
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = NUM_THREADS
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    outputs = [output.name for output in session.get_outputs()]
    types = {entry.name: entry.type for entry in session.get_inputs()}

    def answer(signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        del signature
        converted = {name: _convert(inputs[name], dtype) for name, dtype in types.items()}
        return dict(zip(outputs, session.run(outputs, converted), strict=True))

    sides = {"inputs": session.get_inputs(), "outputs": session.get_outputs()}
    return answer, {"": {side: _describe(entries) for side, entries in sides.items()}}


def _convert(values: np.ndarray, dtype: str) -> np.ndarray:
    return values.astype("int64") if "int64" in dtype else values


def _describe(entries: list) -> dict[str, list]:
    return {entry.name: [entry.type.removeprefix("tensor(").removesuffix(")"), entry.shape] for entry in entries}


if __name__ == "__main__":
    from exchange import serve

    serve(lambda: load(sys.argv[1]), sys.argv[2])
