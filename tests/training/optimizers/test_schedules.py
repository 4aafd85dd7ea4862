"""Every schedule compared with its formula, over steps and over time, and after a reload."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_keras as bk
from bert_keras.training.optimizers.schedules import (
    SCHEDULES,
    RateSequence,
    TimedLearningRate,
    WarmupDecay,
    compute_rate,
)

# a fifth is warm-up; what is left at 0.2, 0.6 and 0.9 is 1, a half and an eighth
BY_HAND = {
    "linear": {0.0: 0.0, 0.1: 0.5, 0.2: 1.0, 0.6: 0.5, 0.9: 0.125, 1.0: 0.0},
    "cosine": {0.0: 0.0, 0.1: 0.5, 0.2: 1.0, 0.6: 0.5, 0.9: (1 - np.cos(np.pi / 8)) / 2, 1.0: 0.0},
    "polynomial": {0.0: 0.0, 0.1: 0.5, 0.2: 1.0, 0.6: 0.125, 0.9: 0.125**3, 1.0: 0.0},
    "constant": {0.0: 0.0, 0.1: 0.5, 0.2: 1.0, 0.6: 1.0, 0.9: 1.0, 1.0: 1.0},
    "inverse_sqrt": {0.0: 0.0, 0.1: 0.5, 0.2: 1.0, 0.6: 3**-0.5, 0.9: 4.5**-0.5, 1.0: 5**-0.5},
    "one_cycle": {0.0: 0.25, 0.1: 0.625, 0.2: 1.0, 0.6: 0.5, 0.9: 0.125, 1.0: 0.0},
}


@pytest.mark.parametrize("kind", SCHEDULES)
def test_each_schedule_matches_its_formula(kind):
    for progress, height in BY_HAND[kind].items():
        assert compute_rate(kind, progress, 0.2, power=3.0) == pytest.approx(height, abs=1e-12), progress


def test_every_schedule_was_computed_by_hand():
    assert set(BY_HAND) == set(SCHEDULES)


@pytest.mark.parametrize("kind", SCHEDULES)
def test_progress_is_clipped_to_the_training(kind):
    assert compute_rate(kind, -0.5, 0.3) == compute_rate(kind, 0.0, 0.3)
    assert compute_rate(kind, 1.5, 0.3) == compute_rate(kind, 1.0, 0.3)


def test_without_a_warm_up_the_learning_rate_starts_at_its_peak():
    assert [compute_rate(kind, 0.0, 0.0) for kind in SCHEDULES if kind != "inverse_sqrt"] == [1.0] * 5
    assert float(WarmupDecay("linear", 0.5, 10, 0)(0)) == pytest.approx(0.5 * 10 / 11)  # one of eleven is done


def test_one_cycle_matches_cramming():
    # schedulers.py, get_budget_triangle(base_percentage=0.25, falloff=0.25)
    for progress in np.linspace(0, 1, 41):
        theirs = min(0.25 + progress * (1 - 0.25) / (1 - 0.25), 1 / 0.25 - progress / 0.25)
        assert compute_rate("one_cycle", progress, 0.75) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("kind", SCHEDULES)
def test_warmup_decay_matches_rate_shape(kind):
    schedule = WarmupDecay(kind, 0.5, 10, 4, power=2.0)
    for step in range(12):
        shape = compute_rate(kind, (step + 1) / 11, 4 / 11, power=2.0)
        assert float(schedule(step)) == pytest.approx(0.5 * shape, abs=1e-7)  # measured: 2e-8


def test_the_last_steps_of_a_million_are_exact():
    schedule = WarmupDecay("linear", 1.0, 1_000_000, 10_000)
    assert float(schedule(999_999)) == pytest.approx(1 / 990_001, rel=1e-6)  # a share in float32 would be 6 % off


def test_a_rate_sequence_runs_its_schedules_in_order():
    first, second = WarmupDecay("linear", 0.5, 4, 2), WarmupDecay("cosine", 0.1, 6, 3)
    both = RateSequence([first, second])
    expected = [float(first(step)) for step in range(4)] + [float(second(step)) for step in range(8)]
    assert [float(both(step)) for step in range(12)] == expected


@pytest.mark.parametrize(
    "schedule",
    [
        WarmupDecay("polynomial", 0.5, 10, 4, power=2.0),
        RateSequence([WarmupDecay("linear", 0.5, 4, 2), WarmupDecay("one_cycle", 0.1, 6, 3)]),
    ],
)
def test_a_schedule_survives_get_config(schedule):
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert again.get_config() == schedule.get_config()
    assert [float(again(step)) for step in range(30)] == [float(schedule(step)) for step in range(30)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: compute_rate("linaer", 0.5, 0.1), "there is no schedule 'linaer'; expected one of linear, cosine"),
        (lambda: compute_rate("linear", 0.5, 1.0), "warmup_ratio is 1.0; expected a number from 0 to below 1"),
        (lambda: compute_rate("inverse_sqrt", 0.5, 0.0), "the schedule inverse_sqrt needs a warm-up"),
        (lambda: compute_rate("polynomial", 0.5, 0.1, power=0.0), "power is 0.0; expected a number above 0"),
        (
            lambda: WarmupDecay("linear", 0.5, 10, 10),
            r"num_warmup_steps is 10; expected a number from 0 to below num_st",
        ),
        (lambda: TimedLearningRate("linear", 0.5, seconds=0), "seconds is 0 and seconds_done 0.0; expected above 0"),
        (lambda: RateSequence([]), "schedules is empty; expected one or more"),
    ],
)
def test_invalid_arguments_are_rejected(make, message):
    with pytest.raises(bk.InputError, match=message):
        make()


class Clock:
    """Clock that advances by one second per training batch."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def callback(self):
        return keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: self.tick())

    def tick(self):
        self.now += 1.0


