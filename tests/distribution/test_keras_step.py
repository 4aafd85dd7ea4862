"""A single replica without gradient accumulation uses Keras's own step, which equals the distributed step."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_keras as bk
from bert_keras.training import adamw
from tests.distribution.train_heads import BATCH_SIZE, CONFIG, HEADS, Logs, make_data
from tests.distribution.train_toy_models import train

NUM_STEPS = 4


def train_and_evaluate(
    head: str, monkeypatch, *, config=CONFIG, **attributes
) -> tuple[list[dict], list[np.ndarray], dict]:
    """Train and evaluate a tiny model after setting `attributes` on its class; return logs, weights and scores."""
    monkeypatch.setattr("tests.distribution.train_heads.CONFIG", config)
    keras.utils.set_random_seed(5)
    model = HEADS[head]()
    for name, value in attributes.items():
        monkeypatch.setattr(type(model), name, value)
    model.compile(adamw(1e-2, NUM_STEPS, clip_norm=0.5), jit_compile=False)
    batches = tf.data.Dataset.from_tensor_slices(make_data(head, NUM_STEPS)).batch(BATCH_SIZE)
    logs = Logs()
    model.fit(batches, callbacks=[logs], shuffle=False, verbose=0)
    scores = model.evaluate(batches.take(2), verbose=0, return_dict=True)
    monkeypatch.undo()
    return logs.lines, model.get_weights(), scores


def assert_equal(ours, theirs, tolerance: float) -> None:
    for our_logs, their_logs in zip([*ours[0], ours[2]], [*theirs[0], theirs[2]], strict=True):
        assert our_logs == pytest.approx(their_logs, rel=0, abs=tolerance)
    for our_weights, their_weights in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(our_weights, their_weights, rtol=0, atol=tolerance)


@pytest.fixture
def keras_steps():
    """Names of the model classes that trace Keras's own training step, in order."""
    traced = []
    step = keras.Model.train_step

    def train_step(self, data):
        traced.append(type(self).__name__)
        return step(self, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.Model, "train_step", train_step)
        yield traced


def test_single_device_traces_the_keras_step_once(keras_steps):
    """test_equal_gradients.py compares this step of the pretrainer with a distributed one."""
    fit_once("pretrainer")
    assert keras_steps == ["BertPretrainer"]  # `build_step` has already created all variables


@pytest.mark.slow
@pytest.mark.parametrize("head", ["pretrainer", "classifier", "electra"])
def test_single_device_traces_the_keras_step_once_and_equals_the_distributed_step(head, keras_steps, monkeypatch):
    """Includes dropout, and for the classifier sample weights."""
    plain = train_and_evaluate(head, monkeypatch)
    assert len(keras_steps) == 1  # `build_step` has already created all variables
    divided = train_and_evaluate(head, monkeypatch, is_distributed=True)
    assert len(keras_steps) == 1
    assert_equal(divided, plain, 1e-6)  # measured: 1.2e-7
    assert len({line["loss"] for line in plain[0]}) == NUM_STEPS


@pytest.mark.slow
def test_single_device_step_equals_the_keras_step(monkeypatch):
    """Without dropout, because our masks depend on the step while those of Keras do not."""
    config = bk.BertConfig(**{**CONFIG.to_dict(), "hidden_dropout_rate": 0.0, "attention_dropout_rate": 0.0})
    ours = train_and_evaluate("token_classifier", monkeypatch, config=config)
    theirs = train_and_evaluate(
        "token_classifier",
        monkeypatch,
        config=config,
        train_step=keras.Model.train_step,
        test_step=keras.Model.test_step,
        make_train_function=keras.Model.make_train_function,
        make_test_function=keras.Model.make_test_function,
    )
    assert_equal(ours, theirs, 0.0)


def fit_once(head: str) -> None:
    """Train a new model on one batch."""
    model = HEADS[head]()
    model.compile(adamw(1e-2, NUM_STEPS), jit_compile=False)
    model.fit(tf.data.Dataset.from_tensor_slices(make_data(head, 1)).batch(BATCH_SIZE), shuffle=False, verbose=0)


def test_micro_batches_do_not_use_the_keras_step(keras_steps):
    train(keras.optimizers.SGD)
    assert keras_steps == ["Toy"]
    train(keras.optimizers.SGD, accumulation_steps=2)
    assert keras_steps == ["Toy"]


@pytest.mark.slow
def test_keras_traces_its_own_step_twice(keras_steps, monkeypatch):
    fit_once("pretrainer")
    assert len(keras_steps) == 1
    monkeypatch.setattr(bk.BertPretrainer, "make_train_function", keras.Model.make_train_function)
    fit_once("pretrainer")
    assert len(keras_steps) == 1 + 2  # Keras creates the variables of two losses while tracing
