"""Losses and metrics: global-batch mean, cross-entropy over a large vocabulary, top-1 accuracy, pairs of vectors."""

from collections.abc import Callable

import keras
from keras import ops

from bert_keras.distribution import get_current_step
from bert_keras.features import Tensor

if keras.backend.backend() == "tensorflow":
    from bert_keras.modeling.tensorflow_kernels import in_own_graph
else:

    def in_own_graph(function: Callable):
        """Return `function`: other backends keep no graphs."""
        return function


_SCALE = 20.0  # multiplies cosines before the softmax; the default of sentence-transformers


@keras.saving.register_keras_serializable(package="bert_keras", name="StepMean")  # the name in saved `.keras` files
class GlobalBatchMean(keras.losses.Loss):
    """Weighted mean of a loss over the global batch; 0 if all weights are 0.

    A micro-batch or replica contributes its share, so that the shares sum to the mean over the global batch. Outside
    of a training step it is the mean over the given batch.

    Args:
        loss: a Keras loss with the reduction "none".
        output: name of the output whose label weights are used, see `HeadModel.label_weights`.
        name: default: the name of `loss`.
    """

    def __init__(self, loss: keras.losses.Loss, output: str, name: str | None = None):
        super().__init__(name=name or loss.name, reduction="none")
        self.loss = loss
        self.output = output

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None):
        values = self.loss(y_true, y_pred)
        weights = ops.ones_like(values) if sample_weight is None else ops.cast(sample_weight, values.dtype)
        step = get_current_step()
        total = ops.sum(weights) if step is None else step.total_weights.get(self.output, ops.sum(weights))
        return ops.divide_no_nan(ops.sum(values * weights), ops.cast(total, values.dtype))

    def get_config(self):
        """Return the constructor arguments as plain values."""
        return {"loss": keras.saving.serialize_keras_object(self.loss), "output": self.output, "name": self.name}

    @classmethod
    def from_config(cls, config: dict):
        """Create an instance from `get_config`."""
        return cls(**{**config, "loss": keras.saving.deserialize_keras_object(config["loss"])})


@keras.saving.register_keras_serializable(package="bert_keras")
class CrossEntropy(keras.losses.Loss):
    """Cross-entropy of integer labels `(...)` and logits `(..., V)`, see `cross_entropy`."""

    def __init__(self, name: str = "cross_entropy", reduction: str = "none", **kwargs):
        super().__init__(name=name, reduction=reduction, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor):
        """Compute the loss per label."""
        return cross_entropy(y_pred, y_true)


@keras.saving.register_keras_serializable(package="bert_keras")
class TopAccuracy(keras.metrics.MeanMetricWrapper):
    """Top-1 accuracy of labels `(...)`, logits `(..., V)` and weights `(...)`.

    Equals `SparseCategoricalAccuracy` except for ties, which count as correct. It needs only the maximum, which the
    loss has computed already; an argmax takes four times as long in XLA (15 ms vs. 4 for 640 x 30,522, two cores).
    """

    def __init__(self, name: str = "accuracy", **kwargs):
        super().__init__(is_top, name=name, **kwargs)

    def get_config(self):
        """Return the constructor arguments as plain values."""
        return {"name": self.name, "dtype": self.dtype}


def cross_entropy(logits: Tensor, ids: Tensor):
    """Compute -log softmax(logits)[id], float32 `(...)`, of `logits` `(..., V)` and integer `ids` `(...)`.

    The gradient is written out, `softmax - one_hot`, so that a compiler computes it in one pass over the logits
    (640 x 30,522 of them are 78 MB, more than any cache).
    """
    return _cross_entropy(ops.cast(logits, "float32"), ops.cast(ids, "int32"))


@in_own_graph
def _cross_entropy(logits: Tensor, ids: Tensor):
    @ops.custom_gradient
    def loss(logits: Tensor):
        """Return the cross-entropy and its gradient function."""
        highest = ops.max(logits, axis=-1, keepdims=True)
        exponentials = ops.exp(logits - highest)
        total = ops.sum(exponentials, axis=-1, keepdims=True)

        def gradient(*arguments, upstream: Tensor | None = None):
            """Return softmax - one_hot, scaled by the upstream gradient."""
            upstream = arguments[0] if upstream is None else upstream
            is_label = ops.equal(ops.arange(ops.shape(logits)[-1], dtype="int32"), ids[..., None])
            return (exponentials / total - ops.cast(is_label, logits.dtype)) * upstream[..., None]

        return (ops.log(total) + highest)[..., 0] - gather_label_logits(logits, ids), gradient

    return loss(logits)


def is_top(ids: Tensor, logits: Tensor):
    """Return 1.0 where the label's logit is the largest, otherwise 0.0; `ids` `(...)`, `logits` `(..., V)`."""
    highest = ops.max(logits, axis=-1)
    return ops.cast(gather_label_logits(logits, ops.cast(ids, "int32")) >= highest, "float32")


def gather_label_logits(logits: Tensor, ids: Tensor):
    """Return the logit of each id: `ids` `(...)` of `logits` `(..., V)`."""
    return ops.take_along_axis(logits, ids[..., None], axis=-1)[..., 0]


@keras.saving.register_keras_serializable(package="bert_keras")
class CosineError(keras.losses.Loss):
    """Squared error between the cosine and the score of each pair (Reimers & Gurevych 2019, 3, "Regression").

    A batch holds pairs: sequences 2i and 2i + 1 are the two texts of pair i. Labels `(B,)`: the score of the pair, from
    -1 to 1, for both of its texts. Vectors `(B, D)` need not be normalized.
    """

    def __init__(self, name: str = "cosine_error", reduction: str = "none", **kwargs):
        super().__init__(name=name, reduction=reduction, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor):
        """Compute the loss per sequence."""
        first, second = _split_unit_pairs(y_pred)
        errors = ops.square(ops.sum(first * second, axis=-1) - ops.reshape(y_true, (-1, 2))[:, 0])
        return ops.repeat(errors, 2, axis=0)


@keras.saving.register_keras_serializable(package="bert_keras")
class InBatchContrast(keras.losses.Loss):
    """Cross-entropy of identifying the second text of each pair among those of the batch (Henderson et al. 2017, 4).

    A batch holds pairs: sequences 2i and 2i + 1 are the two texts of pair i. Labels are ignored: every pair is a
    positive pair. Vectors `(B, D)` need not be normalized.
    """

    def __init__(self, name: str = "in_batch_contrast", reduction: str = "none", **kwargs):
        super().__init__(name=name, reduction=reduction, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor):
        """Compute the loss per sequence."""
        first, second = _split_unit_pairs(y_pred)
        cosines = ops.matmul(first, ops.transpose(second)) * _SCALE  # (pairs, pairs)
        errors = -ops.diagonal(ops.log_softmax(cosines, axis=-1))
        return ops.repeat(errors, 2, axis=0)


def _split_unit_pairs(vectors: Tensor):
    """Return the unit vectors of the first and of the second texts, `(B / 2, D)` each."""
    vectors = ops.cast(vectors, "float32")
    lengths = ops.sqrt(ops.maximum(ops.sum(ops.square(vectors), axis=-1, keepdims=True), 1e-12))
    pairs = ops.reshape(vectors / lengths, (-1, 2, ops.shape(vectors)[-1]))
    return pairs[:, 0], pairs[:, 1]