class Rates(keras.callbacks.Callback):
    """Record the learning rate of each batch."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(float(self.model.optimizer.learning_rate))


def fit(timer, clock, *, optimizer=None, **options):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(optimizer or keras.optimizers.SGD(1.0), "mse", jit_compile=False, **options)
    rates = Rates()
    endless = tf.data.Dataset.from_tensors((np.ones((4, 3)), np.ones((4, 2)))).repeat()
    model.fit(endless, steps_per_epoch=10**9, verbose=0, shuffle=False, callbacks=[rates, clock.callback(), timer])
    return rates.seen, model


def test_time_sets_the_learning_rate_and_stops_the_training():
    clock = Clock()
    timer = TimedLearningRate("linear", 0.5, seconds=10, warmup_ratio=0.2, clock=clock)
    rates, model = fit(timer, clock)
    assert rates == pytest.approx([0.5 * compute_rate("linear", second / 10, 0.2) for second in range(10)])
    assert int(model.optimizer.iterations) == 10
    assert timer.elapsed_seconds == 10


def test_steps_per_execution_share_one_learning_rate():
    clock = Clock()
    timer = TimedLearningRate("linear", 0.5, seconds=10, warmup_ratio=0.2, clock=clock)
    rates, model = fit(timer, clock, steps_per_execution=5)
    assert rates == pytest.approx([0.5 * compute_rate("linear", second / 10, 0.2) for second in range(10)])
    assert int(model.optimizer.iterations) == 50


def test_a_second_phase_continues_the_schedule_of_the_first():
    clock = Clock()
    first = TimedLearningRate("linear", 0.5, seconds=10, clock=clock, stop_seconds=6)
    before, _ = fit(first, clock)
    clock.now += 1000  # between the phases nothing counts
    second = TimedLearningRate("linear", 0.5, seconds=10, clock=clock, seconds_done=first.elapsed_seconds)
    after, _ = fit(second, clock)
    assert (len(before), len(after)) == (6, 4)
    assert before + after == pytest.approx([0.05 * (10 - second) for second in range(10)])


def test_time_sets_the_learning_rate_inside_a_loss_scale_optimizer():
    clock = Clock()
    timer = TimedLearningRate("constant", 0.5, seconds=3, clock=clock)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    rates, model = fit(timer, clock, optimizer=optimizer)
    assert rates == pytest.approx([0.5] * 3)
    assert float(model.optimizer.inner_optimizer.learning_rate) == 0.5


def test_a_timed_learning_rate_rejects_a_schedule():
    optimizer = keras.optimizers.SGD(WarmupDecay("linear", 0.5, 10, 1))
    timer = TimedLearningRate("linear", 0.5, seconds=3)
    with pytest.raises(bk.InputError, match=r"has a learning-rate schedule, which counts steps.*num_steps=None"):
        fit(timer, Clock(), optimizer=optimizer)
