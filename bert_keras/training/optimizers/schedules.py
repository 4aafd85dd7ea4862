"""Learning-rate schedules as a function of a training's progress in steps or in time, and optimizers that have one.

A schedule is a fraction of the peak learning rate. It rises during the warm-up, then falls in one of six ways. `rise`
is the progress of the warm-up (0 at its start, 1 at its end, above 1 afterwards); `left` is the rest of the training (1
at the end of the warm-up, 0 at the end of the training):

    linear        left                    Devlin et al. 2018, Liu et al. 2019, Clark et al. 2020, Izsak et al. 2021
    cosine        (1 - cos(pi left)) / 2  Loshchilov & Hutter 2017, one half wave
    polynomial    left ** power           google-research/bert and electra, with power 1
    constant      1
    inverse_sqrt  1 / sqrt(rise)          Vaswani et al. 2017: sqrt(warm-up / step), so it needs a warm-up
    one_cycle     left; the rise starts at a quarter of the peak: "budget-triangle2" of Geiping & Goldstein 2022,
                  whose warm-up is 75 % of the time
"""

import math
import time
import types
from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

from bert_keras.errors import InputError
from bert_keras.training.config.tables import SCHEDULES, OptimizerSettings
from bert_keras.training.optimizers.update_rules import BertAdamW, BertMuon, BertOptimizer, Lamb

_ONE_CYCLE_START = 0.25  # base_percentage of budget-triangle2 in cramming's schedulers.py


def compute_rate(kind: str, progress: float, warmup_ratio: float, *, power: float = 1.0) -> float:
    """Compute the learning rate at a point of the training, as a fraction of the peak.

    Args:
        kind: one of `SCHEDULES`.
        progress: the fraction of the training that is done; clipped to [0, 1].
        warmup_ratio: the fraction of the training with a rising learning rate, from 0 to below 1.
        power: the exponent of "polynomial".

    Raises:
        InputError: the kind is unknown, or the warm-up or the power is out of range.

    Example:
        >>> [round(compute_rate("linear", progress, 0.2), 3) for progress in (0, 0.1, 0.2, 0.6, 1)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    _check_shape(kind, warmup_ratio, power)
    progress = min(max(progress, 0.0), 1.0)
    rise = progress / warmup_ratio if warmup_ratio else math.inf
    return float(_compute_fraction(kind, rise, (1.0 - progress) / (1.0 - warmup_ratio), power, np))


@keras.saving.register_keras_serializable(package="bert_keras")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of a training of known length: a warm-up, then one of `SCHEDULES`.

    The first step has a learning rate above 0, step `num_warmup_steps` has the peak, and the step after the last one
    would have 0.

    Args:
        kind: one of `SCHEDULES`.
        peak_learning_rate: the maximum learning rate.
        num_steps: optimizer steps of the whole training.
        num_warmup_steps: steps with a rising learning rate, less than `num_steps`.
        power: the exponent of "polynomial".

    Raises:
        InputError: the kind is unknown, the warm-up is not shorter than the training, or a number is out of range.
    """

    def __init__(
        self, kind: str, peak_learning_rate: float, num_steps: int, num_warmup_steps: int, *, power: float = 1.0
    ):
        if not 0 <= num_warmup_steps < num_steps:
            raise InputError(
                f"num_warmup_steps is {num_warmup_steps}; expected a number from 0 to below num_steps ({num_steps})"
            )
        _check_shape(kind, num_warmup_steps / num_steps, power)
        self.kind = kind
        self.peak_learning_rate = peak_learning_rate
        self.num_steps = num_steps
        self.num_warmup_steps = num_warmup_steps
        self.power = power

    def __call__(self, step: keras.KerasTensor) -> keras.KerasTensor:
        step = ops.minimum(ops.cast(step, "float32") + 1.0, self.num_steps + 1.0)
        # computed from integer steps, because float32 fractions would lose the last steps of a million
        rise = step / self.num_warmup_steps if self.num_warmup_steps else step + 1.0
        left = (self.num_steps + 1.0 - step) / (self.num_steps + 1.0 - self.num_warmup_steps)
        return self.peak_learning_rate * _compute_fraction(self.kind, rise, left, self.power, ops)

    def get_config(self) -> dict:
        """Return the arguments of the constructor."""
        names = ("kind", "peak_learning_rate", "num_steps", "num_warmup_steps", "power")
        return {name: getattr(self, name) for name in names}


