"""Run a model on sequences: batches of similar length, outputs in the original order and without padding."""

import functools
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from bert_keras.checkpoints.finite_values import check_finite_outputs
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.batches.task_batches import SequenceTable
from bert_keras.pipelines.text.autograph import without_autograph

# larger batches are no faster on a CPU; on a GPU 64 sequences of 64 tokens are a reasonable load
_TOKENS_PER_BATCH = 4096


class SequenceRunner:
    """Run a model on any number of sequences of any length.

    Args:
        model: an encoder with a head.
        is_token_level: whether its outputs are `(B, S, ...)`, one per token, or `(B, ...)`, one per sequence.
    """

    def __init__(self, model: keras.Model, *, is_token_level: bool):
        self._model = model
        self._is_token_level = is_token_level
        if keras.backend.backend() == "tensorflow":
            self._run_eagerly = without_autograph(lambda features: model(features, training=False))
        else:
            self._run_eagerly = functools.partial(_run_on_arrays, model)
        self._graphs: dict[tuple[str, ...], Callable] = {}  # keyed by the names of the features

    def __call__(
        self, sequences: EncodedSequences, progress: Callable[[int, int], None] | None = None, *, once: bool = False
    ) -> dict[str, np.ndarray]:
        """Return the outputs for N sequences of P tokens in total, `(N, ...)` or `(P, ...)` each, keyed by name.

        Args:
            sequences: the sequences.
            progress: called with the number of sequences done, and with their total number.
            once: whether no more sequences follow; a single batch then runs eagerly, which is faster than tracing a
                graph.

        Raises:
            InputError: the model outputs NaN or infinity.
        """
        table = SequenceTable.from_sequences(sequences)
        num_outputs = len(sequences.token_ids if self._is_token_level else sequences)
        outputs: dict[str, np.ndarray] = {}
        num_done = 0
        batches = _make_batches(sequences.lengths)
        for indices in batches:
            features = table.gather_batch(tf.constant(indices))
            run = self._run_eagerly if once and len(batches) == 1 else self._get_graph(features)
            for name, values in run(features).items():
                values = keras.ops.convert_to_numpy(values)
                check_finite_outputs(self._model, values)
                if name not in outputs:
                    tail = values.shape[2 if self._is_token_level else 1 :]
                    outputs[name] = np.empty((num_outputs, *tail), values.dtype)
                if self._is_token_level:
                    _copy_real_tokens(outputs[name], values, sequences, indices)
                else:
                    outputs[name][indices] = values
            num_done += len(indices)
            if progress is not None:
                progress(num_done, len(sequences))
        return outputs

    def _get_graph(self, features: dict[str, tf.Tensor]) -> Callable:
        """Return the model as a graph of these features, traced once for batches of any shape."""
        if keras.backend.backend() != "tensorflow":
            return self._run_eagerly
        names = tuple(sorted(features))
        if names not in self._graphs:
            signature = {name: tf.TensorSpec([None, None], tf.int32) for name in names}
            self._graphs[names] = tf.function(self._run_eagerly, input_signature=[signature])
        return self._graphs[names]


def _run_on_arrays(model: keras.Model, features: dict[str, tf.Tensor]) -> dict:
    """Run a model eagerly on another backend than TensorFlow, because JAX would compile each new batch length."""
    return model({name: value.numpy() for name, value in features.items()}, training=False)


def _copy_real_tokens(flat: np.ndarray, values: np.ndarray, sequences: EncodedSequences, indices: np.ndarray) -> None:
    """Copy the outputs `(B, S, ...)` of some sequences to their tokens in `flat`, `(P, ...)`."""
    positions = np.arange(values.shape[1])
    is_real = positions < sequences.lengths[indices][:, np.newaxis]
    places = sequences.row_splits[indices][:, np.newaxis] + positions
    flat[places[is_real]] = values[is_real]


def _make_batches(lengths: np.ndarray) -> list[np.ndarray]:
    """Return the indices of the sequences of each batch, the longest first, so that lack of memory shows at once."""
    order = np.argsort(-lengths, kind="stable")
    batches, begin = [], 0
    while begin < len(order):
        end = begin + max(1, _TOKENS_PER_BATCH // int(lengths[order[begin]]))
        batches.append(order[begin:end])
        begin = end
    return batches
