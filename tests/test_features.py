"""The table of features, and the check of a batch's keys."""

import re

import pytest

import bert_keras as bk
from bert_keras.features import ENCODER_INPUTS, ENCODER_OPTIONAL_INPUTS, FEATURES, check_features


def test_the_table_has_every_encoder_input():
    assert set(ENCODER_INPUTS + ENCODER_OPTIONAL_INPUTS) <= set(FEATURES)
    for name, feature in FEATURES.items():
        assert feature.name == name
        assert set(feature.shape) <= set("BSMK")


def test_the_table_states_the_polarity_of_the_mask():
    assert FEATURES["padding_mask"].meaning == "1 = real token, 0 = padding"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": 0}, "the model lacks the features ['b']: the batch has ['a']"),
        ({"a": 0, "b": 0, "d": 0}, "the model got the unexpected features ['d']; expected ['a', 'b'] and optionally"),
        ([0], "the model got a list; expected a dict of features with the keys ['a', 'b']"),
    ],
)
def test_missing_and_unexpected_features_are_reported(given, message):
    with pytest.raises(bk.InputError, match=re.escape(message)):
        check_features(given, required=("a", "b"), optional=("c",), model="the model")


def test_required_and_optional_features_are_accepted():
    check_features({"a": 0, "b": 0, "c": 0}, required=("a", "b"), optional=("c",), model="the model")
