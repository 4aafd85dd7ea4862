"""The best epoch is found and restored, and a training without improvement ends."""

import json

import keras
import numpy as np
import pytest

from bert_keras.training.callbacks import EpochScores, TrainingLog


class Counter(keras.Model):
    """Model with one weight that counts its steps, and one that is constant."""

    def __init__(self):
        super().__init__()
        self.steps = self.add_weight(shape=(), initializer="zeros", name="steps")
        self.seven = self.add_weight(shape=(2,), initializer="ones", name="seven", trainable=False)

    def call(self, x):
        return x + self.steps

    def train_step(self, data):
        self.steps.assign_add(1.0)
        return {"loss": self.steps * 0.0}


def fit(scores: list[float], num_epochs: int | None = None, patience: int = 0, **more) -> tuple[EpochScores, Counter]:
    """Train two steps per epoch; the epochs have these scores."""
    given = iter(scores)
    callbacks = more.pop("callbacks", [])
    epochs = EpochScores(lambda: {"loss": 9.0, "good": next(given)}, "good", patience=patience, **more)
    model = Counter()
    model.compile("sgd", run_eagerly=True)
    callbacks = [epochs, *callbacks]
    model.fit(np.zeros((2, 1)), batch_size=1, epochs=num_epochs or len(scores), callbacks=callbacks, verbose=0)
    return epochs, model


@pytest.mark.parametrize(
    ("scores", "best"), [([0.5, 0.7, 0.6], 1), ([0.7, 0.7, 0.7], 0), ([0.1, 0.7, 0.7], 1), ([-0.2, -0.3, -0.1], 2)]
)
def test_the_best_epoch_is_the_first_of_the_highest_scores(scores, best):
    epochs, model = fit(scores)
    assert epochs.best == best
    assert [epoch["good"] for epoch in epochs.epochs] == scores
    assert float(model.steps) == 6
    epochs.restore_best(model)
    assert float(model.steps) == 2 * (best + 1)


def test_there_is_no_best_epoch_before_the_first():
    assert EpochScores(dict, "good", patience=0).best is None


@pytest.mark.parametrize(
    ("patience", "num_epochs"),
    [(0, 7), (1, 3), (2, 6), (3, 7)],  # of 0.1, 0.4, 0.4, 0.5, 0.2, 0.5, 0.4
)
def test_patience_ends_a_training_without_improvement(patience, num_epochs):
    epochs, model = fit([0.1, 0.4, 0.4, 0.5, 0.2, 0.5, 0.4], patience=patience)
    assert len(epochs.epochs) == num_epochs
    assert float(model.steps) == 2 * num_epochs


def test_one_worker_that_stops_stops_all_workers():
    votes = []

    def all_reduce_any(vote: bool) -> bool:
        votes.append(vote)
        return len(votes) == 2  # another worker votes for stopping then

    epochs, _ = fit([0.1, 0.4, 0.5, 0.6], patience=2, all_reduce_any=all_reduce_any)
    assert votes == [False, False]  # one vote per epoch
    assert len(epochs.epochs) == 2


def test_the_best_weights_include_frozen_weights_bit_for_bit():
    epochs, model = fit([0.9, 0.1])
    exactly = {name: np.array(values) for name, values in epochs.best_weights.items()}
    model.seven.assign([3.0, 4.0])
    epochs.restore_best(model)
    assert (float(model.steps), model.seven.numpy().tolist()) == (2.0, [1.0, 1.0])
    for name, values in epochs.best_weights.items():  # the best weights are a copy, not a view of the model
        np.testing.assert_array_equal(values, exactly[name])


def test_epoch_scores_are_logged_as_held_out():
    lines = []
    log = TrainingLog(None, (lines.append,))
    fit([0.5, 0.25], callbacks=[log])
    scored = [line for line in log.lines if "held_out_good" in line]
    assert [(line["step"], line["held_out_good"], line["held_out_loss"]) for line in scored] == [
        (2, 0.5, 9.0),
        (4, 0.25, 9.0),
    ]
    assert [line for line in lines if "held_out_good" in line] == scored
    assert log.metrics()["held_out_good"] == 0.25


def test_epoch_scores_survive_a_backup():
    epochs, model = fit([0.1, 0.8, 0.3])
    again = EpochScores(lambda: {"good": 0.8}, "good", patience=2)
    again.restore(json.loads(json.dumps(epochs.state())), epochs.best_weights)
    again.set_model(model)
    again.on_epoch_end(0)  # of a new `fit`
    assert (again.best, len(again.epochs)) == (1, 4)
    assert model.stop_training
    again.restore_best(model)
    assert float(model.steps) == 4


def test_the_state_for_a_backup_does_not_change_during_training():
    epochs, model = fit([0.1, 0.8])
    facts, arrays = epochs.state(), epochs.best_weights
    log = TrainingLog(None)
    log.set_model(model)
    log.on_train_begin()
    state = log.state()
    before = json.dumps([facts, state]), {name: values.copy() for name, values in arrays.items()}
    model.steps.assign(99.0)
    epochs._score = lambda: {"loss": 0.0, "good": 0.9}
    epochs.on_epoch_end(2)
    log.on_epoch_end(2, {"val_good": 0.9})
    assert (epochs.best, len(epochs.epochs), len(log.lines)) == (2, 3, 1)
    assert json.dumps([facts, state]) == before[0]
    assert {name: values.tolist() for name, values in arrays.items()} == {
        name: values.tolist() for name, values in before[1].items()
    }
