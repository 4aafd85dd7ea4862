"""Learning rates over a training: shapes over its progress, driven by steps or by the clock.

A shape is a share of the peak rate. It rises over the warm-up, then falls as its kind says. `rise` counts the
warm-up (0 = begin, 1 = at its end, beyond 1 = later), `left` the rest (1 = at the end of the warm-up, 0 = at the end):

    linear        left                    Devlin et al. 2018, Liu et al. 2019, Clark et al. 2020, Izsak et al. 2021
    cosine        (1 - cos(pi left)) / 2  Loshchilov & Hutter 2017, one half wave
    polynomial    left ** power           google-research/bert and electra decay so, with power 1
    constant      1
    inverse_sqrt  1 / sqrt(rise)          Vaswani et al. 2017: sqrt(warm-up / step), so it needs a warm-up
    one_cycle     left, and the rise begins at a quarter of the peak: "budget-triangle2" of Geiping & Goldstein 2022,
                  whose warm-up is 75 % of the time
"""

import math
import time
from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

from bert_keras.errors import InputError

SCHEDULES = ("linear", "cosine", "polynomial", "constant", "inverse_sqrt", "one_cycle")
_ONE_CYCLE_START = 0.25  # base_percentage of budget-triangle2 in cramming's schedulers.py


def rate_shape(kind: str, progress: float, warmup_ratio: float, *, power: float = 1.0) -> float:
    """Returns the learning rate at `progress`, as a share of the peak.

    Args:
        kind: one of `SCHEDULES`.
        progress: how much of the training is done, from 0 to 1; what is outside is taken as the nearer end.
        warmup_ratio: the share of the training in which the rate rises, from 0 to below 1.
        power: the exponent of "polynomial".

    Raises:
        InputError: an unknown kind, or a warm-up or power out of range.

    Example:
        >>> [round(rate_shape("linear", progress, 0.2), 3) for progress in (0, 0.1, 0.2, 0.6, 1)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    _check_shape(kind, warmup_ratio, power)
    progress = min(max(progress, 0.0), 1.0)
    rise = progress / warmup_ratio if warmup_ratio else math.inf
    return float(_height(kind, rise, (1.0 - progress) / (1.0 - warmup_ratio), power, np))


@keras.saving.register_keras_serializable(package="bert_keras")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of a training of known length: a warm-up, then one of `SCHEDULES`.

    The first step already moves, the peak is at step `num_warmup_steps`, and the step after the last would be 0.

    Args:
        kind: one of `SCHEDULES`.
        peak_learning_rate: the highest rate.
        num_steps: optimizer steps of the whole training.
        num_warmup_steps: steps of the rise, less than `num_steps`.
        power: the exponent of "polynomial".

    Raises:
        InputError: an unknown kind, a warm-up that is not shorter than the training, or a number out of range.
    """

    def __init__(
        self,
        kind: str,
        peak_learning_rate: float,
        num_steps: int,
        num_warmup_steps: int,
        *,
        power: float = 1.0,
    ):
        if not 0 <= num_warmup_steps < num_steps:
            raise InputError(
                f"num_warmup_steps is {num_warmup_steps}, expected a number from 0 to below num_steps ({num_steps})"
            )
        _check_shape(kind, num_warmup_steps / num_steps, power)
        self.kind = kind
        self.peak_learning_rate = peak_learning_rate
        self.num_steps = num_steps
        self.num_warmup_steps = num_warmup_steps
        self.power = power

    def __call__(self, step):
        step = ops.minimum(ops.cast(step, "float32") + 1.0, self.num_steps + 1.0)
        # from whole numbers of steps, not from a share: float32 would lose the last steps of a million
        rise = step / self.num_warmup_steps if self.num_warmup_steps else step + 1.0
        left = (self.num_steps + 1.0 - step) / (self.num_steps + 1.0 - self.num_warmup_steps)
        return self.peak_learning_rate * _height(self.kind, rise, left, self.power, ops)

    def get_config(self):
        return {
            "kind": self.kind,
            "peak_learning_rate": self.peak_learning_rate,
            "num_steps": self.num_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "power": self.power,
        }


