"""Models have the shapes in the table of weight names, and only weights that are not loaded are initialized."""

import contextlib

import keras
import numpy as np
import pytest

import bert_keras as bk
from bert_keras import files
from bert_keras.checkpoints import building
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.errors import InputError


@pytest.fixture
def encoder_folder(saved_folder):
    return saved_folder("encoder_without_pooler", num_layers=1)


def test_a_checkpoint_is_hashed_once_even_if_loaded_twice(encoder_folder, monkeypatch):
    hashed = []
    digest = files.compute_digest
    monkeypatch.setattr(files, "compute_digest", lambda path: hashed.append(path.name) or digest(path))
    checkpoint = read_checkpoint(encoder_folder)
    assert hashed == [], "reading all but the weights hashes none"
    for _ in range(2):
        bk.load(checkpoint)
        bk.BertTokenClassifier.from_checkpoint(checkpoint, num_classes=3)
    assert hashed == ["model.safetensors"]


def test_loaded_weights_are_not_initialized_first(saved_folder, encoder_folder, monkeypatch):
    classifier_folder = saved_folder("classifier", num_layers=1)
    shapes = []
    for name in ("TruncatedNormal", "RandomNormal"):
        drawn = getattr(keras.initializers, name)
        draw = drawn.__call__
        monkeypatch.setattr(
            drawn,
            "__call__",
            lambda self, shape, *rest, draw=draw: shapes.append(tuple(shape)) or draw(self, shape, *rest),
        )
    bk.load(classifier_folder)
    assert shapes == []
    bk.BertClassifier.from_checkpoint(encoder_folder, num_classes=7)
    assert shapes == [(30, 7), (30, 30)], "the head, and the missing pooler"


def test_a_new_head_has_the_same_weights_with_and_without_a_checkpoint(encoder_folder, monkeypatch):
    def drawn():
        keras.utils.set_random_seed(5)
        model = bk.BertClassifier.from_checkpoint(encoder_folder, num_classes=7)
        return [np.array(layer.kernel) for layer in (model.classifier, model.encoder.pooler)]

    alone = drawn()
    monkeypatch.setattr(building, "zero_initialization", contextlib.nullcontext)
    for some, whole in zip(alone, drawn(), strict=True):
        assert some.std() > 0.01
        np.testing.assert_array_equal(some, whole)


@pytest.mark.parametrize(("model_class", "head"), [(bk.BertEncoder, {}), (bk.BertClassifier, {"num_classes": 2})])
def test_a_dtype_policy_is_that_of_the_model_and_its_encoder(model_class, head, encoder_folder):
    model = model_class.from_checkpoint(encoder_folder, dtype="mixed_bfloat16", **head)
    encoder = building.get_encoder(model)
    layers = (model, encoder, encoder.embeddings.token, encoder.blocks[-1].intermediate)
    assert {layer.compute_dtype for layer in layers} == {"bfloat16"}
    assert {variable.dtype for variable in model.trainable_variables} == {"float32"}


def test_an_encoder_refuses_arguments_of_heads(encoder_folder):
    with pytest.raises(InputError, match="BertEncoder has no argument labels, num_classes; expected dtype or nothing"):
        bk.BertEncoder.from_checkpoint(encoder_folder, num_classes=2, labels=["a", "b"])
