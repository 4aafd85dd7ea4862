"""BERT's optimizers: AdamW as in Devlin et al. 2018 (A.2), and LAMB (You et al. 2019) for very large batches."""

from collections.abc import Sequence

import keras
from keras import ops

from bert_keras.errors import InputError
from bert_keras.training.config.tables import OptimizerSettings
from bert_keras.training.optimizers.bert_optimizer import BertOptimizer
from bert_keras.training.optimizers.schedules import RateSequence, WarmupDecay


@keras.saving.register_keras_serializable(package="bert_keras")
class BertAdamW(BertOptimizer):
    """AdamW as `keras.optimizers.AdamW` computes it, to the bit, without weight decay of biases and norms.

    Adam's bias correction is in, unlike in Google's code. Epsilon is added to the uncorrected root, as there; torch
    adds it to the corrected one, which differs in the first steps, where gradients are not large beside 30 epsilon.

    Args:
        learning_rate: a number or a schedule.
        weight_decay, beta_1, beta_2, epsilon: as in `keras.optimizers.AdamW`, with its defaults.
        rate_factors: what the learning rate of each trainable variable is multiplied by, in their order; None: 1.
        **kwargs: see `BertOptimizer`.

    Raises:
        InputError: when it is built, if there are more or fewer factors than variables.
    """

    def __init__(
        self,
        learning_rate=0.001,
        *,
        weight_decay: float = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        rate_factors: Sequence[float] | None = None,
        **kwargs,
    ):
        super().__init__(
            learning_rate, weight_decay=weight_decay, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, **kwargs
        )
        self.rate_factors = None if rate_factors is None else list(rate_factors)

    def build(self, variables):
        if self.rate_factors is not None and len(self.rate_factors) != len(variables):
            raise InputError(
                f"{len(self.rate_factors)} rate_factors were given for {len(variables)} trainable variables; expected "
                "one for each: make them when it is decided which are trained"
            )
        super().build(variables)

    def update(self, slot, gradient, rate, step):
        if self.rate_factors is not None:
            rate = rate * self.rate_factors[slot.place]
        corrections = [1 - ops.power(ops.cast(beta, rate.dtype), step) for beta in (self.beta_1, self.beta_2)]
        corrected_rate = rate * ops.sqrt(corrections[1]) / corrections[0]
        first, second = self.move_moments(slot, gradient)
        if slot.decays:
            self.assign_sub(slot.variable, slot.variable * self.weight_decay * rate)
        self.subtract(slot, first * corrected_rate / (ops.sqrt(second) + self.epsilon))

    def get_config(self):
        factors = None if self.rate_factors is None else list(self.rate_factors)  # Keras made a list of its own of it
        return {**super().get_config(), "rate_factors": factors}


@keras.saving.register_keras_serializable(package="bert_keras")
class Lamb(BertOptimizer):
    """LAMB, algorithm 2 of You et al. 2019 ("Training BERT in 76 minutes"), with phi the identity.

    The weight decay is part of the update whose norm the trust ratio divides by; `keras.optimizers.Lamb` decays
    outside of it. Biases and norms are neither decayed nor adapted, as in the authors' `lamb_optimizer.py`
    (google-research/albert), which leaves the bias correction out; here it is in, as in the paper.

    Args:
        learning_rate: a number or a schedule.
        weight_decay: lambda in the paper.
        beta_1, beta_2: decay of the two moments.
        epsilon: added to the root of the second moment.
        **kwargs: see `BertOptimizer`.
    """

    def __init__(
        self,
        learning_rate=1e-3,
        *,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        **kwargs,
    ):
        super().__init__(
            learning_rate, weight_decay=weight_decay, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, **kwargs
        )

    def update(self, slot, gradient, rate, step):
        first, second = self.move_moments(slot, gradient)
        corrected_first = first / (1.0 - self.beta_1**step)
        corrected_second = second / (1.0 - self.beta_2**step)
        update = corrected_first / (ops.sqrt(corrected_second) + self.epsilon)
        if slot.decays:
            value = ops.convert_to_tensor(slot.variable)
            update = update + self.weight_decay * value
            update = _trust_ratio(value, update) * update
        self.subtract(slot, rate * update)


def adamw(learning_rate: float, num_steps: int | None, **settings: float | str) -> BertAdamW:
    """Returns AdamW as BERT was trained with; every number can be changed.

    Args:
        learning_rate: the peak.
        num_steps: optimizer steps of the whole training; None: the rate stays, for `TimedLearningRate` to set.
        **settings: further fields of `tables.OptimizerSettings`: `schedule`, `warmup_ratio`, `weight_decay`, `beta_1`,
            `beta_2`, `epsilon`, `clip_norm`.

    Raises:
        InputError: a number is out of range.
    """
    return make_optimizer(OptimizerSettings(name="adamw", learning_rate=learning_rate, **settings), num_steps)


def lamb(learning_rate: float, num_steps: int | None, **settings: float | str) -> Lamb:
    """Returns LAMB with BERT's exclusions; the arguments are those of `adamw`."""
    return make_optimizer(OptimizerSettings(name="lamb", learning_rate=learning_rate, **settings), num_steps)


def make_optimizer(
    settings: OptimizerSettings, stretches: Sequence[tuple[float, int]] | int | None
) -> BertAdamW | Lamb:
    """Returns the optimizer of a run's `[optimizer]` table.

    In a model whose own policy is "mixed_float16", Keras wraps it in a `LossScaleOptimizer` by itself when the model is
    compiled (`auto_scale_loss`); nothing is to be done here.

    Args:
        settings: `Pretraining.optimizer`.
        stretches: optimizer steps of the whole training; or (peak learning rate, steps) of each stretch with a warm-up
            of its own, see `Pretraining.schedules`; None: no schedule, for `TimedLearningRate`.
    """
    if isinstance(stretches, int):
        stretches = [(settings.learning_rate, stretches)]
    rate = settings.learning_rate if stretches is None else _rates(settings, stretches)
    numbers = {name: getattr(settings, name) for name in ("weight_decay", "beta_1", "beta_2", "epsilon")}
    kind = {"adamw": BertAdamW, "lamb": Lamb}[settings.name]
    return kind(rate, **numbers, global_clipnorm=settings.clip_norm or None)


def _rates(settings: OptimizerSettings, stretches: Sequence[tuple[float, int]]):
    schedules = [
        WarmupDecay(settings.schedule, peak, num_steps, int(num_steps * settings.warmup_ratio), power=settings.power)
        for peak, num_steps in stretches
    ]
    return schedules[0] if len(schedules) == 1 else RateSequence(schedules)


def _trust_ratio(variable, update):
    """Returns the norm of the weights over that of their update; 1 where either is 0."""
    weight_norm, update_norm = ops.sqrt(ops.sum(ops.square(variable))), ops.sqrt(ops.sum(ops.square(update)))
    both = ops.logical_and(weight_norm > 0, update_norm > 0)
    return ops.where(both, weight_norm / ops.where(both, update_norm, 1.0), 1.0)
