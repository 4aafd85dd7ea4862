"""Losses between a teacher and its student: of classes, of labels, of vectors, of attention.

The formulas are in docs/reference/formulas.md. The teacher's values are `y_true`. All are 0 where both agree.
"""

import keras
from keras import ops

from bert_keras.features import Tensor

_SMALLEST = 1e-30  # above the smallest float32, so that the logarithm of an attention probability is finite


class SoftmaxDivergence(keras.losses.Loss):
    """Kullback-Leibler divergence of the softmax of logits `(..., C)`, times the squared temperature.

    Hinton et al. 2015, 2: dividing the logits by T divides the gradients by about T squared.
    """

    def __init__(self, temperature: float, name: str = "softmax_divergence", reduction: str = "none", **kwargs):
        super().__init__(name=name, reduction=reduction, **kwargs)
        self.temperature = temperature

    def call(self, y_true: Tensor, y_pred: Tensor):
        """Compute the loss over the last axis."""
        teacher = ops.log_softmax(y_true / self.temperature, axis=-1)
        student = ops.log_softmax(y_pred / self.temperature, axis=-1)
        return ops.sum(ops.exp(teacher) * (teacher - student), axis=-1) * self.temperature**2


class BernoulliDivergence(SoftmaxDivergence):
    """Kullback-Leibler divergence of the sigmoid of each logit `(..., C)`, averaged, times the squared temperature."""

    def __init__(self, temperature: float, name: str = "bernoulli_divergence", reduction: str = "none", **kwargs):
        super().__init__(temperature, name=name, reduction=reduction, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor):
        """Compute the loss over the last axis."""
        teacher, student = y_true / self.temperature, y_pred / self.temperature
        yes = ops.sigmoid(teacher) * (ops.log_sigmoid(teacher) - ops.log_sigmoid(student))
        no = ops.sigmoid(-teacher) * (ops.log_sigmoid(-teacher) - ops.log_sigmoid(-student))
        return ops.mean(yes + no, axis=-1) * self.temperature**2


class SquaredDistance(keras.losses.Loss):
    """Squared distance of vectors `(..., D)`; of unit vectors it is twice 1 minus the cosine."""

    def __init__(self, name: str = "squared_distance", reduction: str = "none", **kwargs):
        super().__init__(name=name, reduction=reduction, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor):
        """Compute the loss over the last axis."""
        return ops.sum(ops.square(y_true - y_pred), axis=-1)


class AttentionDivergence(keras.losses.Loss):
    """Kullback-Leibler divergence of attention probabilities `(B, N, S, S)` (Wang et al. 2020, 3.1).

    Returns the mean over the heads for each query, `(B, S)`. Jiao et al. (2020) compare the scores before the softmax.
    """

    def __init__(self, name: str = "attention_divergence", reduction: str = "none", **kwargs):
        super().__init__(name=name, reduction=reduction, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor):
        """Compute the loss of each query."""
        logarithms = ops.log(ops.maximum(y_true, _SMALLEST)) - ops.log(ops.maximum(y_pred, _SMALLEST))
        return ops.mean(ops.sum(y_true * logarithms, axis=-1), axis=1)
