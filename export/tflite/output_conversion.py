"""`OutputConversion`: how the outputs of a TFLite file differ from those of its model, in the graph and in NumPy."""

import keras
import numpy as np
import tensorflow as tf

from bert_keras.export.parity.reference import Outputs
from bert_keras.heads.known_heads import get_head
from bert_keras.heads.task import softmax

_MIN_PROBABILITY = 1e-30  # so that there is a logarithm


class OutputConversion:
    """The outputs of files that have those of the model; a head whose files have others names a subclass.

    All outputs are keyed by Hugging Face name.

    Args:
        model: the model.

    Attributes:
        names: the names of a file's outputs.
    """

    def __init__(self, model: keras.Model):
        self.names: tuple[str, ...] = get_head(type(model).__name__).outputs

    def convert(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Convert the outputs of the model in the graph of a file."""
        return dict(outputs)

    def expect(self, outputs: Outputs) -> Outputs:
        """Return the outputs of the model for a sequence as those to compare with a file's, after `complete`."""
        return outputs

    def complete(self, outputs: Outputs) -> Outputs:
        """Add outputs to compare to those of a file for a batch."""
        return outputs

    def recover(self, outputs: Outputs) -> Outputs:
        """Convert the outputs of a file for a batch back to those of the model."""
        return outputs


class ClassOutputs(OutputConversion):
    """The outputs of a classifier's files: one, as MediaPipe requires.

    It is `probabilities` `(B, C)`, or `scores` `(B, C)` for regression. The logits of a single label can be recovered
    up to a constant.
    """

    def __init__(self, model: keras.Model):
        self._problem = model.problem
        self.names = ("scores",) if model.problem == "regression" else ("probabilities",)

    def convert(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Convert logits in the graph of a file."""
        functions = {"single_label": tf.nn.softmax, "multi_label": tf.sigmoid, "regression": tf.identity}
        return {self.names[0]: functions[self._problem](outputs["logits"])}

    def expect(self, outputs: Outputs) -> Outputs:
        """Return the output of a file and, for a single label, the logits with a mean of 0."""
        logits = outputs["logits"]
        if self._problem == "regression":
            return {"scores": logits}
        if self._problem == "multi_label":
            return {"probabilities": 1 / (1 + np.exp(-logits))}
        return {"probabilities": softmax(logits), "logits": logits - logits.mean()}

    def complete(self, outputs: Outputs) -> Outputs:
        """Add the logits of a single label."""
        has_logits = self._problem == "single_label" and "probabilities" in outputs
        return {**outputs, **self.recover(outputs)} if has_logits else outputs

    def recover(self, outputs: Outputs) -> Outputs:
        """Return the logits; those of a single label have a mean of 0."""
        if self._problem == "regression":
            return {"logits": outputs["scores"]}
        probabilities = np.maximum(outputs["probabilities"].astype(np.float64), _MIN_PROBABILITY)
        logits = np.log(probabilities)
        if self._problem == "multi_label":
            return {"logits": logits - np.log(np.maximum(1 - probabilities, _MIN_PROBABILITY))}
        return {"logits": logits - logits.mean(axis=-1, keepdims=True)}


def get_output_conversion(model: keras.Model) -> OutputConversion:
    """Return the conversion of a model's outputs to those of a TFLite file."""
    head = get_head(type(model).__name__)
    return head.load("file_outputs")(model) if head.file_outputs else OutputConversion(model)
