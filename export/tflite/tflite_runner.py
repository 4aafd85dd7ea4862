"""`TfliteRunner`: run sequences through a TFLite file one by one, as `SequenceRunner` runs them through the model."""

import dataclasses
import os

import keras
import numpy as np

from bert_keras.errors import MissingExtraError
from bert_keras.export.parity.probe_inputs import IdSequence, pad_sequences
from bert_keras.export.parity.reference import run_one_by_one
from bert_keras.export.runtimes import run_tflite
from bert_keras.export.tflite.to_tflite import SIGNATURE
from bert_keras.modeling import BertClassifier
from bert_keras.pipelines.batches.encoding import EncodedSequences

_MIN_PROBABILITY = 1e-30  # so that there is a logarithm


def recover_logits(model: keras.Model, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Convert a file's outputs back to its model's: a classifier's probabilities to logits, up to a constant."""
    if not isinstance(model, BertClassifier):
        return outputs
    if model.problem == "regression":
        return {"logits": outputs["scores"]}
    probabilities = np.maximum(outputs["probabilities"].astype(np.float64), _MIN_PROBABILITY)
    if model.problem == "multi_label":
        return {"logits": np.log(probabilities) - np.log(np.maximum(1 - probabilities, _MIN_PROBABILITY))}
    logits = np.log(probabilities)
    return {"logits": logits - logits.mean(axis=-1, keepdims=True)}


class TfliteRunner:
    """Run a file with one signature on sequences.

    Args:
        path: the file.
        model: the model that it was converted from.
        length: S.
        is_token_level: whether the model has an output for each token, or one for the sequence.

    Raises:
        MissingExtraError: LiteRT's interpreter is not installed.
    """

    def __init__(self, path: str | os.PathLike, model: keras.Model, length: int, *, is_token_level: bool):
        try:
            self._answer, _ = run_tflite.load(str(path))
        except ModuleNotFoundError:
            raise MissingExtraError("running a TFLite file", "ai-edge-litert", "tflite") from None
        self._model, self._length, self._is_token_level = model, length, is_token_level

    def __call__(self, encoded: EncodedSequences) -> dict[str, np.ndarray]:
        """Return the outputs for N sequences of P tokens in all, `(N, ...)` or `(P, ...)`, keyed by name."""
        encoded = dataclasses.replace(encoded, prompt_lengths=None)  # a file pools all tokens, also those of a prompt

        def run(sequence: IdSequence) -> dict[str, np.ndarray]:
            answer = self._answer(SIGNATURE, pad_sequences([sequence], encoded.pad_id, self._length))
            return {name: values[0] for name, values in recover_logits(self._model, answer).items()}

        return run_one_by_one(encoded, run, lambda _: self._is_token_level)
