"""Replicas and micro-batches make the same updates as one device: sum, then clip the gradients; use every batch.

SGD is one of the optimizers because Adam and LAMB are nearly unaffected by the scale of the gradients.
"""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.distribution import clip_gradients
from tests.distribution.conftest import REPOSITORY
from tests.distribution.test_distributed_step import assert_same_training
from tests.distribution.train_toy_models import LIMITS, NUM_STEPS, QUICK, SCALES, Toy, make_data, make_optimizers, train
from tests.marks import slow_except

TOLERANCE = 1e-6  # for weights of about 0.5; measured: 1.2e-7


@pytest.fixture(scope="module")
def report():
    """Output of `train_toy_models.py` for the optimizers of the quick suite."""
    return run_toy(QUICK)


@pytest.fixture(scope="module")
def full_report():
    """Output of `train_toy_models.py` for all optimizers."""
    return run_toy(make_optimizers())


def run_toy(names):
    """Run `train_toy_models.py` in a separate process with two devices."""
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "tests.distribution.train_toy_models", *names]
    environment = {**os.environ, "PYTHONPATH": path}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=REPOSITORY, timeout=600)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("optimizer", QUICK)
def test_clipped_gradients_equal_those_of_one_device(optimizer, report):
    assert_same_as_one_device(report["trained"][optimizer])


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", make_optimizers())
def test_clipped_gradients_equal_those_of_one_device_for_every_optimizer(optimizer, full_report):
    assert_same_as_one_device(full_report["trained"][optimizer])


def assert_same_as_one_device(trained):
    trained = dict(trained)
    one = trained.pop("one device")
    assert trained
    for division, other in trained.items():
        assert (other["steps"], other["scale"]) == (one["steps"], one["scale"]), division
        np.testing.assert_allclose(other["losses"], one["losses"], rtol=TOLERANCE, err_msg=division)
        for ours, theirs in zip(other["weights"], one["weights"], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE, err_msg=division)


def test_compared_runs_clip_gradients_and_overflow_the_scaled_loss(report):
    """Otherwise the comparison would be meaningless."""
    limited, scaled = (report["trained"][name]["one device"] for name in ("sgd norm", "scaled adamw global"))
    plain = train(make_optimizers()["sgd plain"])
    assert np.abs(np.array(plain["weights"][0]) - np.array(limited["weights"][0])).max() > 100 * TOLERANCE
    assert scaled["steps"] == NUM_STEPS - 2


@pytest.mark.slow
def test_compared_runs_reach_every_limit_and_overflow_only_at_the_larger_scale(full_report):
    """Otherwise the comparison would be meaningless."""
    report = full_report
    weights = {name: trained["one device"]["weights"] for name, trained in report["trained"].items()}
    kinds = [weights[f"sgd {limit}"] for limit in LIMITS]
    for ours, theirs in zip(kinds, [*kinds[1:], kinds[0]], strict=True):
        assert np.abs(np.array(ours[0]) - np.array(theirs[0])).max() > 100 * TOLERANCE
    num_skipped = {name: NUM_STEPS - report["trained"][f"scaled {name}"]["one device"]["steps"] for name in SCALES}
    assert num_skipped == {"sgd global": 0, "adamw global": 2}


def test_fit_under_a_strategy_consumes_every_batch_once(report):
    assert report["batches"] == [number for number in range(NUM_STEPS) for _ in range(2)]  # once per replica


def test_replicas_micro_batches_checkpointing_and_unpadding_do_not_change_the_training(report):
    """Combines all options on a head with two losses; slow tests check each separately."""
    divided, whole = report["pretrainer"]["divided"], report["pretrainer"]["whole"]
    assert_same_training(divided, whole, 1e-5)
    np.testing.assert_allclose(divided["weights"], whole["weights"], rtol=0, atol=1e-5)
    assert len({logs["loss"] for logs in whole["steps"]}) == 20  # the weights changed


@pytest.mark.parametrize("limit", slow_except(LIMITS, quick=["global", "norm"]))
def test_clipping_equals_keras_bit_for_bit_on_one_device(limit):
    """A Keras model with a Keras optimizer makes the same updates as a distributed step with one micro-batch."""
    ours = train(lambda: keras.optimizers.SGD(0.1, **LIMITS[limit]))
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(2)])
    model.set_weights([np.array(weights) for weights in initial_weights()])
    model.compile(keras.optimizers.SGD(0.1, **LIMITS[limit]), "mse", jit_compile=False)
    model.fit(*make_data(), batch_size=6, shuffle=False, verbose=0)
    for weights, theirs in zip(ours["weights"], model.get_weights(), strict=True):
        np.testing.assert_array_equal(np.float32(weights), theirs)


def initial_weights():
    keras.utils.set_random_seed(3)
    return Toy().get_weights()


@pytest.mark.parametrize("limit", [limit for limit in LIMITS if limit != "value"])
def test_clipping_does_not_hide_infinity(limit):
    gradients = [tf.constant([1.0, np.inf]), tf.constant([2.0])]
    clipped = clip_gradients(gradients, keras.optimizers.SGD(0.1, **LIMITS[limit]))
    assert not np.isfinite(clipped[0].numpy()).all()
