"""BERT's optimizers: AdamW (Devlin et al. 2018, A.2), LAMB (You et al. 2019) for very large batches, and Muon."""

import dataclasses
import warnings
from collections.abc import Sequence

import keras
from keras import ops

from bert_keras.distribution import clip_gradients, compile_update, to_dense, update_copies
from bert_keras.errors import InputError

# how the layers are named whose matrices AdamW updates: embedding tables and output layers, as its author advises
NOT_ORTHOGONALIZED = ("embedding", "next_sentence", "replaced")
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic iteration in github.com/KellerJordan/Muon
_NUM_ITERATIONS = 5
_UPDATE_SIZE = 0.2  # root mean square of an update, that of AdamW's (Liu et al. 2025, 2.2), so that both share one rate
# the names of the variables that Google's optimization.py excludes as "LayerNorm", "layer_norm" and "bias"
NOT_DECAYED = ("bias", "gamma", "beta")


@dataclasses.dataclass(frozen=True, eq=False)
class Slot:
    """A trainable variable and its moments ("slot" as in TensorFlow's optimizers).

    Attributes:
        place: index among the trainable variables.
        variable: the variable.
        first: running mean of the gradient; Muon's momentum is a running sum.
        second: running mean of the gradient's square; None where the optimizer has none.
        decays: whether weight decay applies to the variable.
    """

    place: int
    variable: keras.Variable
    first: keras.Variable
    second: keras.Variable | None
    decays: bool


class _Slots:
    """The slots of an optimizer; in a list, Keras would track the trainable variables as the optimizer's own."""

    def __init__(self, slots: Sequence[Slot]):
        self.all = tuple(slots)
        self._by_variable = {id(slot.variable): slot for slot in slots}

    def select(self, variables: Sequence[keras.Variable] | None) -> tuple[Slot, ...]:
        """Return the slots of some variables; None = all variables."""
        if variables is None:
            return self.all
        try:
            return tuple(self._by_variable[id(variable)] for variable in variables)
        except KeyError:
            raise InputError(
                "the optimizer is applied to variables that it was not built for: compile the model again after adding "
                "or unfreezing layers"
            ) from None


