"""BERT's optimizer: AdamW with linear warm-up and linear decay (Devlin et al. 2018, A.2)."""

import keras
from keras import ops

from bert_keras.errors import InputError

# Google's optimization.py: neither biases nor norms are decayed
_NOT_DECAYED = ("bias", "gamma", "beta")


@keras.saving.register_keras_serializable(package="bert_keras")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate that rises from 0 to its peak over the warm-up, then falls to 0 at the last step.

    Args:
        peak_learning_rate: the highest rate.
        num_steps: steps of the whole training.
        num_warmup_steps: steps of the rise, less than `num_steps`.

    Raises:
        InputError: the warm-up is not shorter than the training.
    """

    def __init__(self, peak_learning_rate: float, num_steps: int, num_warmup_steps: int):
        if not 0 <= num_warmup_steps < num_steps:
            raise InputError(
                f"num_warmup_steps is {num_warmup_steps}, expected a number from 0 to below num_steps ({num_steps})"
            )
        self.peak_learning_rate = peak_learning_rate
        self.num_steps = num_steps
        self.num_warmup_steps = num_warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1.0  # the first step already moves
        rise = step / max(self.num_warmup_steps, 1)
        fall = (self.num_steps + 1.0 - step) / (self.num_steps + 1.0 - self.num_warmup_steps)
        return self.peak_learning_rate * ops.clip(ops.minimum(rise, fall), 0.0, 1.0)

    def get_config(self):
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "num_steps": self.num_steps,
            "num_warmup_steps": self.num_warmup_steps,
        }


def adamw(
    learning_rate: float, num_steps: int, *, warmup_rate: float = 0.1, weight_decay: float = 0.01
) -> keras.optimizers.AdamW:
    """Returns AdamW as BERT was trained with: beta 0.9 and 0.999, epsilon 1e-6, gradients clipped to norm 1.

    Args:
        learning_rate: the peak.
        num_steps: steps of the whole training.
        warmup_rate: share of the steps in which the rate rises.
        weight_decay: decoupled decay, of matrices and tables only.
    """
    schedule = WarmupLinearDecay(learning_rate, num_steps, int(num_steps * warmup_rate))
    optimizer = keras.optimizers.AdamW(
        schedule, weight_decay=weight_decay, beta_1=0.9, beta_2=0.999, epsilon=1e-6, global_clipnorm=1.0
    )
    optimizer.exclude_from_weight_decay(var_names=list(_NOT_DECAYED))
    return optimizer
