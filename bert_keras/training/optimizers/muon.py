"""`BertMuon`: Muon for matrices except embedding tables and output layers, AdamW for everything else."""

from collections.abc import Sequence

import keras
from keras import ops

from bert_keras.training.optimizers.adamw_and_lamb import BertAdamW
from bert_keras.training.optimizers.bert_optimizer import Slot

# how the layers are named whose matrices AdamW updates: embedding tables and output layers, as its author advises
NOT_ORTHOGONALIZED = ("embedding", "next_sentence", "replaced")
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic iteration in github.com/KellerJordan/Muon
_NUM_ITERATIONS = 5
_UPDATE_SIZE = 0.2  # root mean square of an update, that of AdamW's (Liu et al. 2025, 2.2), so that both share one rate


@keras.saving.register_keras_serializable(package="bert_keras")
class BertMuon(BertAdamW):
    """Muon (Jordan 2024) with the update size of AdamW (Liu et al. 2025, "Muon is Scalable for LLM Training").

    The update of a matrix is its momentum with its singular values moved toward 1. Embedding tables, output layers,
    biases and norms get AdamW's update. Without weight decay it is `keras.optimizers.Muon` up to rounding;
    unlike that, it clips the gradient that is summed over all replicas.

    Args:
        learning_rate: a float or a schedule.
        momentum: decay of the running sum of a matrix's gradients; the update looks one step ahead (Nesterov).
        not_orthogonalized: names of layers whose matrices AdamW updates, or how these names begin.
        **kwargs: see `BertAdamW` and `BertOptimizer`.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 1e-3,
        *,
        momentum: float = 0.95,
        not_orthogonalized: Sequence[str] = NOT_ORTHOGONALIZED,
        **kwargs: object,
    ):
        super().__init__(learning_rate, **kwargs)
        self.momentum = momentum
        self.not_orthogonalized = tuple(not_orthogonalized)

    def has_second_moment(self, variable: keras.Variable) -> bool:
        """Return whether AdamW updates a variable, and not Muon."""
        layers = variable.path.lower().split("/")
        return len(variable.shape) != 2 or any(layer.startswith(self.not_orthogonalized) for layer in layers)

    def update(self, slot: Slot, gradient: keras.KerasTensor, rate: keras.KerasTensor, step: keras.KerasTensor) -> None:
        """Update one variable and its moments, see `BertOptimizer.update`."""
        if slot.second is not None:
            super().update(slot, gradient, rate, step)
            return
        if self.rate_factors is not None:
            rate = rate * self.rate_factors[slot.place]
        self.assign_add(slot.first, gradient + slot.first * (self.momentum - 1))
        change = orthogonalize(gradient + self.momentum * slot.first)
        size = _UPDATE_SIZE * max(slot.variable.shape) ** 0.5
        if slot.decays:
            self.assign_sub(slot.variable, slot.variable * self.weight_decay * rate)
        self.subtract(slot, rate * change * size)

    def get_config(self) -> dict:
        """Return the arguments of the constructor."""
        return {
            **super().get_config(),
            "momentum": self.momentum,
            "not_orthogonalized": list(self.not_orthogonalized),
        }


def orthogonalize(matrix: keras.KerasTensor) -> keras.KerasTensor:
    """Move the singular values of a matrix `(m, n)` toward 1 with five Newton-Schulz iterations.

    Those of random matrices of 256 x 1,024 end between 0.68 and 1.14; the smallest of a square matrix stay smaller.

    Example:
        >>> values = np.linalg.svd(orthogonalize(np.diag([0.5, 2.0, 3.0])), compute_uv=False)
        >>> bool(0.6 < values.min() and values.max() < 1.3)
        True
    """
    a, b, c = _COEFFICIENTS
    matrix = ops.convert_to_tensor(matrix)
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = ops.transpose(matrix) if is_tall else matrix
    x = x / (ops.norm(x) + 1e-7)  # no singular value above 1
    for _ in range(_NUM_ITERATIONS):
        products = ops.matmul(x, ops.transpose(x))
        x = a * x + ops.matmul(b * products + c * ops.matmul(products, products), x)
    return ops.transpose(x) if is_tall else x
