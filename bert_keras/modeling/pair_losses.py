"""Losses of sentence vectors. Rows of a batch are pairs: row 2i and row 2i + 1 are the two texts of pair i."""

import keras
from keras import ops

_SCALE = 20.0  # of cosines before the softmax; sentence-transformers' default


@keras.saving.register_keras_serializable(package="bert_keras")
class CosineError(keras.losses.Loss):
    """The squared difference of the cosine of each pair and its score (Reimers & Gurevych 2019, 3, "Regression").

    Labels (B,): the score of the pair, from -1 to 1, twice. Vectors (B, D) of any length. Returns (B,).
    """

    def __init__(self, name: str = "cosine_error", reduction: str = "none", **kwargs):
        super().__init__(name=name, reduction=reduction, **kwargs)

    def call(self, y_true, y_pred):
        first, second = _unit_pairs(y_pred)
        errors = ops.square(ops.sum(first * second, axis=-1) - ops.reshape(y_true, (-1, 2))[:, 0])
        return ops.repeat(errors, 2, axis=0)


@keras.saving.register_keras_serializable(package="bert_keras")
class InBatchContrast(keras.losses.Loss):
    """Cross-entropy of finding each pair's second text among those of the batch (Henderson et al. 2017, 4).

    Labels are not looked at: every pair is one that belongs together. Vectors (B, D) of any length. Returns (B,).
    """

    def __init__(self, name: str = "in_batch_contrast", reduction: str = "none", **kwargs):
        super().__init__(name=name, reduction=reduction, **kwargs)

    def call(self, y_true, y_pred):
        first, second = _unit_pairs(y_pred)
        cosines = ops.matmul(first, ops.transpose(second)) * _SCALE  # (pairs, pairs)
        errors = -ops.diagonal(ops.log_softmax(cosines, axis=-1))
        return ops.repeat(errors, 2, axis=0)


def _unit_pairs(vectors):
    """Returns the vectors of the first and of the second texts (B / 2, D), each of length 1."""
    vectors = ops.cast(vectors, "float32")
    lengths = ops.sqrt(ops.maximum(ops.sum(ops.square(vectors), axis=-1, keepdims=True), 1e-12))
    pairs = ops.reshape(vectors / lengths, (-1, 2, ops.shape(vectors)[-1]))
    return pairs[:, 0], pairs[:, 1]