@keras.saving.register_keras_serializable(package="bert_keras")
class RateSequence(keras.optimizers.schedules.LearningRateSchedule):
    """A sequence of schedules, each for its `num_steps`; the last one has no end.

    For phases with a warm-up, as in LAMB's second phase (You et al. 2019, section 4.1: "re-warm-up").

    Args:
        schedules: one or more `WarmupDecay`.

    Raises:
        InputError: `schedules` is empty.
    """

    def __init__(self, schedules: Sequence[WarmupDecay]):
        self.schedules = list(schedules)
        if not self.schedules:
            raise InputError("schedules is empty; expected one or more")

    def __call__(self, step: keras.KerasTensor) -> keras.KerasTensor:
        step = ops.cast(step, "int32")
        rate, begin = self.schedules[0](step), 0
        for before, schedule in zip(self.schedules, self.schedules[1:], strict=False):
            begin += before.num_steps
            rate = ops.where(step < begin, rate, schedule(ops.maximum(step - begin, 0)))
        return rate

    def get_config(self) -> dict:
        """Return the serialized schedules."""
        return {"schedules": [keras.saving.serialize_keras_object(schedule) for schedule in self.schedules]}

    @classmethod
    def from_config(cls, config: dict) -> "RateSequence":
        """Create the sequence from what `get_config` returned."""
        return cls([keras.saving.deserialize_keras_object(schedule) for schedule in config["schedules"]])


