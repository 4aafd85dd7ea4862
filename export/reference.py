"""`Reference`: a checkpoint, which says what its artifacts should answer."""

import keras
import numpy as np
import tensorflow as tf

from bert_keras.export.cases import IdRow, id_inputs
from bert_keras.export.ids_graph import BORDER_NAMES, ID_INPUTS
from bert_keras.export.runtimes.exchange import WIDEST
from bert_keras.export.saved_model import text_length
from bert_keras.features import border_outputs
from bert_keras.pipelines.tokenizer import BertTokenizer
from bert_keras.tasks.base import Task


class Reference:
    """A checkpoint, and what it gives for rows of ids, each of them alone and without padding.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        task: what it was fine-tuned for; None where it has none.
        with_hidden: whether an embedder's outputs have the vectors that it pools, too.
    """

    def __init__(self, model: keras.Model, tokenizer: BertTokenizer, task: Task | None, *, with_hidden: bool = False):
        self.model, self.tokenizer, self.task = model, tokenizer, task
        self.config = getattr(model, "encoder", model).config

        def run(features):
            if not with_hidden:
                return border_outputs(model(features, training=False))
            outputs = model(features, training=False, return_hidden_states=True)
            return border_outputs({"sequence_output": outputs.pop("hidden_states")[-1], **outputs})

        features = {name: tf.TensorSpec([1, None], tf.int32) for name in ID_INPUTS}
        self._run = tf.function(run, input_signature=[features], autograph=False)
        self._answers: dict[tuple[bytes, bytes], dict[str, np.ndarray]] = {}

    @property
    def text_length(self) -> int:
        """Where texts are cut, or windows of them end, in pieces."""
        return self.task.max_sequence_length if self.task else text_length(self.model, self.tokenizer)

    @property
    def of_pieces(self) -> set[str]:
        """The outputs that have something for each piece, `(B, S, ...)`."""
        outputs = self._run.get_concrete_function().structured_outputs
        return {name for name, spec in outputs.items() if len(spec.shape) > 1 and spec.shape[1] is None}

    def outputs(self, row: IdRow) -> dict[str, np.ndarray]:
        """Returns the outputs of a row by their names at the border."""
        key = (row.token_ids.tobytes(), row.segment_ids.tobytes())
        if key not in self._answers:
            inputs = id_inputs([row], self.tokenizer.pad_id)
            features = {name: tf.constant(inputs[BORDER_NAMES[name]]) for name in ID_INPUTS}
            outputs = {name: values.numpy()[0] for name, values in self._run(features).items()}
            if any(values.ndim > 1 and values.shape[-1] > WIDEST for values in outputs.values()):
                return outputs  # too large to be kept
            self._answers[key] = outputs
        return self._answers[key]