@keras.saving.register_keras_serializable(package="bert_keras")
class RateSequence(keras.optimizers.schedules.LearningRateSchedule):
    """Schedules behind each other, each as long as its `num_steps`; the last goes on without end.

    For phases that warm up again, as LAMB's second phase does (You et al. 2019, section 4.1: "re-warm-up").

    Args:
        schedules: `WarmupDecay`s, one or more.

    Raises:
        InputError: there is none.
    """

    def __init__(self, schedules: Sequence[WarmupDecay]):
        self.schedules = list(schedules)
        if not self.schedules:
            raise InputError("no schedules were given; expected one or more")

    def __call__(self, step):
        step = ops.cast(step, "int32")
        rate, begin = self.schedules[0](step), 0
        for before, schedule in zip(self.schedules, self.schedules[1:], strict=False):
            begin += before.num_steps
            rate = ops.where(step < begin, rate, schedule(ops.maximum(step - begin, 0)))
        return rate

    def get_config(self):
        return {"schedules": [keras.saving.serialize_keras_object(schedule) for schedule in self.schedules]}

    @classmethod
    def from_config(cls, config):
        return cls([keras.saving.deserialize_keras_object(schedule) for schedule in config["schedules"]])


class TimedLearningRate(keras.callbacks.Callback):
    """Drives a shape by the clock instead of by steps, and stops the training when the time is up (Izsak et al. 2021).

    Time is counted from the beginning of `fit`, with compilation and evaluation. The optimizer needs a plain learning
    rate, no schedule. The rate is set before each batch; with `steps_per_execution` it holds for that many steps.

    Args:
        kind: one of `SCHEDULES`.
        peak_learning_rate: the highest rate.
        seconds: the time of the whole training.
        warmup_ratio: the share of it in which the rate rises.
        power: the exponent of "polynomial".
        seconds_done: what an earlier run or phase of the same training has used.
        stop_seconds: when to stop, counted as `seconds` is; the end of a phase. Default: `seconds`.
        clock: a function that gives seconds.

    Raises:
        InputError: an unknown kind or a number out of range; or, in `fit`, an optimizer with a schedule.

    Example:
        >>> day = TimedLearningRate("linear", 1e-3, seconds=24 * 3600, warmup_ratio=0.06)
        >>> # model.fit(batches, steps_per_epoch=10**9, callbacks=[day])
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
        """The time used so far, with that of earlier runs."""
        return self.seconds_done + (0.0 if self._begin is None else self._clock() - self._begin)

    def on_train_begin(self, logs=None):
        self._begin = self._clock()

    def on_train_end(self, logs=None):
        self.seconds_done, self._begin = self.elapsed_seconds, None

    def on_train_batch_begin(self, batch, logs=None):
        share = rate_shape(self.kind, self.elapsed_seconds / self.seconds, self.warmup_ratio, power=self.power)
        try:
            self.model.optimizer.learning_rate = self.peak_learning_rate * share
        except TypeError as error:
            raise InputError(
                "the optimizer has a learning rate schedule, which counts steps; expected a plain learning rate that "
                "the clock can set: make the optimizer with num_steps=None"
            ) from error

    def on_train_batch_end(self, batch, logs=None):
        if self.elapsed_seconds >= self.stop_seconds:
            self.model.stop_training = True


def _height(kind: str, rise, left, power: float, numpy_like):
    """The shape itself, for Python floats with `numpy` and for tensors with `keras.ops`."""
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
        raise InputError(f"warmup_ratio is {warmup_ratio}; expected a share from 0 to below 1")
    if kind == "inverse_sqrt" and warmup_ratio == 0:
        raise InputError("inverse_sqrt falls from the end of its warm-up: give it a warmup_ratio above 0")
    if not 0 < power < math.inf:
        raise InputError(f"power is {power}; expected a number above 0")
