"""A run ends by time, at a NaN loss, or within an epoch; its log contains each step once."""

import functools
import itertools
import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.training.backups import NO_BACKUP
from bert_keras.training.callbacks import FiniteLoss, StopAfter, TrainingLog, choose_window_steps
from bert_keras.training.fitting import Phase, fit_phases
from bert_keras.training.optimizers.schedules import TimedLearningRate
from bert_keras.training.pretraining import run_pretraining


def last_lines(log: str):
    """Return the last evaluation and the last training line."""
    lines = list(map(json.loads, log.splitlines()))
    return [[line for line in lines if name in line][-1] for name in ("held_out_loss", "loss")]


@pytest.fixture
def timed_run(tiny_run, records, monkeypatch):
    """A run of 200 seconds; the clock advances by one second per reading, so no step takes real time."""
    seconds = itertools.count()
    clocked = functools.partial(TimedLearningRate, clock=lambda: float(next(seconds)))
    monkeypatch.setattr("bert_keras.training.pretraining.TimedLearningRate", clocked)
    return tiny_run(records[1], budget__steps=None, budget__hours=200 / 3600)


def assert_ended_by_time(scored, last) -> None:
    assert 10 < last["step"] < 200
    assert last["learning_rate"] < 0.005  # the peak is 0.01, and the end is near
    assert scored["step"] == last["step"]


def test_a_time_budget_ends_a_run(timed_run, records, monkeypatch):
    """With the phase of a pretraining, but a model of one weight."""
    planned = []

    def plan(_, phases, **__):
        planned.extend(phases)
        raise InterruptedError

    monkeypatch.setattr("bert_keras.training.pretraining.fit_phases", plan)
    with pytest.raises(InterruptedError):
        run_pretraining(timed_run, [records[0]])
    [phase] = planned
    log = fit_phase_of_numbers(itertools.repeat(1.0), num_steps=phase.num_steps, clock=phase.clock)
    assert_ended_by_time(*last_lines(log))


@pytest.mark.slow
def test_a_time_budget_ends_a_pretraining(timed_run, records):
    assert_ended_by_time(*last_lines(run_pretraining(timed_run, [records[0]]).log))


@pytest.mark.slow
def test_a_time_budget_ends_a_run_in_real_time(records, tiny_run):
    folder, manifest = records
    trained = run_pretraining(tiny_run(manifest, budget__steps=None, budget__hours=16 / 3600), [folder])
    scored, last = last_lines(trained.log)
    assert last["seconds"] >= 16  # the first step, which is traced, takes some of them
    assert last["learning_rate"] < 0.005
    assert scored["step"] == last["step"]


NAN_LOSS = r"the loss became nan at step 4, and no model was written; expected a finite loss: train again"


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2])
def test_a_nan_loss_stops_the_run_and_reports_the_step(parts, records, tiny_run):
    folder, manifest = records

    class Spoil(keras.callbacks.Callback):
        """Set a weight to infinity after the third step."""

        def on_train_batch_end(self, batch, logs=None):
            if batch == 2:
                self.model.encoder.blocks[0].attention.query.kernel.assign(np.full((16, 16), np.inf))

    with pytest.raises(InputError, match=NAN_LOSS):
        run_pretraining(tiny_run(manifest, batches__accumulation_steps=parts), [folder], callbacks=[Spoil()])


class Numbers(keras.Model):
    """Model with given losses."""

    def __init__(self):
        super().__init__()
        self.weight = self.add_weight(shape=(), initializer="zeros")

    def call(self, x):
        return x + 0.0 * self.weight

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return tf.reduce_mean(y_pred)


def fit_numbers(values, callbacks, *, steps_per_execution=1, validation_data=None, **arguments):
    model = Numbers()
    model.compile("sgd", steps_per_execution=steps_per_execution)
    data, held_out = (
        None if one is None else tf.data.Dataset.from_tensor_slices(np.array(one, "float32")).batch(1)
        for one in (values, validation_data)
    )
    model.fit(data, validation_data=held_out, callbacks=callbacks, shuffle=False, verbose=0, **arguments)


def fit_phase_of_numbers(values, **options) -> str:
    """Train with `fit_phases` on these losses, evaluate at the end, and return the log as JSON Lines."""
    model = Numbers()
    model.compile("sgd")

    def make_batches(first_batch):
        signature = tf.TensorSpec((1,))
        return tf.data.Dataset.from_generator(
            lambda: (np.full(1, value, "float32") for value in values), output_signature=signature
        )

    held_out = tf.data.Dataset.from_tensor_slices(np.ones(3, "float32")).batch(1).repeat()
    phase = Phase(make_batches, lambda: (held_out, 3), **options)
    fixed = {"settings": {}, "data": {}, "backup": NO_BACKUP, "callbacks": (), "listeners": ()}
    return fit_phases(model, [phase], strategy=tf.distribute.get_strategy(), **fixed).to_json_lines()


def test_every_training_stops_at_a_nan_loss():
    with pytest.raises(InputError, match=NAN_LOSS):
        fit_phase_of_numbers([1.0] * 3 + [math.nan] + [1.0] * 4, num_steps=8)


