"""`BertConfig` checks its values, and the model uses every field."""

import dataclasses
import pathlib
import re

import pytest

import bert_keras as bk
from bert_keras.config import PRESETS

MODELING = pathlib.Path(__file__).parents[1] / "bert_keras/architectures"


@pytest.mark.parametrize(
    ("preset", "layers", "width", "heads"),
    [
        ("tiny", 2, 128, 2),
        ("mini", 4, 256, 4),
        ("small", 4, 512, 8),
        ("medium", 8, 512, 8),
        ("base", 12, 768, 12),
        ("large", 24, 1024, 16),
    ],
)
def test_presets_have_the_published_sizes(preset, layers, width, heads):
    config = bk.BertConfig.from_preset(preset)
    assert (config.num_layers, config.hidden_dim, config.num_heads) == (layers, width, heads)
    assert config.intermediate_dim == 4 * width
    assert config.head_dim == 64
    assert config.embedding_dim == width


def test_from_preset_accepts_overrides_and_refuses_unknown_names():
    assert bk.BertConfig.from_preset("tiny", vocabulary_size=7).vocabulary_size == 7
    with pytest.raises(bk.InputError, match=r"no preset 'huge'.*tiny.*large"):
        bk.BertConfig.from_preset("huge")
    assert len(PRESETS) == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_dim": 30, "num_heads": 4}, "hidden_dim 30 is not divisible by num_heads 4"),
        ({"num_layers": 0}, "num_layers is 0, expected an integer >= 1"),
        ({"vocabulary_size": 2.5}, "vocabulary_size is 2.5"),
        ({"num_heads": True}, "num_heads is True"),
        ({"hidden_dropout_rate": 1.0}, "hidden_dropout_rate is 1.0, expected a number from 0 to below 1"),
        ({"attention_dropout_rate": "a"}, "attention_dropout_rate is 'a'"),
        ({"layer_norm_epsilon": 0}, "layer_norm_epsilon is 0, expected a number above 0"),
        ({"hidden_act": "swish"}, "hidden_act is 'swish', expected one of gelu, gelu_tanh, relu"),
        ({"position_type": "rotary"}, "position_type is 'rotary', expected one of learned, sinusoidal"),
    ],
)
def test_an_invalid_value_is_reported(changes, message):
    with pytest.raises(bk.InputError, match=re.escape(message)):
        bk.BertConfig(**changes)


def test_all_invalid_values_are_reported_at_once():
    with pytest.raises(ValueError, match=r"num_layers is 0.*hidden_act is 'x'"):
        bk.BertConfig(num_layers=0, hidden_act="x")


def test_an_unknown_key_is_refused():
    with pytest.raises(bk.InputError, match=r"has no hidden_size; its fields are .*hidden_dim"):
        bk.BertConfig.from_dict({"hidden_size": 768})


def test_a_config_is_immutable_and_equals_one_from_its_dict():
    config = bk.BertConfig(hidden_act="relu", embedding_dim=128)
    assert bk.BertConfig.from_dict(config.to_dict()) == config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.num_layers = 3


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(bk.BertConfig)])
def test_the_model_uses_every_field(field):
    code = "\n".join(path.read_text(encoding="utf-8") for path in MODELING.glob("*.py"))
    assert re.search(rf"config\.{field}\b", code)
