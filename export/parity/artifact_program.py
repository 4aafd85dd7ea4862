"""Run an artifact in its own runtime, without importing this package, and exchange requests and answers as files.

    python artifact_program.py KIND ARTIFACT FOLDER

A request is the name of a signature and its inputs, keyed by name. Strings are stored as bytes and end offsets, because
numpy's own string arrays lose invalid UTF-8 and trailing NUL characters. Inputs and outputs are found by their names,
never by position.

The program cannot import the package, so this module uses nothing but numpy and the runtime of the artifact.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

MAX_WIDTH = 1000  # values per token; of wider outputs only some positions are compared
_BYTES, _ENDS, _SHAPE = "bytes", "ends", "shape"

_NUM_THREADS = 2

Arrays = dict[tuple[int, str], np.ndarray]  # keyed by the number of the request and the name
Signatures = dict[str, dict[str, dict[str, list]]]  # {signature: {"inputs" or "outputs": {name: [dtype, shape]}}}
Loaded = tuple[Callable[[str, Mapping], dict[str, np.ndarray]], Signatures]  # runs a signature on its inputs


def write_arrays(path: str, arrays: Arrays) -> None:
    """Write arrays to a file; arrays of strings are arrays of `bytes` objects."""
    flat = {}
    for (request, name), values in arrays.items():
        if values.dtype.kind != "O":
            flat[f"{request}/{name}/values"] = values
            continue
        strings = list(values.ravel())
        flat[f"{request}/{name}/{_BYTES}"] = np.frombuffer(b"".join(strings), np.uint8)
        flat[f"{request}/{name}/{_ENDS}"] = np.cumsum([len(string) for string in strings], dtype=np.int64)
        flat[f"{request}/{name}/{_SHAPE}"] = np.array(values.shape, np.int64)
    np.savez(path, **flat)


def read_arrays(path: str) -> Arrays:
    """Read the arrays that `write_arrays` wrote."""
    parts = {}
    with np.load(path) as file:
        for key, values in file.items():
            request, name, part = key.split("/")
            parts.setdefault((int(request), name), {})[part] = values
    return {key: _join_parts(**array_parts) for key, array_parts in parts.items()}


def _join_parts(values=None, bytes=None, ends=None, shape=None) -> np.ndarray:
    if values is not None:
        return values
    joined, starts = bytes.tobytes(), [0, *ends][:-1]
    strings = np.empty(len(ends), object)
    strings[:] = [joined[start:end] for start, end in zip(starts, ends, strict=True)]
    return strings.reshape(shape)


def choose_compared_positions(shape: tuple[int, ...]) -> slice:
    """Return the token positions of an output `(B, S, V)` that are compared: about eight if V is a vocabulary.

    All positions of 200 sequences would take 2 GB.
    """
    return slice(None, None, max(1, shape[1] // 8) if len(shape) == 3 and shape[2] > MAX_WIDTH else 1)


def select_compared(values: np.ndarray) -> np.ndarray:
    """Return the part of an output that is compared; see `choose_compared_positions`."""
    return values[:, choose_compared_positions(values.shape)] if values.ndim == 3 else values


def serve(load: Callable[[], Loaded], folder: str) -> None:
    """Answer the requests in a folder, and write the answers, the loading time and the time of each timed request.

    The timed requests come last. They wait for a line on standard input, so that the process that sent the requests is
    idle meanwhile. If standard input is closed instead, nobody waits for the answers, and the program ends.

    Args:
        load: opens the artifact and returns a function from a signature's name and its inputs to its outputs, and a
            description of all signatures.
        folder: contains `calls.json` (the signature of each request, and how many are timed) and `requests.npz`;
            `answers.npz` and `facts.json` are written to it.
    """
    with open(f"{folder}/calls.json", encoding="utf-8") as file:
        calls = json.load(file)
    requests = [(signature, {}) for signature in calls["signatures"]]
    for (number, name), values in read_arrays(f"{folder}/requests.npz").items():
        requests[number][1][name] = values
    start = time.perf_counter()
    answer, signatures = load()
    load_s = time.perf_counter() - start
    first_timed = len(requests) - calls["num_timed"]
    answers, seconds = {}, []
    for number, (signature, inputs) in enumerate(requests):
        if number == first_timed and not sys.stdin.readline():
            return
        start = time.perf_counter()
        outputs = answer(signature, inputs)
        seconds.append(time.perf_counter() - start)
        if number < first_timed:
            answers.update({(number, name): select_compared(values) for name, values in outputs.items()})
    write_arrays(f"{folder}/answers.npz", answers)
    with open(f"{folder}/facts.json", "w", encoding="utf-8") as file:
        json.dump({"load_s": load_s, "seconds": seconds[first_timed:], "signatures": signatures}, file)


def load_saved_model(path: str) -> Loaded:
    """Open a SavedModel with TensorFlow and tensorflow-text, as a server does."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the ops of the tokenizer

    model = tf.saved_model.load(path)

    def answer(signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = model.signatures[signature](**{name: tf.constant(values) for name, values in inputs.items()})
        return {name: values.numpy() for name, values in outputs.items()}

    def describe(specs: Mapping) -> dict[str, list]:
        return {name: [spec.dtype.name, [*spec.shape]] for name, spec in specs.items()}

    signatures = {
        name: {
            "inputs": describe(function.structured_input_signature[1]),
            "outputs": describe(function.structured_outputs),
        }
        for name, function in model.signatures.items()
    }
    return answer, signatures


def load_tflite(path: str) -> Loaded:
    """Open a TFLite file in LiteRT's interpreter."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=path, num_threads=_NUM_THREADS)
    runners = {name: interpreter.get_signature_runner(name) for name in interpreter.get_signature_list()}

    def answer(signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: values.copy() for name, values in runners[signature](**inputs).items()}

    def describe(details: Mapping) -> dict[str, list]:
        return {name: [one["dtype"].__name__, one["shape_signature"].tolist()] for name, one in details.items()}

    signatures = {
        name: {"inputs": describe(runner.get_input_details()), "outputs": describe(runner.get_output_details())}
        for name, runner in runners.items()
    }
    return answer, signatures


def load_onnx(path: str) -> Loaded:
    """Open an ONNX file in onnxruntime; its only signature has no name."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # as `bert_keras.compat.import_onnxruntime`
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _NUM_THREADS
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    outputs = [output.name for output in session.get_outputs()]
    types = {entry.name: entry.type for entry in session.get_inputs()}

    def answer(signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        del signature
        given = {
            name: inputs[name].astype("int64") if "int64" in kind else inputs[name] for name, kind in types.items()
        }
        return dict(zip(outputs, session.run(outputs, given), strict=True))

    def describe(entries: Sequence) -> dict[str, list]:
        return {entry.name: [entry.type.removeprefix("tensor(").removesuffix(")"), entry.shape] for entry in entries}

    return answer, {"": {"inputs": describe(session.get_inputs()), "outputs": describe(session.get_outputs())}}


LOADERS = {"saved_model": load_saved_model, "tflite": load_tflite, "onnx": load_onnx}

if __name__ == "__main__":
    kind, artifact, exchange = sys.argv[1:]
    serve(lambda: LOADERS[kind](artifact), exchange)