def test_a_log_line_is_the_mean_over_its_own_steps():
    log = TrainingLog(100.0)
    fit_numbers([1.0] * 50 + [3.0] * 50 + [9.0] * 10, [log])
    log.finish()
    log.finish()  # nothing is left
    assert [(line["step"], line["num_steps"], line["loss"], line["tokens"]) for line in log.lines] == [
        (50, 50, 1.0, 5000),
        (100, 50, 3.0, 10000),
        (110, 10, 9.0, 11000),
    ]
    assert log.metrics()["loss"] == pytest.approx((3.0 * 50 + 9.0 * 10) / 60)  # not of the last ten alone


@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_log_windows_continue_across_epochs_and_evaluations(steps_per_execution):
    log = TrainingLog(None, window_steps=9)
    values = np.arange(42.0)
    options = {"steps_per_execution": steps_per_execution, "validation_data": [1000.0] * 3}
    fit_numbers(values, [log], epochs=7, steps_per_epoch=6, **options)
    training = [(line["step"], line["num_steps"], line["loss"]) for line in log.lines if "loss" in line]
    assert training == [(end, 9, values[end - 9 : end].mean()) for end in (9, 18, 27, 36)]
    held_out = [(line["step"], line["held_out_loss"]) for line in log.lines if "held_out_loss" in line]
    assert held_out == [(step, 1000.0) for step in range(6, 43, 6)]


def test_callbacks_after_the_log_get_the_mean_of_the_current_window():
    seen = []

    class See(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(logs["loss"])

    fit_numbers([1.0, 3.0, 5.0, 7.0], [TrainingLog(None, window_steps=2), See()])
    assert seen == [1.0, 2.0, 5.0, 6.0]


@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_callbacks_get_the_epoch_mean_at_the_end_of_an_epoch(steps_per_execution, tmp_path):
    """Not the loss of the last batch, which remains because metrics are reset in each step."""
    values = [1.0, 9.0, 1.0, 5.0] + [2.0, 6.0, 7.0, 1.0] + [9.0, 1.0, 6.0, 0.0] + [1.0] * 4  # means 4, 4, 4, 1
    seen = []

    class See(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(logs["loss"])

    stop = keras.callbacks.EarlyStopping(monitor="loss", patience=2, min_delta=0.5)
    table = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    history = keras.callbacks.History()
    watchers = [TrainingLog(None, window_steps=3), See(), stop, table, history]
    options = {"steps_per_execution": steps_per_execution, "validation_data": [1000.0] * 3}
    fit_numbers(values, watchers, epochs=4, steps_per_epoch=4, **options)
    assert seen == history.history["loss"] == [4.0, 4.0, 4.0]
    assert history.history["val_loss"] == [1000.0] * 3
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert [line.split(",") for line in lines] == [
        ["epoch", "loss", "val_loss"],
        *([f"{n}", "4.0", "1000.0"] for n in range(3)),
    ]


def test_the_mean_of_a_resumed_epoch_includes_the_steps_before_the_interruption():
    first, log, history = TrainingLog(None), TrainingLog(None), keras.callbacks.History()
    fit_numbers([1.0, 2.0, 3.0], [first], epochs=1, steps_per_epoch=3)
    log.restore(json.loads(json.dumps(first.state())))
    log.continue_epoch()
    fit_numbers([6.0], [log, history])
    assert history.history["loss"] == [3.0]
    fit_numbers([5.0, 7.0], [log, history])
    assert history.history["loss"] == [3.0, 6.0]  # the next epoch is a whole one again
    log.restore({"lines": [], "tokens": 0.0, "seconds": 1.0})  # as version 0.1 wrote it
    log.continue_epoch()
    fit_numbers([5.0], [log, history])
    assert history.history["loss"] == [3.0, 6.0, 5.0]


def test_log_lines_of_release_0_1_are_read_as_training_lines():
    """They have no num_steps."""
    log = TrainingLog(None, window_steps=2)
    lines = [
        {"step": 50, "seconds": 1.0, "learning_rate": 0.1, "loss": 70.0, "mlm_accuracy": 0.1},
        {"step": 50, "seconds": 1.0, "held_out_loss": 8.0},
        {"step": 100, "seconds": 2.0, "learning_rate": 0.1, "loss": 60.0, "mlm_accuracy": 0.2},
    ]
    log.restore({"lines": lines, "tokens": 0.0, "seconds": 2.0})
    assert log.metrics() == {"loss": 60.0, "mlm_accuracy": 0.2, "held_out_loss": 8.0}
    fit_numbers([3.0, 5.0], [log])
    assert log.metrics() == {"loss": 4.0, "held_out_loss": 8.0}


def test_a_short_training_logs_ten_lines():
    assert [choose_window_steps(num) for num in (1, 9, 120, 499, 500, 10**6, None)] == [1, 1, 12, 49, 50, 50, 50]


@pytest.mark.parametrize("steps_per_execution", [1, 4])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_the_step_of_a_nan_loss_is_reported(bad, steps_per_execution):
    values = [1.0] * 16
    values[7] = bad
    with pytest.raises(InputError, match=rf"the loss became {bad} at step 8"):
        fit_numbers(values, [FiniteLoss()], steps_per_execution=steps_per_execution)


def test_stop_after_ends_fit_within_an_epoch():
    log, stop = TrainingLog(1.0), StopAfter(7)
    fit_numbers([1.0] * 30, [stop, log])
    log.finish()
    assert log.lines[-1]["step"] == 7
