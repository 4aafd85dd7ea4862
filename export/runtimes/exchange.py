"""Requests and answers as files between a verdict and the program that runs an artifact.

A request is the name of a signature and its inputs by name. Strings travel as bytes and their ends, since numpy's own
strings lose what is no UTF-8 and a NUL at the end.
"""

import json
import sys
import time

import numpy as np

WIDEST = 1000  # values for each token; an output with more is not told whole
_BYTES, _ENDS, _SHAPE = "bytes", "ends", "shape"


def write_arrays(path, arrays):
    """Writes `{(call, name): array}`; arrays of strings are arrays of `bytes` objects."""
    flat = {}
    for (call, name), values in arrays.items():
        if values.dtype.kind != "O":
            flat[f"{call}/{name}/values"] = values
            continue
        strings = list(values.ravel())
        flat[f"{call}/{name}/{_BYTES}"] = np.frombuffer(b"".join(strings), np.uint8)
        flat[f"{call}/{name}/{_ENDS}"] = np.cumsum([len(string) for string in strings], dtype=np.int64)
        flat[f"{call}/{name}/{_SHAPE}"] = np.array(values.shape, np.int64)
    np.savez(path, **flat)


def read_arrays(path):
    """Reads what `write_arrays` wrote."""
    parts = {}
    with np.load(path) as file:
        for key, values in file.items():
            call, name, part = key.split("/")
            parts.setdefault((int(call), name), {})[part] = values
    return {key: _joined(**of_array) for key, of_array in parts.items()}


def _kept(values):
    return values[:, kept_places(values.shape)] if values.ndim == 3 else values


def _joined(values=None, bytes=None, ends=None, shape=None):
    if values is not None:
        return values
    whole, starts = bytes.tobytes(), [0, *ends][:-1]
    strings = np.empty(len(ends), object)
    strings[:] = [whole[start:end] for start, end in zip(starts, ends, strict=True)]
    return strings.reshape(shape)


def kept_places(shape):
    """Returns which tokens of an output `(B, S, V)` are told: about eight of a row where V is a vocabulary.

    All of them would take 2 GB for 200 rows.
    """
    return slice(None, None, max(1, shape[1] // 8) if len(shape) == 3 and shape[2] > WIDEST else 1)


def serve(load, folder):
    """Answers the requests of a folder, and writes how long loading and the timed ones took.

    The timed requests come last. They wait for a line on standard input, so that whoever asks is idle meanwhile; where
    the input ends instead, nobody waits for the answers any more.

    Args:
        load: opens the artifact and returns a function of a signature's name and its inputs, that returns outputs by
            name, and what the artifact says of its inputs and outputs.
        folder: `calls.json`, the signature of each call and how many are timed, and `requests.npz`; gets
            `answers.npz`, `facts.json`.
    """
    with open(f"{folder}/calls.json", encoding="utf-8") as file:
        calls = json.load(file)
    requests = [(signature, {}) for signature in calls["signatures"]]
    for (number, name), values in read_arrays(f"{folder}/requests.npz").items():
        requests[number][1][name] = values
    start = time.perf_counter()
    answer, described = load()
    load_s = time.perf_counter() - start
    first_timed = len(requests) - calls["num_timed"]
    answers, seconds = {}, []
    for call, (signature, inputs) in enumerate(requests):
        if call == first_timed and not sys.stdin.readline():
            return
        start = time.perf_counter()
        outputs = answer(signature, inputs)
        seconds.append(time.perf_counter() - start)
        if call < first_timed:
            answers.update({(call, name): _kept(values) for name, values in outputs.items()})
    write_arrays(f"{folder}/answers.npz", answers)
    with open(f"{folder}/facts.json", "w", encoding="utf-8") as file:
        json.dump({"load_s": load_s, "seconds": seconds[first_timed:], "signatures": described}, file)
