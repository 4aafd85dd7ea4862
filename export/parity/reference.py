"""`Reference`: the checkpoint that artifacts are compared with. It computes the expected outputs once for all."""

import copy
import functools
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from bert_keras.checkpoints.building import get_encoder
from bert_keras.config import BertConfig
from bert_keras.export.ids_graph import HUGGINGFACE_NAMES, ID_INPUTS, run_model
from bert_keras.export.parity.probe_inputs import IdSequence, pad_sequences
from bert_keras.export.saved_model.to_saved_model import get_text_length
from bert_keras.heads.head import Head
from bert_keras.heads.known_heads import get_head
from bert_keras.heads.task import Task
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.text.tokenizer import BertTokenizer

_TASK_NAMES = {"sentence_embedding": "embedding"}  # Hugging Face names of outputs that tasks know under ours
_MAX_CACHED_BYTES = 1 << 29  # of outputs; logits over a vocabulary take 62 MB for 512 tokens

Outputs = dict[str, np.ndarray]  # of one sequence, keyed by Hugging Face name


class Reference:
    """A checkpoint and its outputs for sequences of ids, each computed alone and without padding.

    Outputs are cached, so that all artifacts of a checkpoint are compared with one computation.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        task: the task that it was fine-tuned for, if any.
    """

    def __init__(self, model: keras.Model, tokenizer: BertTokenizer, task: Task | None):
        self.model, self.tokenizer, self.task = model, tokenizer, task
        features = {name: tf.TensorSpec([1, None], tf.int32) for name in ID_INPUTS}
        run = functools.partial(run_model, model, with_hidden_states=self.head.exports_hidden_states)
        self._run = tf.function(run, input_signature=[features], autograph=False)
        self._cache: dict[tuple[bytes, bytes], Outputs] = {}
        self._cached_bytes = 0

    @property
    def head(self) -> Head:
        """The record of the model's head."""
        return get_head(type(self.model).__name__)

    @property
    def config(self) -> BertConfig:
        """The encoder's configuration."""
        return get_encoder(self.model).config

    def with_task(self, task: Task | None) -> "Reference":
        """Return the same checkpoint with another task. The two share the cached outputs."""
        other = copy.copy(self)
        other.task = task
        return other

    @property
    def text_length(self) -> int:
        """The number of tokens at which texts are cut or split into windows."""
        return self.task.max_sequence_length if self.task else get_text_length(self.model, self.tokenizer)

    @functools.cached_property
    def token_outputs(self) -> set[str]:
        """Names of the outputs that have a value for each token, `(B, S, ...)`."""
        outputs = self._run.get_concrete_function().structured_outputs
        return {name for name, spec in outputs.items() if len(spec.shape) > 1 and spec.shape[1] is None}

    def compute_outputs(self, sequence: IdSequence, prompt_length: int = 0) -> Outputs:
        """Return the outputs for one sequence.

        Args:
            sequence: the ids.
            prompt_length: how many tokens at the start are left out of the sentence vector.
        """
        inputs = pad_sequences([sequence], self.tokenizer.pad_id)
        features = {name: tf.constant(inputs[HUGGINGFACE_NAMES[name]]) for name in ID_INPUTS}
        if prompt_length:
            positions = tf.range(len(sequence.token_ids))[tf.newaxis]
            features["pooling_mask"] = tf.cast(positions >= prompt_length, tf.int32)
            return _take_first(run_model(self.model, features))
        key = (sequence.token_ids.tobytes(), sequence.segment_ids.tobytes())
        if key in self._cache:
            return self._cache[key]
        outputs = _take_first(self._run(features))
        num_bytes = sum(values.nbytes for values in outputs.values())
        if self._cached_bytes + num_bytes <= _MAX_CACHED_BYTES:
            self._cache[key] = outputs
            self._cached_bytes += num_bytes
        return outputs

    def drop_hidden_states(self, outputs: Outputs) -> Outputs:
        """Return the outputs that SavedModels and TFLite files have; only ONNX files also have what a head pools."""
        if not self.head.exports_hidden_states:
            return outputs
        return {name: values for name, values in outputs.items() if name != "last_hidden_state"}

    def compute_task_outputs(self, encoded: EncodedSequences) -> dict[str, np.ndarray]:
        """Return the outputs for N sequences of P tokens in all, `(N, ...)` or `(P, ...)`, under a task's names."""
        return run_one_by_one(encoded, self.compute_outputs, self.token_outputs.__contains__)


def run_one_by_one(
    encoded: EncodedSequences, compute_outputs: Callable[..., Outputs], is_token_output: Callable[[str], bool]
) -> dict[str, np.ndarray]:
    """Compute the outputs of sequences one by one and join them, under the names that tasks use.

    Args:
        encoded: N sequences of P tokens in all.
        compute_outputs: returns the outputs of one sequence. Its second argument is the length of the prompt, passed
            only if the sequences have prompts.
        is_token_output: whether the output of a name has a value for each token, or one for the sequence.
    """
    collected: dict[str, list[np.ndarray]] = {}
    is_second, splits = encoded.is_second, encoded.row_splits
    prompts = [()] * len(encoded) if encoded.prompt_lengths is None else encoded.prompt_lengths[:, np.newaxis].tolist()
    for begin, end, prompt_length in zip(splits[:-1], splits[1:], prompts, strict=True):
        sequence = IdSequence(encoded.token_ids[begin:end], is_second[begin:end].astype(np.int32))
        for name, values in compute_outputs(sequence, *prompt_length).items():
            joinable = values[: end - begin] if is_token_output(name) else values[np.newaxis]
            collected.setdefault(name, []).append(joinable)
    return {_TASK_NAMES.get(name, name): np.concatenate(values) for name, values in collected.items()}


def _take_first(outputs: dict[str, tf.Tensor]) -> Outputs:
    """Return the outputs of the only sequence of a batch."""
    return {name: values.numpy()[0] for name, values in outputs.items()}