class TimedLearningRate(keras.callbacks.Callback):
    """Set the learning rate by time instead of steps, and stop the training when the time is up (Izsak et al. 2021).

    Time starts with `fit` and includes compilation and evaluation. The optimizer needs a constant learning rate, not a
    schedule. The rate is set before each batch, or before each `steps_per_execution` batches.

    Args:
        kind: one of `SCHEDULES`.
        peak_learning_rate: the maximum learning rate.
        seconds: the duration of the whole training.
        warmup_ratio: the fraction of it with a rising learning rate.
        power: the exponent of "polynomial".
        seconds_done: time that earlier runs or phases of the same training took.
        stop_seconds: when to stop, in seconds since the start of the training; the end of a phase. Default: `seconds`.
        clock: function that returns seconds.

    Raises:
        InputError: the kind is unknown or a number is out of range; or, in `fit`, the optimizer has a schedule.

    Example:
        >>> day = TimedLearningRate("linear", 1e-3, seconds=24 * 3600, warmup_ratio=0.06)
        >>> day.seconds  # pass it to `model.fit` in `callbacks`
        86400
    """

    def __init__(
        self,
        kind: str,
        peak_learning_rate: float,
        seconds: float,
        warmup_ratio: float = 0.0,
        *,
        power: float = 1.0,
        seconds_done: float = 0.0,
        stop_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        super().__init__()
        _check_shape(kind, warmup_ratio, power)
        if not (0 < seconds < math.inf and seconds_done >= 0):
            raise InputError(f"seconds is {seconds} and seconds_done {seconds_done}; expected above 0, and 0 or more")
        self.kind = kind
        self.peak_learning_rate = peak_learning_rate
        self.seconds = seconds
        self.warmup_ratio = warmup_ratio
        self.power = power
        self.seconds_done = seconds_done
        self.stop_seconds = seconds if stop_seconds is None else stop_seconds
        self._clock = clock
        self._begin: float | None = None

    @property
    def elapsed_seconds(self) -> float:
        """The time since the start of the training, including earlier runs."""
        return self.seconds_done + (0.0 if self._begin is None else self._clock() - self._begin)

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Start the clock."""
        self._begin = self._clock()

    def on_train_end(self, logs: dict | None = None) -> None:
        """Add the time of this `fit` to `seconds_done`."""
        self.seconds_done, self._begin = self.elapsed_seconds, None

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Set the learning rate."""
        fraction = compute_rate(self.kind, self.elapsed_seconds / self.seconds, self.warmup_ratio, power=self.power)
        try:
            self.model.optimizer.learning_rate = self.peak_learning_rate * fraction
        except TypeError as error:
            raise InputError(
                "the optimizer has a learning-rate schedule, which counts steps; expected a constant learning rate: "
                "create the optimizer with num_steps=None"
            ) from error

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Stop the training when the time is up."""
        if self.elapsed_seconds >= self.stop_seconds:
            self.model.stop_training = True


def adamw(learning_rate: float, num_steps: int | None, **settings: float | str) -> BertAdamW:
    """Create AdamW with the settings that BERT was trained with, as defaults.

    Args:
        learning_rate: the peak.
        num_steps: optimizer steps of the whole training; None = a constant rate, for `TimedLearningRate` to set.
        **settings: other fields of `tables.OptimizerSettings`: `schedule`, `warmup_ratio`, `weight_decay`, `beta_1`,
            `beta_2`, `epsilon`, `clip_norm`.

    Raises:
        InputError: settings are invalid; the message lists all of them.

    Example:
        >>> adamw(1e-4, num_steps=1000, warmup_ratio=0.1).weight_decay
        0.01
    """
    return make_optimizer(OptimizerSettings(name="adamw", learning_rate=learning_rate, **settings), num_steps)


def lamb(learning_rate: float, num_steps: int | None, **settings: float | str) -> Lamb:
    """Create LAMB; the arguments are those of `adamw`."""
    return make_optimizer(OptimizerSettings(name="lamb", learning_rate=learning_rate, **settings), num_steps)


def muon(learning_rate: float, num_steps: int | None, **settings: float | str) -> BertMuon:
    """Create Muon; the arguments are those of `adamw`, and `beta_1`, `beta_2` and `epsilon` those of its AdamW part."""
    return make_optimizer(OptimizerSettings(name="muon", learning_rate=learning_rate, **settings), num_steps)


def make_optimizer(settings: OptimizerSettings, schedules: Sequence[tuple[float, int]] | int | None) -> BertOptimizer:
    """Create the optimizer of a run's `[optimizer]` table.

    For a model with the policy "mixed_float16", Keras itself wraps the optimizer in a `LossScaleOptimizer` in `compile`
    (`auto_scale_loss`).

    Args:
        settings: `Pretraining.optimizer`.
        schedules: optimizer steps of the whole training; or (peak learning rate, steps) of each schedule, see
            `Pretraining.schedules`; None = a constant rate, for `TimedLearningRate` to set.
    """
    if isinstance(schedules, int):
        schedules = [(settings.learning_rate, schedules)]
    learning_rate = settings.learning_rate
    if schedules is not None:
        parts = [
            WarmupDecay(settings.schedule, peak, steps, int(steps * settings.warmup_ratio), power=settings.power)
            for peak, steps in schedules
        ]
        learning_rate = parts[0] if len(parts) == 1 else RateSequence(parts)
    numbers = {name: getattr(settings, name) for name in ("weight_decay", "beta_1", "beta_2", "epsilon")}
    kind = {"adamw": BertAdamW, "lamb": Lamb, "muon": BertMuon}[settings.name]
    return kind(learning_rate, **numbers, global_clipnorm=settings.clip_norm or None)


def _compute_fraction(kind: str, rise: object, left: object, power: float, numpy_like: types.ModuleType) -> object:
    """Compute a schedule, with `numpy` for Python floats and with `keras.ops` for tensors."""
    fall = {
        "linear": lambda: left,
        "cosine": lambda: 0.5 - 0.5 * numpy_like.cos(math.pi * left),
        "polynomial": lambda: left**power,
        "constant": lambda: numpy_like.ones_like(left),
        "inverse_sqrt": lambda: 1.0 / numpy_like.sqrt(numpy_like.maximum(rise, 1.0)),
        "one_cycle": lambda: left,
    }[kind]()
    start = _ONE_CYCLE_START if kind == "one_cycle" else 0.0
    return numpy_like.where(rise < 1.0, start + (1.0 - start) * rise, fall)


def _check_shape(kind: str, warmup_ratio: float, power: float) -> None:
    if kind not in SCHEDULES:
        raise InputError(f"there is no schedule {kind!r}; expected one of {', '.join(SCHEDULES)}")
    if not 0 <= warmup_ratio < 1:
        raise InputError(f"warmup_ratio is {warmup_ratio}; expected a number from 0 to below 1")
    if kind == "inverse_sqrt" and warmup_ratio == 0:
        raise InputError("the schedule inverse_sqrt needs a warm-up: set warmup_ratio above 0")
    if not 0 < power < math.inf:
        raise InputError(f"power is {power}; expected a number above 0")
