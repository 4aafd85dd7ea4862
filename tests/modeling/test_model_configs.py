"""`get_config` of a model contains every constructor argument."""

import dataclasses
import inspect
import json

import pytest

import bert_keras as bk
from tests.conftest import MODELS
from tests.marks import slow_except

# non-default values for every argument of every model; the test fails for arguments without one
ARGUMENTS = {
    "pooler": False,
    "num_classes": 6,
    "labels": ("a", "b", "c", "d", "e", "f"),
    "dropout_rate": 0.35,
    "pooling": ("max", "cls"),
    "normalize": False,
    "include_prompt": False,
    "prompts": {"query": "query: "},
    "default_prompt_name": "query",
    "similarity": "dot",
    "problem": "multi_label",
    "head_act": "gelu",
}
NOT_STORED = {
    # shared layers are not part of a model's config, because the model that owns them restores them
    ("BertEncoder", "embeddings"),
}
CLASSES = (
    "BertEncoder",
    "BertPretrainer",
    "BertMaskedLM",
    "BertClassifier",
    "BertTokenClassifier",
    "BertQuestionAnswerer",
    "BertEmbedder",
    "ElectraPretrainer",
)
NEEDS_POOLER = ("BertPretrainer",)
OTHER_CONFIG = {
    "vocabulary_size": 61,
    "num_layers": 1,
    "num_heads": 3,
    "hidden_dim": 24,
    "intermediate_dim": 31,
    "max_sequence_length": 19,
    "type_vocabulary_size": 3,
    "embedding_dim": 18,
    "hidden_act": "relu",
    "position_type": "sinusoidal",
    "hidden_dropout_rate": 0.25,
    "attention_dropout_rate": 0.15,
    "layer_norm_epsilon": 1e-7,
    "initializer_range": 0.07,
    "model_type": "electra",
}


@pytest.mark.parametrize("class_name", CLASSES)
def test_config_contains_every_constructor_argument(class_name):
    model_class = getattr(bk, class_name)
    arguments = non_default_arguments(model_class)
    encoder = arguments.pop("encoder", None) or arguments.pop("config")
    model = model_class(encoder, **arguments, name="a_name_of_its_own", dtype="mixed_bfloat16", trainable=False)
    stored = json.loads(json.dumps(model.get_config()))
    copy = model_class.from_config(stored)
    assert type(copy) is model_class
    assert copy.get_config() == model.get_config()
    assert (copy.name, copy.dtype_policy.name, copy.trainable) == ("a_name_of_its_own", "mixed_bfloat16", False)
    for name, value in arguments.items():
        assert getattr_or_sub(copy, name) == value, name
    assert (copy if class_name == "BertEncoder" else copy.encoder).config == bk.BertConfig(**OTHER_CONFIG)


def non_default_arguments(model_class) -> dict:
    """Return a non-default value for every argument of `__init__`."""
    config = bk.BertConfig(**OTHER_CONFIG)
    values = {
        **ARGUMENTS,
        "config": config,
        "encoder": bk.BertEncoder(config, pooler=model_class.__name__ in NEEDS_POOLER),
        "generator_config": dataclasses.replace(config, num_layers=1, hidden_dim=9, num_heads=1),
    }
    arguments = {}
    for name, parameter in inspect.signature(model_class.__init__).parameters.items():
        if name in ("self", "kwargs") or (model_class.__name__, name) in NOT_STORED:
            continue
        assert name in values, f"{model_class.__name__} has a new argument {name}: add a value for it to this test"
        assert values[name] != parameter.default
        arguments[name] = values[name]
    return arguments


def getattr_or_sub(model, name: str):
    """Return the argument `name` of a model; `pooler` is a layer or None, all others are attributes."""
    value = getattr(model, name)
    return value is not None if name == "pooler" else value


def test_other_config_differs_from_the_default_in_every_field():
    defaults = bk.BertConfig().to_dict()
    assert set(OTHER_CONFIG) == set(defaults)
    assert not [name for name, value in OTHER_CONFIG.items() if value == defaults[name]]


@pytest.mark.parametrize("model_kind", slow_except(MODELS, quick=["electra_with_generator"]), indirect=True)
def test_from_config_does_not_modify_its_argument(model_kind, make_model):
    model = make_model(model_kind, num_layers=1)
    config = model.get_config()
    before = json.dumps(config)
    type(model).from_config(config)
    assert json.dumps(config) == before
