"""`Reference`: a checkpoint, which says what its artifacts should answer."""

import copy
import functools
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from bert_keras.export.ids_graph import HUGGINGFACE_NAMES, ID_INPUTS
from bert_keras.export.parity.probe_inputs import IdRow, id_inputs
from bert_keras.export.saved_model.text_model import text_length
from bert_keras.features import to_huggingface_names
from bert_keras.modeling import BertEmbedder
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.tasks.base import Task

_OWN_NAMES = {"sentence_embedding": "embedding"}  # of outputs that tasks read
_MOST_KEPT_BYTES = 1 << 29  # of outputs; logits over a vocabulary take 62 MB for 512 tokens


class Reference:
    """A checkpoint, and what it gives for sequences of ids, each of them alone and without padding.

    Outputs are kept, so that all artifacts of a checkpoint are compared with one computation.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        task: what it was fine-tuned for; None where it has none.
    """

    def __init__(self, model: keras.Model, tokenizer: BertTokenizer, task: Task | None):
        self.model, self.tokenizer, self.task = model, tokenizer, task
        self.config = getattr(model, "encoder", model).config

        def run(features):
            if not isinstance(model, BertEmbedder):
                return to_huggingface_names(model(features, training=False))
            outputs = model(features, training=False, return_hidden_states=True)  # what it pools is in ONNX files, too
            return to_huggingface_names({"sequence_output": outputs.pop("hidden_states")[-1], **outputs})

        features = {name: tf.TensorSpec([1, None], tf.int32) for name in ID_INPUTS}
        self._run = tf.function(run, input_signature=[features], autograph=False)
        self._answers: dict[tuple[bytes, bytes], dict[str, np.ndarray]] = {}
        self._kept_bytes = 0

    def with_task(self, task: Task | None) -> "Reference":
        """Returns the same checkpoint with another task, with the outputs that were computed."""
        other = copy.copy(self)
        other.task = task
        return other

    @property
    def text_length(self) -> int:
        """Where texts are cut, or windows of them end, in tokens."""
        return self.task.max_sequence_length if self.task else text_length(self.model, self.tokenizer)

    @functools.cached_property
    def of_tokens(self) -> set[str]:
        """The outputs that have something for each token, `(B, S, ...)`."""
        outputs = self._run.get_concrete_function().structured_outputs
        return {name for name, spec in outputs.items() if len(spec.shape) > 1 and spec.shape[1] is None}

    def outputs(self, row: IdRow, prompt_length: int = 0) -> dict[str, np.ndarray]:
        """Returns the outputs of a sequence by their names at the border.

        `prompt_length`: how many tokens at its beginning a sentence vector is not made of.
        """
        if prompt_length:
            return self._outputs_behind(row, prompt_length)
        key = (row.token_ids.tobytes(), row.segment_ids.tobytes())
        if key in self._answers:
            return self._answers[key]
        inputs = id_inputs([row], self.tokenizer.pad_id)
        features = {name: tf.constant(inputs[HUGGINGFACE_NAMES[name]]) for name in ID_INPUTS}
        outputs = {name: values.numpy()[0] for name, values in self._run(features).items()}
        num_bytes = sum(values.nbytes for values in outputs.values())
        if self._kept_bytes + num_bytes <= _MOST_KEPT_BYTES:
            self._answers[key] = outputs
            self._kept_bytes += num_bytes
        return outputs

    def _outputs_behind(self, row: IdRow, prompt_length: int) -> dict[str, np.ndarray]:
        inputs = id_inputs([row], self.tokenizer.pad_id)
        features = {name: tf.constant(inputs[HUGGINGFACE_NAMES[name]]) for name in ID_INPUTS}
        places = tf.range(len(row.token_ids))[tf.newaxis]
        features["pooling_mask"] = tf.cast(places >= prompt_length, tf.int32)
        outputs = to_huggingface_names(self.model(features, training=False))
        return {name: values.numpy()[0] for name, values in outputs.items()}

    def outputs_of_rows(self, rows: EncodedSequences) -> dict[str, np.ndarray]:
        """Returns the outputs of N rows of P tokens in all, `(N, ...)` or `(P, ...)` each, as a task reads them."""
        return joined_outputs(rows, self.outputs, self.of_tokens.__contains__)


def joined_outputs(
    rows: EncodedSequences, outputs: Callable[..., dict[str, np.ndarray]], of_tokens: Callable[[str], bool]
) -> dict[str, np.ndarray]:
    """Runs rows one by one and joins what they give, under the names that the model has.

    Args:
        rows: N rows of P tokens in all.
        outputs: returns the outputs of one row, by their names at the border; it is also given `prompt_length` where
            rows have one.
        of_tokens: whether an output of this name has something for each token, or for the row.
    """
    collected: dict[str, list[np.ndarray]] = {}
    is_second = rows.is_second
    lengths = [()] * len(rows) if rows.prompt_lengths is None else rows.prompt_lengths[:, np.newaxis].tolist()
    for begin, end, prompt_length in zip(rows.row_splits[:-1], rows.row_splits[1:], lengths, strict=True):
        row = IdRow(rows.token_ids[begin:end], is_second[begin:end].astype(np.int32))
        for name, values in outputs(row, *prompt_length).items():
            collected.setdefault(name, []).append(values[: end - begin] if of_tokens(name) else values[np.newaxis])
    return {_OWN_NAMES.get(name, name): np.concatenate(values) for name, values in collected.items()}
