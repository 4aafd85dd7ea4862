"""Build Keras models from a `Checkpoint`, and map our weight names to the variables of a model.

`loading.py` calls `build_model` and `build_head`; `saving.py` calls `get_variables`.
"""

import dataclasses
import logging
from collections.abc import Collection
from typing import Any

import keras

from bert_keras.architectures.architecture import Architecture
from bert_keras.architectures.base import BertModel
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.architectures.known_architectures import ARCHITECTURES, get_architecture
from bert_keras.architectures.layers import zero_initialization
from bert_keras.checkpoints.checkpoint import (
    Checkpoint,
    check_complete,
    check_encoder,
    check_finite_weight,
    check_num_classes,
    check_weights,
)
from bert_keras.checkpoints.huggingface.weight_names import WeightName, get_head_rows, list_weights
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import find_head_of_class, get_head

logger = logging.getLogger(__name__)

_PRETRAINING_HEADS = ("mlm_head.", "next_sentence.")  # the same in every class that has them


def get_stored_config(model: BertModel) -> BertConfig:
    """Return the config of a model's encoder, with the architecture as which the model is stored.

    It is the architecture of the config, or the first other architecture that has all parts of the model: a classifier
    on a BERT without a pooler is stored as an ELECTRA.
    """
    config = get_encoder(model).config
    types = dict.fromkeys((config.model_type, *ARCHITECTURES))
    found = (model_type for model_type in types if _can_store(get_architecture(model_type), model))
    return dataclasses.replace(config, model_type=next(found, config.model_type))


def _can_store(record: Architecture, model: BertModel) -> bool:
    """Whether an architecture has the encoder and the head of a model."""
    config, name = get_encoder(model).config, get_model_name(model)
    own = get_architecture(config.model_type)
    if (record.encoder, record.has_segments) != (own.encoder, own.has_segments):
        return False
    if config.embedding_dim != config.hidden_dim and not record.has_embedding_size:
        return False
    head_act = record.head_settings.get(name, {}).get("head_act", config.hidden_act)
    if getattr(model, "head_act", head_act) != head_act:
        return False
    others = (get_encoder(model), getattr(model, "generator", None))
    parts = {layer.name for layer in model.layers if layer.weights and layer not in others}
    rows = record.heads.get(name) or get_head(name).tensors
    return model in others or parts == {row[2].partition(".")[0] for row in rows}


def get_model_name(model: BertModel) -> str:
    """Return the class name under which a model is stored; a subclass is stored under the name of our class."""
    head = find_head_of_class(type(model))
    return type(model).__name__ if head is None else head.model_name


def get_encoder(model: BertModel) -> BertEncoder:
    """Return the encoder of a model, which is the model itself for a `BertEncoder`."""
    return getattr(model, "encoder", model)


def list_model_weights(model: BertModel) -> list[WeightName]:
    """List the weights of a model with their names in all formats, from input to output."""
    has_pooler = get_encoder(model).pooler is not None
    return list_weights(get_model_name(model), get_stored_config(model), pooler=has_pooler)


def get_variables(model: BertModel) -> dict[str, keras.Variable]:
    """Return the variables of a model, keyed by our weight names.

    Raises:
        InputError: the model was quantized, so its variables are integer codes.
    """
    names = [name.ours for name in list_model_weights(model)]
    for layer in dict.fromkeys(name.rpartition(".")[0] for name in names):
        if mode := getattr(resolve(model, layer).dtype_policy, "quantization_mode", None):
            raise InputError(
                f"the layer {layer} of {type(model).__name__} is quantized ({mode}); expected float weights: save, "
                "convert or export the model before you call its quantize()"
            )
    return {name: resolve(model, name) for name in names}


def build_model(checkpoint: Checkpoint) -> BertModel:
    """Build the model that a checkpoint stores, with all its weights."""
    check_complete(checkpoint)
    checkpoint.check_once()
    model_class = get_head(checkpoint.model).load("model")
    with zero_initialization():
        encoder_class = get_architecture(checkpoint.config.model_type).load_encoder()
        encoder = encoder_class(checkpoint.config, pooler=checkpoint.wants_pooler, name="encoder")
        model = _add_head(model_class, encoder, checkpoint, checkpoint.settings)
    assign(model, checkpoint)
    return model


