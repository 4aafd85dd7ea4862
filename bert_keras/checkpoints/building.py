"""Models built on a `Checkpoint`, and the variables of a model by our weight names."""

import logging

from bert_keras import modeling
from bert_keras.checkpoints.checkpoint import (
    Checkpoint,
    check_complete,
    check_encoder,
    check_num_classes,
    check_weights,
)
from bert_keras.checkpoints.finite_values import check_finite_weight
from bert_keras.checkpoints.huggingface.weight_names import list_weights
from bert_keras.errors import InputError
from bert_keras.modeling.initializers import zero_initialization

logger = logging.getLogger(__name__)

_PRETRAINING_HEADS = ("mlm_head.", "next_sentence.")  # the same function in every class that has them


def get_family(model) -> str:
    """Tells which of Hugging Face's families describes a model: "bert" or "electra"."""
    config = get_encoder(model).config
    if isinstance(model, modeling.ElectraPretrainer) or config.embedding_dim != config.hidden_dim:
        return "electra"
    if getattr(model, "head_act", config.hidden_act) != config.hidden_act:
        return "electra"
    return "electra" if getattr(model, "cls_dense", None) is not None else "bert"


def get_encoder(model) -> modeling.BertEncoder:
    """Returns a model's encoder; an encoder is its own."""
    return getattr(model, "encoder", model)


def get_variables(model) -> dict:
    """Returns our weight names with the model's variables, in the table's order.

    Raises:
        InputError: the model was quantized, so its variables are codes, and no weights without their scales.
    """
    encoder = get_encoder(model)
    names = list_weights(
        type(model).__name__, encoder.config, pooler=encoder.pooler is not None, family=get_family(model)
    )
    for name in names:
        _check_not_quantized(model, name.ours)
    return {name.ours: _resolve(model, name.ours) for name in names}


def _check_not_quantized(model, weight: str) -> None:
    layer = weight.rpartition(".")[0]
    if mode := getattr(_resolve(model, layer).dtype_policy, "quantization_mode", None):
        raise InputError(
            f"the layer {layer} of {type(model).__name__} is quantized ({mode}); expected its own weights: "
            "save, convert or export it before you call its quantize()"
        )


def build_model(checkpoint: Checkpoint):
    """Builds the model that the checkpoint names; every one of its weights must be there."""
    check_complete(checkpoint)
    checkpoint.check_once()
    model_class = getattr(modeling, checkpoint.model)
    with zero_initialization():
        encoder = _encoder(checkpoint, checkpoint.wants_pooler)
        model = _with_head(model_class, encoder, checkpoint, checkpoint.settings)
    assign(model, checkpoint)
    return model


def build_head(model_class, checkpoint: Checkpoint, head: dict):
    """Builds `model_class` on the checkpoint's encoder; what the checkpoint lacks starts afresh.

    A head of the same class keeps its weights and settings, unless `head` asks for other classes.
    """
    check_encoder(checkpoint)
    checkpoint.check_once()
    settings = {**_settings_to_keep(model_class, checkpoint, head), **head}
    pooler = _wants_pooler(model_class, checkpoint)
    with zero_initialization():
        encoder = _encoder(checkpoint, pooler)
    model = _with_head(model_class, encoder, checkpoint, settings)
    fresh = _fresh_head(model, checkpoint, head)
    if pooler and not checkpoint.has_pooler:
        kernel = encoder.pooler.kernel
        kernel.assign(encoder.pooler.kernel_initializer(kernel.shape, kernel.dtype))
        fresh += ["encoder.pooler.kernel", "encoder.pooler.bias"]
    assign(model, checkpoint, fresh=fresh)
    return model


def assign(model, checkpoint: Checkpoint, *, fresh=()) -> None:
    """Puts the checkpoint's weights into a model, except those in `fresh`.

    Raises:
        InputError: a weight is missing or of another shape, and both shapes are named; the model is not changed then.
            Or a weight holds NaN or infinity.
    """
    variables = {name: variable for name, variable in get_variables(model).items() if name not in fresh}
    check_weights(checkpoint, {name: variable.shape for name, variable in variables.items()}, type(model).__name__)
    if fresh:
        logger.info("%s starts afresh in %s", type(model).__name__, ", ".join(fresh))
    for name, variable in variables.items():
        stored = checkpoint.weights[name]
        value = stored.read()
        check_finite_weight(stored.name, value, checkpoint.source)
        variable.assign(value)
    if getattr(model, "generator", None) is not None and checkpoint.generator is not None:
        assign(model.generator, checkpoint.generator)


def _encoder(checkpoint: Checkpoint, pooler: bool) -> modeling.BertEncoder:
    return modeling.BertEncoder(checkpoint.config, pooler=pooler, name="encoder")


def _with_head(model_class, encoder: modeling.BertEncoder, checkpoint: Checkpoint, settings: dict):
    if model_class is modeling.BertEncoder:
        return encoder
    try:
        return model_class(encoder, **settings)
    except TypeError as error:  # a missing or unknown argument of the head: Python's own words name it
        raise InputError(f"{model_class.__name__} cannot be built on {checkpoint.source}: {error}") from None


def _wants_pooler(model_class, checkpoint: Checkpoint) -> bool:
    if model_class is modeling.BertPretrainer:
        return True
    if model_class is modeling.BertClassifier:
        return checkpoint.family == "bert"
    return model_class in (modeling.BertEncoder, modeling.BertEmbedder) and checkpoint.has_pooler


def _settings_to_keep(model_class, checkpoint: Checkpoint, head: dict) -> dict:
    if checkpoint.model != model_class.__name__:
        return {}
    settings = dict(checkpoint.settings)
    if "num_classes" not in head:
        check_num_classes(checkpoint)
    elif head["num_classes"] != settings.get("num_classes"):
        settings = {"dropout_rate": settings.get("dropout_rate")}  # labels and problem were those of other classes
    return settings


def _fresh_head(model, checkpoint: Checkpoint, head: dict) -> list[str]:
    """Names the head's weights that the checkpoint has no use for: none there, another size, other labels."""
    same = checkpoint.model == type(model).__name__
    relabelled = head.get("labels") is not None and list(head["labels"]) != list(
        checkpoint.settings.get("labels") or ()
    )
    fresh = []
    for name, variable in get_variables(model).items():
        if name.startswith("encoder."):
            continue
        fits = name in checkpoint.weights and tuple(checkpoint.weights[name].shape) == tuple(variable.shape)
        means_the_same = name.startswith(_PRETRAINING_HEADS) or (same and not relabelled)
        if not (fits and means_the_same):
            fresh.append(name)
    return fresh


def _resolve(model, path: str):
    """Follows `encoder.blocks.0.attention` through a model; an encoder's own paths start with `encoder`."""
    first, *rest = path.split(".")
    found = get_encoder(model) if first == "encoder" else getattr(model, first)
    for part in rest:
        found = found[int(part)] if part.isdigit() else getattr(found, part)
    return found
