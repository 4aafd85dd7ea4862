"""The table of features, and its messages."""

import re

import pytest

import bert_keras as bk
from bert_keras.features import ENCODER_INPUTS, ENCODER_OPTIONAL_INPUTS, FEATURES, check_features


def test_every_encoder_input_is_in_the_table():
    assert set(ENCODER_INPUTS + ENCODER_OPTIONAL_INPUTS) <= set(FEATURES)
    for name, feature in FEATURES.items():
        assert feature.name == name
        assert set(feature.shape) <= set("BSMK")


def test_the_polarity_of_the_mask_is_written_down():
    assert FEATURES["padding_mask"].meaning == "1 = real token, 0 = padding"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": 0}, "the model misses the features ['b']: the batch has ['a']"),
        ({"a": 0, "b": 0, "d": 0}, "the model was given the extra features ['d']: it reads ['a', 'b'] and"),
        ([0], "the model was given a list; expected a dict of features with the keys ['a', 'b']"),
    ],
)
def test_missing_and_extra_features_are_told_apart(given, message):
    with pytest.raises(bk.InputError, match=re.escape(message)):
        check_features(given, required=("a", "b"), optional=("c",), taker="the model")


def test_required_and_optional_features_pass():
    check_features({"a": 0, "b": 0, "c": 0}, required=("a", "b"), optional=("c",), taker="the model")