def build_head(model_class: type[BertModel], checkpoint: Checkpoint, head: dict[str, Any]) -> BertModel:
    """Build `model_class` on the encoder of a checkpoint.

    A stored head of the same class keeps its weights and settings, unless `head` sets other classes. Weights that are
    not stored are initialized randomly.
    """
    if model_class is BertEncoder and (unknown := ", ".join(sorted(head.keys() - {"dtype"}))):
        raise InputError(f"BertEncoder has no argument {unknown}; expected dtype or nothing: leave it out")
    check_encoder(checkpoint)
    checkpoint.check_once()
    record = get_architecture(checkpoint.config.model_type)
    get_head_rows(record, model_class.__name__)  # raises if there is no such head
    settings: dict[str, Any] = {}  # the stored settings of the head that are still valid, and the given ones
    if checkpoint.model == model_class.__name__:
        settings = dict(checkpoint.settings)
        if "num_classes" not in head:
            check_num_classes(checkpoint)
        elif head["num_classes"] != settings.get("num_classes"):  # labels and problem belong to other classes
            settings = {"dropout_rate": settings.get("dropout_rate")}
    settings |= head
    pooler = checkpoint.wants_pooler_for(model_class.__name__)
    dtype = {"dtype": head["dtype"]} if "dtype" in head else {}
    with zero_initialization():
        encoder = record.load_encoder()(checkpoint.config, pooler=pooler, name="encoder", **dtype)
    model = _add_head(model_class, encoder, checkpoint, settings)
    fresh = _list_fresh_weights(model, checkpoint, head)
    if pooler and not checkpoint.has_pooler:
        kernel = encoder.pooler.kernel
        kernel.assign(encoder.pooler.kernel_initializer(kernel.shape, kernel.dtype))
        fresh += ["encoder.pooler.kernel", "encoder.pooler.bias"]
    assign(model, checkpoint, fresh=fresh)
    return model


def assign(model: BertModel, checkpoint: Checkpoint, *, fresh: Collection[str] = ()) -> None:
    """Assign the weights of a checkpoint to a model, except those in `fresh`.

    Raises:
        InputError: a weight is missing or has another shape, in which case the model is unchanged; or it contains NaN
            or infinity.
    """
    variables = {name: variable for name, variable in get_variables(model).items() if name not in fresh}
    check_weights(checkpoint, {name: variable.shape for name, variable in variables.items()}, type(model).__name__)
    if fresh:
        logger.info("%s: randomly initialized: %s", type(model).__name__, ", ".join(fresh))
    for name, variable in variables.items():
        stored = checkpoint.weights[name]
        value = stored.read()
        check_finite_weight(stored.name, value, checkpoint.source)
        variable.assign(value)
    if getattr(model, "generator", None) is not None and checkpoint.generator is not None:
        assign(model.generator, checkpoint.generator)


def _add_head(
    model_class: type[BertModel], encoder: BertEncoder, checkpoint: Checkpoint, settings: dict[str, Any]
) -> BertModel:
    if model_class is BertEncoder:
        return encoder
    try:
        return model_class(encoder, **settings)
    except TypeError as error:  # a missing or unknown argument of the head, which Python's message names
        raise InputError(f"{model_class.__name__} cannot be built on {checkpoint}: {error}") from None


def _list_fresh_weights(model: BertModel, checkpoint: Checkpoint, head: dict[str, Any]) -> list[str]:
    """List the head's weights that cannot be loaded: not stored, of another size, or for other labels."""
    is_same_class = checkpoint.model == type(model).__name__
    labels = head.get("labels")
    has_new_labels = labels is not None and list(labels) != list(checkpoint.settings.get("labels") or ())
    fresh = []
    for name, variable in get_variables(model).items():
        if name.startswith("encoder."):
            continue
        fits = name in checkpoint.weights and tuple(checkpoint.weights[name].shape) == tuple(variable.shape)
        is_same_head = name.startswith(_PRETRAINING_HEADS) or (is_same_class and not has_new_labels)
        if not (fits and is_same_head):
            fresh.append(name)
    return fresh


def resolve(model: BertModel, path: str) -> Any:
    """Return the layer or variable at a path such as `encoder.blocks.0.attention`."""
    first, *rest = path.split(".")
    found = get_encoder(model) if first == "encoder" else getattr(model, first)
    for part in rest:
        found = found[int(part)] if part.isdigit() else getattr(found, part)
    return found
