"""Rows through a model: rows of like length together, and what it gives back in their order, without padding."""

import functools
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from bert_keras.checkpoints.finite_values import check_finite_outputs
from bert_keras.pipelines.batches.encoding import EncodedSequences
from bert_keras.pipelines.batches.task_batches import SequenceTable
from bert_keras.pipelines.text.autograph import without_autograph

_TOKENS_A_BATCH = 4096  # on a CPU more gains nothing; on a GPU 64 rows of 64 tokens are a fair load too


class SequenceRunner:
    """Runs a model on rows of any number and length.

    Args:
        model: an encoder with a head.
        is_token_level: whether its outputs are of tokens, `(B, S, ...)`, or of rows, `(B, ...)`.
    """

    def __init__(self, model: keras.Model, *, is_token_level: bool):
        self._model = model
        self._is_token_level = is_token_level
        self._run_eagerly = without_autograph(lambda features: model(features, training=False))
        self._graphs: dict[tuple[str, ...], Callable] = {}  # by the names of the features
        if keras.backend.backend() != "tensorflow":
            self._run_eagerly = functools.partial(_run_on_arrays, model)

    def __call__(
        self, rows: EncodedSequences, progress: Callable[[int, int], None] | None = None, *, once: bool = False
    ) -> dict[str, np.ndarray]:
        """Returns what the model gives for N rows of P tokens in all, `(N, ...)` or `(P, ...)` each, by name.

        Args:
            rows: the rows.
            progress: is told how many rows are done, and of how many.
            once: no more rows will follow; a single batch then runs op by op, which takes less than tracing a graph.

        Raises:
            InputError: the model computes NaN or infinity.
        """
        table = SequenceTable.from_sequences(rows)
        outputs: dict[str, np.ndarray] = {}
        done = 0
        batches = _batches(rows.lengths)
        for numbers in batches:
            features = table.gather_batch(tf.constant(numbers))
            run = self._run_eagerly if once and len(batches) == 1 else self._graph(features)
            for name, values in run(features).items():
                values = keras.ops.convert_to_numpy(values)
                check_finite_outputs(self._model, values)
                if name not in outputs:
                    tail = values.shape[2 if self._is_token_level else 1 :]
                    outputs[name] = np.empty(
                        (len(rows.token_ids if self._is_token_level else rows), *tail), values.dtype
                    )
                if self._is_token_level:
                    self._put(outputs[name], values, rows, numbers)
                else:
                    outputs[name][numbers] = values
            done += len(numbers)
            if progress is not None:
                progress(done, len(rows))
        return outputs

    def _graph(self, features: dict[str, tf.Tensor]) -> Callable:
        """Returns the model as a graph of these features, traced once for batches of any shape."""
        if keras.backend.backend() != "tensorflow":
            return self._run_eagerly
        names = tuple(sorted(features))
        if names not in self._graphs:
            signature = {name: tf.TensorSpec([None, None], tf.int32) for name in names}
            self._graphs[names] = tf.function(self._run_eagerly, input_signature=[signature])
        return self._graphs[names]

    def _put(self, flat: np.ndarray, values: np.ndarray, rows: EncodedSequences, numbers: np.ndarray) -> None:
        lengths = rows.lengths[numbers]
        is_real = np.arange(values.shape[1]) < lengths[:, np.newaxis]
        places = rows.row_splits[numbers][:, np.newaxis] + np.arange(values.shape[1])
        flat[places[is_real]] = values[is_real]


def _run_on_arrays(model: keras.Model, features: dict[str, tf.Tensor]) -> dict:
    """Run a model of another backend than TensorFlow, op by op: JAX would compile each new length of a batch."""
    return model({name: value.numpy() for name, value in features.items()}, training=False)


def _batches(lengths: np.ndarray) -> list[np.ndarray]:
    """Returns the numbers of the rows of each batch: the longest first, so that memory shows at once if it lasts."""
    order = np.argsort(-lengths, kind="stable")
    batches, begin = [], 0
    while begin < len(order):
        end = begin + max(1, _TOKENS_A_BATCH // int(lengths[order[begin]]))
        batches.append(order[begin:end])
        begin = end
    return batches
