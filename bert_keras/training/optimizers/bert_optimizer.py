"""`BertOptimizer`: what AdamW and LAMB share. Moments, weight decay without biases and norms, clipping, one update.

Keras documents `build` and `update_step` as what an optimizer overrides, but which moments belong to a variable, and
which variables decay, are private there. So `apply` is overridden too: none of Keras's own clipping, decay and summing
over replicas runs, and none can run twice.
"""

import dataclasses
import warnings
from collections.abc import Sequence

import keras
from keras import ops

from bert_keras.distribution import clip_gradients, compile_update, to_dense, update_copies
from bert_keras.errors import InputError

# Google's optimization.py leaves out "LayerNorm", "layer_norm" and "bias": these are the names of their variables here
NOT_DECAYED = ("bias", "gamma", "beta")


@dataclasses.dataclass(frozen=True, eq=False)
class Slot:
    """A trainable variable with its two moments.

    Attributes:
        place: index among the trainable variables.
        variable: the variable.
        first, second: running means of the gradient and of its square.
        decays: whether weight decay applies.
    """

    place: int
    variable: keras.Variable
    first: keras.Variable
    second: keras.Variable
    decays: bool


class _Slots:
    """The slots of an optimizer. Not a list, of which Keras would track the trainable variables as the optimizer's."""

    def __init__(self, slots: Sequence[Slot]):
        self.all = tuple(slots)
        self._by_variable = {id(slot.variable): slot for slot in slots}

    def of(self, variables: Sequence[keras.Variable] | None) -> tuple[Slot, ...]:
        """Return the slots of some variables; None: of all."""
        if variables is None:
            return self.all
        try:
            return tuple(self._by_variable[id(variable)] for variable in variables)
        except KeyError:
            raise InputError(
                "the optimizer was built for other variables than it is applied to: compile the model again after "
                "layers were added, or frozen ones made trainable"
            ) from None


class BertOptimizer(keras.optimizers.Optimizer):
    """Base of `BertAdamW` and `Lamb`; a subclass defines `update`.

    Args:
        learning_rate: a number or a schedule.
        weight_decay: of all variables but those whose name contains a word of `not_decayed`.
        beta_1, beta_2: decay of the two moments.
        epsilon: added to the root of the second moment.
        not_decayed: words in the names of variables without weight decay.
        jit_update: whether XLA compiles the update of a step that is not compiled as a whole, since the lengths of
            batches change; those of weights do not. It takes half the time (23 million weights: 45 ms, not 95), and
            pays from some hundred steps on. Without effect under a `tf.distribute` strategy.
        **kwargs: `clipnorm`, `global_clipnorm`, `clipvalue`, `loss_scale_factor` and `name`, as in
            `keras.optimizers.Optimizer`.

    Raises:
        InputError: averaged weights or Keras's gradient accumulation are asked for.
    """

    takes_summed_gradients = True  # summed over all replicas, see `distribution.updates.apply_over_replicas`

    def __init__(
        self,
        learning_rate,
        *,
        weight_decay: float,
        beta_1: float,
        beta_2: float,
        epsilon: float,
        not_decayed: Sequence[str] = NOT_DECAYED,
        jit_update: bool = False,
        **kwargs,
    ):
        super().__init__(learning_rate, weight_decay=weight_decay, **kwargs)
        for name in ("use_ema", "gradient_accumulation_steps"):
            if getattr(self, name):
                raise InputError(
                    f"{type(self).__name__} has no {name}, which is {getattr(self, name)}; leave it out, and give "
                    "accumulation_steps to compile(), or take an optimizer of Keras"
                )
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.not_decayed = tuple(not_decayed)
        self.jit_update = jit_update

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        firsts, seconds = self.add_optimizer_variables(variables, ["momentum", "velocity"])
        columns = zip(variables, firsts, seconds, strict=True)
        self._slots = _Slots(
            [
                Slot(place, variable, first, second, self.decays(variable))
                for place, (variable, first, second) in enumerate(columns)
            ]
        )

    def decays(self, variable: keras.Variable) -> bool:
        """Return whether weight decay applies to a variable."""
        return not any(word in variable.name for word in self.not_decayed)

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        """Keras forgets what is excluded when an optimizer is saved; raises `InputError`."""
        raise InputError(f"give {type(self).__name__}(not_decayed=...) the words that exclude variables from the decay")

    def apply(self, grads, trainable_variables=None):
        """Update variables by gradients: those of `build`, or those given.

        Args:
            grads: one for each variable, summed over all replicas; None where the loss does not depend on it.
            trainable_variables: the variables; None: those of `build`.
        """
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            self.build(trainable_variables)
        slots = self._slots.of(trainable_variables)
        gradients = [None if gradient is None else to_dense(gradient) for gradient in grads]
        slots, gradients = _given(slots, gradients)
        update = compile_update(self._update_all) if self.jit_update else self._update_all
        update(_Slots(slots), gradients)

    def _update_all(self, slots: _Slots, gradients: list) -> None:
        if self.loss_scale_factor:
            gradients = [gradient / self.loss_scale_factor for gradient in gradients]
        gradients = clip_gradients(gradients, self)

        def update(index, gradient, rate, step):
            slot = slots.all[index]
            dtype = slot.variable.dtype
            self.update(slot, ops.cast(gradient, dtype), ops.cast(rate, dtype), ops.cast(step, dtype))

        variables = [slot.variable for slot in slots.all]
        rate, step = ops.convert_to_tensor(self.learning_rate), ops.convert_to_tensor(self.iterations) + 1
        update_copies(update, variables, gradients, rate, step)
        self.iterations.assign_add(1)

    def update(self, slot: Slot, gradient, rate, step) -> None:
        """Update one variable and its moments.

        Args:
            slot: the variable.
            gradient: clipped, in the variable's dtype and shape.
            rate: learning rate, a scalar tensor.
            step: number of this step, counted from 1, a scalar tensor.
        """
        raise NotImplementedError

    def move_moments(self, slot: Slot, gradient) -> tuple:
        """Update both moments of a variable by its gradient and return their new values."""
        self.assign_add(slot.first, (gradient - slot.first) * (1 - self.beta_1))
        self.assign_add(slot.second, (ops.square(gradient) - slot.second) * (1 - self.beta_2))
        return ops.convert_to_tensor(slot.first), ops.convert_to_tensor(slot.second)

    def subtract(self, slot: Slot, change) -> None:
        """Subtract a change from a variable, in place, and keep the variable within its constraint."""
        self.assign_sub(slot.variable, change)
        if slot.variable.constraint is not None:
            slot.variable.assign(slot.variable.constraint(slot.variable))

    def get_config(self):
        names = ("beta_1", "beta_2", "epsilon", "jit_update")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "not_decayed": list(self.not_decayed),
        }


def _given(slots: Sequence[Slot], gradients: Sequence) -> tuple[list[Slot], list]:
    """Return the slots and gradients of variables that the loss depends on, and warn of others, as Keras does."""
    missing = [slot.variable.path for slot, gradient in zip(slots, gradients, strict=True) if gradient is None]
    if missing:
        warnings.warn(f"Gradients do not exist for variables {missing} when minimizing the loss.", stacklevel=3)
    pairs = [(slot, gradient) for slot, gradient in zip(slots, gradients, strict=True) if gradient is not None]
    return [slot for slot, _ in pairs], [gradient for _, gradient in pairs]
