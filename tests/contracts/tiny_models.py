"""Tiny models, batches and labels, made from the records of heads and architectures alone."""

import dataclasses

import numpy as np

import bert_keras as bk
from bert_keras.architectures.architecture import Architecture
from bert_keras.architectures.known_architectures import ARCHITECTURES
from bert_keras.checkpoints.huggingface.huggingface_folder import get_class_name
from bert_keras.heads.head import Head
from bert_keras.heads.known_heads import HEADS
from tests.conftest import LABELS, SIZES

NARROW = 22  # the width of embeddings that are narrower than the blocks
FEATURES = ("token_ids", "padding_mask", "segment_ids")


def list_heads(architecture: Architecture) -> list[Head]:
    """Return the heads of an architecture; those without a table of tensors belong to all."""
    listed = {model for record in ARCHITECTURES.values() for model in record.heads}
    return [head for head in HEADS if head.model_name in architecture.heads or head.model_name not in listed]


def find_architecture(head: Head) -> Architecture:
    """Return the first architecture that has a head."""
    return next(record for record in ARCHITECTURES.values() if head in list_heads(record))


def is_in_transformers(architecture: Architecture) -> bool:
    """Whether the architecture is one of ours, all of which transformers has, or one of a plug-in."""
    return architecture.encoder.startswith("bert_keras.")


def has_own_class(architecture: Architecture, head: Head) -> bool:
    """Whether transformers has a class for exactly this head."""
    ending = get_class_name(head.model_name, architecture).removeprefix(architecture.class_prefix)
    others = {other.huggingface: other.model_name for other in HEADS}
    return architecture.models.get(ending, others.get(ending)) == head.model_name


def make_config(architecture: Architecture, **changes: object) -> bk.BertConfig:
    """Return the config of a tiny encoder; all sizes differ."""
    sizes = {**SIZES, "num_layers": 2, **architecture.fixed_fields, "model_type": architecture.model_type}
    return bk.BertConfig(
        **{**sizes, **({"embedding_dim": NARROW} if architecture.has_embedding_size else {}), **changes}
    )


def make_encoder(architecture: Architecture, head: Head, config: bk.BertConfig | None = None, **options: object):
    """Return a new encoder, with a pooler if the head needs or keeps one."""
    pooler = bool(architecture.pooler) and (head.model_name in architecture.needs_pooler or head.keeps_pooler)
    return architecture.load_encoder()(config or make_config(architecture), pooler=pooler, **options)


def make_arguments(head: Head, config: bk.BertConfig, **changes: object) -> dict:
    """Return the arguments of the model of a head, apart from its encoder."""
    arguments = {"num_classes": len(LABELS), "labels": LABELS} if head.has_num_classes else {}
    if head.objective is not None and head.objective.has_generator:
        arguments["generator_config"] = dataclasses.replace(config, num_layers=1, num_heads=3, hidden_dim=24)
    if changes.get("problem") == "regression":
        arguments |= {"num_classes": 1, "labels": None}
    return {**arguments, **changes}


def add_head(head: Head, encoder, **arguments: object):
    """Return a new model with a head on an encoder."""
    model_class = head.load("model")
    return encoder if isinstance(encoder, model_class) else model_class(encoder, **arguments)


def reads_masks(head: Head) -> bool:
    """Whether the model is trained on masked positions."""
    return any(axes == "M" for _, axes, _ in head.labels)


def make_labels(head: Head, model, batch: dict) -> np.ndarray | dict:
    """Return random labels for `fit`: classes and positions of 0 or 1, which all heads have, and floats of 1."""
    rng = np.random.default_rng(3)
    sizes = {"S": batch["token_ids"].shape[1], "M": batch.get("mask_positions", np.zeros((1, 1))).shape[1]}

    def draw(*axes: int, dtype: str) -> np.ndarray:
        shape = (len(batch["token_ids"]), *axes)
        return (rng.integers(0, 2, shape) if dtype.startswith("int") else np.ones(shape)).astype(dtype)

    if getattr(model, "problem", "single_label") != "single_label":
        return draw(*([model.num_classes] if model.problem == "multi_label" else []), dtype="float32")
    if not head.labels:  # a number per sequence, for the loss of the task
        return draw(dtype="float32")
    labels = {name: draw(*map(sizes.get, axes), dtype=dtype) for name, axes, dtype in head.labels}
    return labels.get(None, labels)


def assert_identical(ours: dict, theirs: dict) -> None:
    """Check that two dicts of outputs have the same names and the same bits."""
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def assert_close(ours: dict, theirs: dict, tolerance: float) -> None:
    """Check that two dicts of outputs have the same names, the same shapes, and almost the same values."""
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert np.shape(value) == np.shape(theirs[name]), name
        np.testing.assert_allclose(value, theirs[name], rtol=0, atol=tolerance, err_msg=name)
