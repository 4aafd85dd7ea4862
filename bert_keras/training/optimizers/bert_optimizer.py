"""`BertOptimizer`, the base of AdamW, LAMB and Muon: moments, weight decay, clipping, the update.

Keras documents `build` and `update_step` as the methods to override, but it keeps private which moments belong to a
variable and which variables decay. `BertOptimizer` therefore overrides `apply` too, so that Keras's own clipping, decay
and sum over replicas never run.
"""

import dataclasses
import warnings
from collections.abc import Sequence

import keras
from keras import ops

from bert_keras.distribution import clip_gradients, compile_update, to_dense, update_copies
from bert_keras.errors import InputError

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
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        *,
        weight_decay: float,
        beta_1: float,
        beta_2: float,
        epsilon: float,
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
        self._slots = _Slots([self._make_slot(place, variable) for place, variable in enumerate(variables)])

    def _make_slot(self, place: int, variable: keras.Variable) -> Slot:
        names = ["momentum", "velocity"] if self.has_second_moment(variable) else ["momentum"]
        (first,), *second = self.add_optimizer_variables([variable], names)
        return Slot(place, variable, first, second[0][0] if second else None, self.decays(variable))

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
