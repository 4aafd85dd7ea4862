"""The rules that every record of an architecture keeps."""

import dataclasses

import pytest

from bert_keras.architectures.known_architectures import ARCHITECTURES
from bert_keras.checkpoints.huggingface.huggingface_folder import get_class_name
from bert_keras.checkpoints.huggingface.weight_names import list_weights
from bert_keras.config import BertConfig
from bert_keras.heads.known_heads import HEADS, get_head

CONFIG = BertConfig(31, 2, 2, 8, 16, max_sequence_length=13)
by_architecture = pytest.mark.parametrize("record", ARCHITECTURES.values(), ids=ARCHITECTURES)


@by_architecture
def test_an_architecture_names_known_heads(record):
    models = {head.model_name for head in HEADS}
    assert {*record.heads, *record.needs_pooler, *record.models.values(), *record.endings} <= models


@by_architecture
def test_the_names_of_tensors_are_unique_in_each_format(record):
    for model in record.heads:
        names = list_weights(model, dataclasses.replace(CONFIG, model_type=record.model_type), pooler=True)
        for format in ("ours", "huggingface", "google", "keras_hub"):
            found = [name for weight in names if (name := getattr(weight, format)) is not None]
            assert len(set(found)) == len(found)


@by_architecture
def test_transformers_has_the_class_of_each_head(record):
    import transformers

    classes = {get_class_name(model, record) for model in record.heads}
    assert classes <= set(dir(transformers))  # reading an attribute would import torch


@by_architecture
def test_a_head_that_needs_a_pooler_does_not_ignore_it(record):
    assert not any(get_head(model).ignores_pooler for model in record.needs_pooler)