class BertOptimizer(keras.optimizers.Optimizer):
    """Base of `BertAdamW`, `Lamb` and `BertMuon`; a subclass defines `update`.

    Args:
        learning_rate: a float or a schedule.
        weight_decay: weight decay of all variables, except those with a word of `not_decayed` in their name.
        beta_1, beta_2: decay of the two moments.
        epsilon: added to the root of the second moment.
        not_decayed: words in the names of variables without weight decay.
        jit_update: compile the update with XLA in a step that is not compiled as a whole. Steps whose batches have
            different lengths would be compiled again for each length, but the shapes of the weights are fixed. The
            update takes half the time (45 instead of 95 ms for 23 million weights), which is worth the compilation
            after a few hundred steps. It has no effect under a `tf.distribute` strategy.
        **kwargs: `clipnorm`, `global_clipnorm`, `clipvalue`, `loss_scale_factor` and `name`, as in
            `keras.optimizers.Optimizer`.

    Raises:
        InputError: `use_ema` or `gradient_accumulation_steps` is set.
    """

    takes_summed_gradients = True  # summed over all replicas, see `distribution.updates.apply_over_replicas`

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 1e-3,
        *,
        weight_decay: float = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        not_decayed: Sequence[str] = NOT_DECAYED,
        jit_update: bool = False,
        **kwargs: object,
    ):
        super().__init__(learning_rate, weight_decay=weight_decay, **kwargs)
        for name in ("use_ema", "gradient_accumulation_steps"):
            if getattr(self, name):
                raise InputError(
                    f"{name} is {getattr(self, name)}, but {type(self).__name__} does not support it: pass "
                    "accumulation_steps to compile(), or use an optimizer of Keras"
                )
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.not_decayed = tuple(not_decayed)
        self.jit_update = jit_update

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Create the moments of each variable."""
        if self.built:
            return
        super().build(variables)
        slots = []
        for place, variable in enumerate(variables):
            names = ["momentum", "velocity"] if self.has_second_moment(variable) else ["momentum"]
            (first,), *second = self.add_optimizer_variables([variable], names)
            slots.append(Slot(place, variable, first, second[0][0] if second else None, self.decays(variable)))
        self._slots = _Slots(slots)

    def has_second_moment(self, variable: keras.Variable) -> bool:
        """Return whether a variable has a running mean of its squared gradients."""
        return True

    def decays(self, variable: keras.Variable) -> bool:
        """Return whether weight decay applies to a variable."""
        return not any(word in variable.name for word in self.not_decayed)

    def exclude_from_weight_decay(self, var_list: object = None, var_names: object = None) -> None:
        """Raise `InputError`, because Keras does not save these exclusions; it saves `not_decayed`."""
        raise InputError(f"pass {type(self).__name__}(not_decayed=...) to exclude variables from weight decay")

    def apply(self, grads: Sequence, trainable_variables: Sequence[keras.Variable] | None = None) -> None:
        """Update variables with their gradients.

        Args:
            grads: one gradient per variable, summed over all replicas; None if the loss does not depend on it.
            trainable_variables: the variables; None = those of `build`.
        """
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            self.build(trainable_variables)
        slots = self._slots.select(trainable_variables)
        gradients = [None if gradient is None else to_dense(gradient) for gradient in grads]
        pairs = list(zip(slots, gradients, strict=True))
        if missing := [slot.variable.path for slot, gradient in pairs if gradient is None]:  # warn as Keras does
            warnings.warn(f"Gradients do not exist for variables {missing} when minimizing the loss.", stacklevel=2)
        pairs = [(slot, gradient) for slot, gradient in pairs if gradient is not None]
        update = compile_update(self._update_all) if self.jit_update else self._update_all
        update(_Slots([slot for slot, _ in pairs]), [gradient for _, gradient in pairs])

    def _update_all(self, slots: _Slots, gradients: list) -> None:
        if self.loss_scale_factor:
            gradients = [gradient / self.loss_scale_factor for gradient in gradients]
        gradients = clip_gradients(gradients, self)

        def update(index: int, gradient: object, rate: object, step: object) -> None:
            slot = slots.all[index]
            dtype = slot.variable.dtype
            self.update(slot, ops.cast(gradient, dtype), ops.cast(rate, dtype), ops.cast(step, dtype))

        variables = [slot.variable for slot in slots.all]
        rate, step = ops.convert_to_tensor(self.learning_rate), ops.convert_to_tensor(self.iterations) + 1
        update_copies(update, variables, gradients, rate, step)
        self.iterations.assign_add(1)

    def update(self, slot: Slot, gradient: keras.KerasTensor, rate: keras.KerasTensor, step: keras.KerasTensor) -> None:
        """Update one variable and its moments.

        Args:
            slot: the variable.
            gradient: the clipped gradient, with the variable's dtype and shape.
            rate: the learning rate, a scalar tensor.
            step: index of this step, from 1, a scalar tensor.
        """
        raise NotImplementedError

    def update_moments(self, slot: Slot, gradient: keras.KerasTensor) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Update both moments of a variable with its gradient, and return their new values."""
        self.assign_add(slot.first, (gradient - slot.first) * (1 - self.beta_1))
        self.assign_add(slot.second, (ops.square(gradient) - slot.second) * (1 - self.beta_2))
        return ops.convert_to_tensor(slot.first), ops.convert_to_tensor(slot.second)

    def subtract(self, slot: Slot, change: keras.KerasTensor) -> None:
        """Subtract a change from a variable in place, then apply its constraint."""
        self.assign_sub(slot.variable, change)
        if slot.variable.constraint is not None:
            slot.variable.assign(slot.variable.constraint(slot.variable))

    def get_config(self) -> dict:
        """Return the arguments of the constructor."""
        numbers = {name: getattr(self, name) for name in ("beta_1", "beta_2", "epsilon", "jit_update")}
        return {**super().get_config(), **numbers, "not_decayed": list(self.not_decayed)}


