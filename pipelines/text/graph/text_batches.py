"""Batches of texts: checked, and run through a function eagerly, as a graph, or in chunks on every core."""

import collections
import concurrent.futures
import contextlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.pipelines.text.token_arrays import as_text_array

EAGER_BATCHES = 8  # small batches that run op by op before a graph is traced
_EAGER_TEXTS = 32  # texts of a small batch
CHUNK_BYTES = 500_000  # of text; smaller chunks spend their time in calls, larger ones do not fit into the cache

RaggedTensors = tuple[tf.RaggedTensor, ...]

# For functions that TensorFlow traces as they are. AutoGraph rewrites Python conditions and loops for tensors: these
# functions have none, and the rewriting of a `tf.data` pipeline takes 0.4 s the first time.
without_autograph = tf.autograph.experimental.do_not_convert


class BatchRunner:
    """Run functions of text batches in the fastest way.

    Eager batches run as a graph, because op by op a text with an accent takes ten times as long, and large batches run
    in chunks on every core. The first small eager batches run op by op: a text with an accent takes 0.01 to 0.05 s,
    tracing takes 0.3 to 1.1 s.
    """

    def __init__(self):
        self._graphs: dict[tuple, Callable[[tf.Tensor], RaggedTensors]] = {}
        self._num_eager_batches: collections.Counter[tuple] = collections.Counter()

    def run(self, function: Callable[..., RaggedTensors], texts: tf.Tensor, *options: Any) -> RaggedTensors:
        """Return `function(texts, *options)`.

        Args:
            function: a method from `(B,)` strings to ragged tensors of B rows, each made of one text alone.
            texts: `(B,)` strings.
            *options: hashable arguments.
        """
        if tf.executing_eagerly():
            key = (function.__name__, *options)
            is_small = texts.shape[0] <= _EAGER_TEXTS
            if is_small and key not in self._graphs and self._num_eager_batches[key] < EAGER_BATCHES:
                self._num_eager_batches[key] += 1
                return tuple(function(texts, *options))
            if key not in self._graphs:
                run = without_autograph(lambda texts: function(texts, *options))
                self._graphs[key] = tf.function(run, input_signature=[tf.TensorSpec([None], tf.string)])
            return map_in_chunks(self._graphs[key], texts)
        results = function(texts, *options)
        if texts.shape.rank == 1 and texts.shape[0] is not None:  # tensorflow-text drops the static batch size
            for ragged in results:
                ragged.row_splits.set_shape([texts.shape[0] + 1])
        return results


def map_in_chunks(function: Callable[[tf.Tensor], RaggedTensors], texts: tf.Tensor) -> RaggedTensors:
    """Return `function(texts)`, computed in chunks by as many threads as TensorFlow may use.

    Chunks use less memory than one large batch, and every core.

    Args:
        function: a graph, from `(B,)` strings to ragged tensors of B rows, each made of one text alone.
        texts: `(B,)` strings, eager.
    """
    lengths = tf.strings.length(texts).numpy().astype("int64")
    chunks_of_texts = (lengths.cumsum() - lengths) // CHUNK_BYTES
    starts = [0, *(chunks_of_texts[1:] != chunks_of_texts[:-1]).nonzero()[0] + 1]
    if len(starts) == 1:
        return function(texts)
    chunks = [texts[start:end] for start, end in zip(starts, [*starts[1:], len(lengths)], strict=True)]
    num_threads = tf.config.threading.get_inter_op_parallelism_threads() or os.cpu_count()
    with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
        results = list(pool.map(function, chunks))
    return tuple(tf.concat(parts, axis=0) for parts in zip(*results, strict=True))


def as_text_tensor(texts: Any) -> tf.Tensor:
    """Return a batch of texts, a list, an array or a tensor, as `(B,)` strings.

    Raises:
        InputError: `texts` is not a batch of strings.
    """
    if not isinstance(texts, tf.Tensor):
        array = np.asarray(texts, dtype=object)
        if array.ndim == 1 and set(map(type, array)) <= {str, bytes}:
            # five times as fast as a check of each text first; half a surrogate pair is reported by `as_text_array`
            with contextlib.suppress(ValueError):
                return tf.constant(array, tf.string)
        return tf.constant(as_text_array(texts), tf.string)
    if texts.dtype != tf.string or texts.shape.rank not in (1, None):
        raise InputError(
            f"the tokenizer received a {texts.dtype.name} tensor of shape {texts.shape}; expected a batch of strings, "
            "shape (B,): pass one text per example"
        )
    return texts
