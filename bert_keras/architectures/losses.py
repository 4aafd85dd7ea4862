"""Losses and metrics: global-batch mean, cross-entropy over a large vocabulary, top-1 accuracy, vectors of texts."""

import re
from collections.abc import Callable

import keras
from keras import ops

from bert_keras.distribution import get_current_step
from bert_keras.features import Tensor

if keras.backend.backend() == "tensorflow":
    from bert_keras.architectures.tensorflow_kernels import in_own_graph
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


def make_loss_name(loss: keras.losses.Loss) -> str:
    """Return the name of a loss's class in lower case with underscores; Keras would also number the instances."""
    return re.sub("(?<!^)(?=[A-Z])", "_", type(loss).__name__).lower()


class ColumnLoss(keras.losses.Loss):
    """Base class of the losses of examples with C texts each, from C columns.

    A batch of N examples has the sequences of one example after those of another, so B = C N. Subclasses are registered
    with Keras, set `num_columns` to C and define `compare`. Vectors `(B, D)` need not be normalized.
    """

    num_columns = 2

    def __init__(self, name: str | None = None, reduction: str = "none", **kwargs):
        super().__init__(name=name or make_loss_name(self), reduction=reduction, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor):
        """Compute the loss per sequence, `(B,)`: that of its example. Labels `(B,)` are equal within an example."""
        vectors = ops.cast(y_pred, "float32")
        lengths = ops.sqrt(ops.maximum(ops.sum(ops.square(vectors), axis=-1, keepdims=True), 1e-12))
        by_example = ops.reshape(vectors / lengths, (-1, self.num_columns, ops.shape(vectors)[-1]))
        labels = ops.reshape(y_true, (-1, self.num_columns))[:, 0]
        losses = self.compare(labels, *(by_example[:, column] for column in range(self.num_columns)))
        return ops.repeat(losses, self.num_columns, axis=0)

    def compare(self, labels: Tensor, *columns: Tensor):
        """Return the loss of each example, `(N,)`.

        Args:
            labels: `(N,)`, the label of each example; 0 for an objective without scores.
            *columns: unit vectors `(N, D)` of each column of texts.
        """
        raise NotImplementedError


@keras.saving.register_keras_serializable(package="bert_keras")
class CosineError(ColumnLoss):
    """Squared error between the cosine and the score of each pair (Reimers & Gurevych 2019, 3, "Regression").

    Scores are from -1 to 1.
    """

    def compare(self, labels: Tensor, *columns: Tensor):
        """Return the squared error of each pair, `(N,)`."""
        first, second = columns
        return ops.square(ops.sum(first * second, axis=-1) - labels)


@keras.saving.register_keras_serializable(package="bert_keras")
class InBatchContrast(ColumnLoss):
    """Cross-entropy of identifying the second text of each pair among those of the batch (Henderson et al. 2017, 4).

    Labels are ignored: every pair is a positive pair.
    """

    def compare(self, labels: Tensor, *columns: Tensor):
        """Return the cross-entropy of each pair, `(N,)`."""
        first, second = columns
        cosines = ops.matmul(first, ops.transpose(second)) * _SCALE  # (N, N)
        return -ops.diagonal(ops.log_softmax(cosines, axis=-1))
