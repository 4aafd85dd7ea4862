"""Runs a SavedModel with TensorFlow and tensorflow-text alone, as a server would: no import of ours.

    python plain_runtime.py SAVED_MODEL REQUESTS.npz ANSWERS.npz

Arrays in REQUESTS are named `call/signature/input`, those in ANSWERS `call/output`.
"""

import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of the tokenizer


def main(saved_model: str, requests_path: str, answers_path: str) -> None:
    """Answers each call in turn."""
    calls = {}
    for name, value in np.load(requests_path).items():
        call, signature, argument = name.split("/")
        calls.setdefault((call, signature), {})[argument] = value
    model, answers = tf.saved_model.load(saved_model), {}
    for (call, signature), arguments in calls.items():
        tensors = {name: tf.constant(_bytes(value)) for name, value in arguments.items()}
        for name, value in model.signatures[signature](**tensors).items():
            answers[f"{call}/{name}"] = _text(value.numpy())
    np.savez(answers_path, **answers)


def _bytes(value: np.ndarray) -> np.ndarray:
    return np.char.encode(value, "utf-8") if value.dtype.kind == "U" else value


def _text(value: np.ndarray) -> np.ndarray:
    return np.char.decode(value.astype("S"), "utf-8") if value.dtype.kind == "O" else value


if __name__ == "__main__":
    main(*sys.argv[1:])
