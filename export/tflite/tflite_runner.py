"""`TfliteRows`: rows through a TFLite file, one by one, as `SequenceRunner` runs them through the model."""

import dataclasses
import functools
import os

import numpy as np

from bert_keras.errors import MissingExtraError
from bert_keras.export.parity.probe_inputs import IdRow, id_inputs
from bert_keras.export.parity.reference import joined_outputs
from bert_keras.export.runtimes import run_tflite
from bert_keras.export.tflite.to_tflite import SIGNATURE
from bert_keras.modeling import BertClassifier
from bert_keras.pipelines.batches.encoding import EncodedSequences

_SMALLEST = 1e-30  # of a probability, that there is a logarithm


def logits_of(model, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the outputs of a file as those of its model: a classifier's probabilities as logits, up to a shift."""
    if not isinstance(model, BertClassifier):
        return outputs
    if model.problem == "regression":
        return {"logits": outputs["scores"]}
    probabilities = np.maximum(outputs["probabilities"].astype(np.float64), _SMALLEST)
    if model.problem == "multi_label":
        return {"logits": np.log(probabilities) - np.log(np.maximum(1 - probabilities, _SMALLEST))}
    logits = np.log(probabilities)
    return {"logits": logits - logits.mean(axis=-1, keepdims=True)}


class TfliteRows:
    """Runs a file of one length on rows.

    Args:
        path: the file.
        model: what it was made of.
        length: S.
        of_tokens: whether the task's outputs are of tokens, or of rows.

    Raises:
        MissingExtraError: LiteRT's interpreter is not installed.
    """

    def __init__(self, path: str | os.PathLike, model, length: int, *, of_tokens: bool):
        try:
            self._answer, _ = run_tflite.load(str(path))
        except ModuleNotFoundError:
            raise MissingExtraError("running a TFLite file", "ai-edge-litert", "tflite") from None
        self._model, self._length, self._of_tokens = model, length, of_tokens

    def __call__(self, rows: EncodedSequences) -> dict[str, np.ndarray]:
        """Returns what the file gives for N rows of P tokens in all, `(N, ...)` or `(P, ...)` each, by name."""
        rows = dataclasses.replace(rows, prompt_lengths=None)  # a file pools all tokens, a prompt's too
        return joined_outputs(rows, functools.partial(self._outputs, rows.pad_id), lambda _: self._of_tokens)

    def _outputs(self, pad_id: int, row: IdRow) -> dict[str, np.ndarray]:
        answer = self._answer(SIGNATURE, id_inputs([row], pad_id, self._length))
        return {name: values[0] for name, values in logits_of(self._model, answer).items()}
