"""The schedule by hand, the exclusions from decay, and trainings that repeat."""

import keras
import numpy as np
import pytest

import bert_keras as bk
from bert_keras.training import WarmupLinearDecay, adamw


def test_the_rate_rises_to_its_peak_and_falls_to_nothing():
    schedule = WarmupLinearDecay(0.5, num_steps=10, num_warmup_steps=4)
    rates = [float(schedule(step)) for step in range(12)]
    by_hand = [0.125, 0.25, 0.375, 0.5, *(0.5 * left / 7 for left in (6, 5, 4, 3, 2, 1)), 0.0, 0.0]
    np.testing.assert_allclose(rates, by_hand, atol=1e-7)


def test_a_schedule_survives_its_config():
    schedule = WarmupLinearDecay(0.5, num_steps=10, num_warmup_steps=4)
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert again.get_config() == {"peak_learning_rate": 0.5, "num_steps": 10, "num_warmup_steps": 4}


def test_a_warm_up_longer_than_the_training_is_refused():
    with pytest.raises(bk.InputError, match=r"num_warmup_steps is 10, expected a number from 0 to below num_steps"):
        WarmupLinearDecay(0.5, num_steps=10, num_warmup_steps=10)


def test_only_matrices_and_tables_decay(make_model):
    model = make_model("pretrainer")
    optimizer = adamw(1e-3, 10)
    optimizer.build(model.trainable_variables)
    decayed = {variable.name for variable in model.trainable_variables if optimizer._use_weight_decay(variable)}
    assert decayed == {"kernel", "embeddings"}
    assert {variable.name for variable in model.trainable_variables} == {
        "kernel",
        "embeddings",
        "bias",
        "gamma",
        "beta",
    }


def test_the_numbers_of_the_optimizer_are_those_of_bert():
    settings = adamw(1e-4, 100).get_config()
    assert (settings["beta_1"], settings["beta_2"], settings["epsilon"]) == (0.9, 0.999, 1e-6)
    assert (settings["weight_decay"], settings["global_clipnorm"]) == (0.01, 1.0)
    assert settings["learning_rate"]["config"]["num_warmup_steps"] == 10