@keras.saving.register_keras_serializable(package="bert_keras")
class BertAdamW(BertOptimizer):
    """AdamW without weight decay of biases and norms; otherwise bit for bit `keras.optimizers.AdamW`.

    Unlike Google's code, it applies Adam's bias correction. As there, epsilon is added to the uncorrected square root;
    torch adds it to the corrected one, which matters in the first steps for gradients below about 30 epsilon.

    Args:
        learning_rate: a float or a schedule.
        rate_factors: one factor of the learning rate for each trainable variable, in their order; None = 1 for all.
        **kwargs: `weight_decay`, `beta_1`, `beta_2` and `epsilon`, as in `keras.optimizers.AdamW` and with the same
            defaults; and those of `BertOptimizer`.

    Raises:
        InputError: in `build`, if the number of factors differs from the number of variables.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 1e-3,
        *,
        rate_factors: Sequence[float] | None = None,
        **kwargs: object,
    ):
        super().__init__(learning_rate, **kwargs)
        self.rate_factors = None if rate_factors is None else list(rate_factors)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Create the moments, and check the number of `rate_factors`."""
        if self.rate_factors is not None and len(self.rate_factors) != len(variables):
            raise InputError(
                f"{len(self.rate_factors)} rate_factors were given for {len(variables)} trainable variables; expected "
                "one for each: compute them after freezing layers"
            )
        super().build(variables)

    def update(self, slot: Slot, gradient: keras.KerasTensor, rate: keras.KerasTensor, step: keras.KerasTensor) -> None:
        """Update one variable and its moments, see `BertOptimizer.update`."""
        if self.rate_factors is not None:
            rate = rate * self.rate_factors[slot.place]
        corrections = [1 - ops.power(ops.cast(beta, rate.dtype), step) for beta in (self.beta_1, self.beta_2)]
        corrected_rate = rate * ops.sqrt(corrections[1]) / corrections[0]
        first, second = self.update_moments(slot, gradient)
        if slot.decays:
            self.assign_sub(slot.variable, slot.variable * self.weight_decay * rate)
        self.subtract(slot, first * corrected_rate / (ops.sqrt(second) + self.epsilon))

    def get_config(self) -> dict:
        """Return the arguments of the constructor."""
        # a copy, because Keras wraps attributes in a tracked list
        factors = None if self.rate_factors is None else list(self.rate_factors)
        return {**super().get_config(), "rate_factors": factors}


@keras.saving.register_keras_serializable(package="bert_keras")
class Lamb(BertOptimizer):
    """LAMB, algorithm 2 of You et al. 2019 ("Training BERT in 76 minutes"), with phi the identity.

    The weight decay is part of the update, whose norm the trust ratio divides by; `keras.optimizers.Lamb` decays the
    weights separately. Biases and norms have neither weight decay nor a trust ratio, as in the authors'
    `lamb_optimizer.py` (google-research/albert). That code omits the bias correction; this class has it, as the paper.

    Args:
        learning_rate: a float or a schedule.
        weight_decay: lambda in the paper.
        epsilon: added to the square root of the second moment.
        **kwargs: `beta_1` and `beta_2`, the decay of the two moments, and the others of `BertOptimizer`.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 1e-3,
        *,
        weight_decay: float = 0.01,
        epsilon: float = 1e-6,
        **kwargs: object,
    ):
        super().__init__(learning_rate, weight_decay=weight_decay, epsilon=epsilon, **kwargs)

    def update(self, slot: Slot, gradient: keras.KerasTensor, rate: keras.KerasTensor, step: keras.KerasTensor) -> None:
        """Update one variable and its moments, see `BertOptimizer.update`."""
        first, second = self.update_moments(slot, gradient)
        corrected_first = first / (1.0 - self.beta_1**step)
        corrected_second = second / (1.0 - self.beta_2**step)
        update = corrected_first / (ops.sqrt(corrected_second) + self.epsilon)
        if slot.decays:
            value = ops.convert_to_tensor(slot.variable)
            update = update + self.weight_decay * value
            weight_norm, update_norm = (ops.sqrt(ops.sum(ops.square(one))) for one in (value, update))
            both = ops.logical_and(weight_norm > 0, update_norm > 0)
            trust_ratio = ops.where(both, weight_norm / ops.where(both, update_norm, 1.0), 1.0)
            update = trust_ratio * update
        self.subtract(slot, rate * update)


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
        return {**super().get_config(), "momentum": self.momentum, "not_orthogonalized": list(self.not_orthogonalized)}


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
