"""`Checkpoint`: what every reader gives and every writer takes, whatever the format on disk."""

import dataclasses
import logging
from collections.abc import Callable, Mapping

import numpy as np

from bert_keras import modeling
from bert_keras.checkpoints.names import weight_names
from bert_keras.config import BertConfig
from bert_keras.errors import InputError

logger = logging.getLogger(__name__)

POOLERLESS = ("BertMaskedLM", "BertTokenClassifier", "BertQuestionAnswerer", "ElectraPretrainer")  # never read one
_PRETRAINING_HEADS = ("mlm_head.", "next_sentence.")  # the same function in every class that has them


@dataclasses.dataclass(frozen=True)
class StoredWeight:
    """A weight that can be read: its name in the file, and a function that reads it in our layout."""

    name: str
    read: Callable[[], np.ndarray]


@dataclasses.dataclass
class Checkpoint:
    """A model on its way in or out, under our names.

    Args:
        source: where it came from, for messages.
        model: the class that the format names, "BertClassifier" for example.
        config: the encoder's shape.
        settings: the arguments of the model's class beside the encoder.
        weights: our weight names to what is stored; read when asked for.
        expected_names: our weight names to the names that the format gives them, for messages.
        family: "bert" or "electra", the names that Hugging Face gives the head.
        generator: ELECTRA's generator, a checkpoint of its own.
    """

    source: str
    model: str
    config: BertConfig
    settings: dict
    weights: Mapping[str, StoredWeight]
    expected_names: Mapping[str, str]
    family: str = "bert"
    generator: "Checkpoint | None" = None

    @property
    def has_pooler(self) -> bool:
        return "encoder.pooler.kernel" in self.weights


def family_of(model) -> str:
    """Tells which of Hugging Face's families describes a model: "bert" or "electra"."""
    config = encoder_of(model).config
    if isinstance(model, modeling.ElectraPretrainer) or config.embedding_dim != config.hidden_dim:
        return "electra"
    if getattr(model, "head_act", config.hidden_act) != config.hidden_act:
        return "electra"
    return "electra" if getattr(model, "cls_dense", None) is not None else "bert"


def encoder_of(model) -> modeling.BertEncoder:
    """Returns a model's encoder; an encoder is its own."""
    return getattr(model, "encoder", model)


def variables_of(model) -> dict:
    """Returns our weight names with the model's variables, in the table's order."""
    encoder = encoder_of(model)
    names = weight_names(
        type(model).__name__, encoder.config, pooler=encoder.pooler is not None, family=family_of(model)
    )
    return {name.ours: _resolve(model, name.ours) for name in names}


def build_model(checkpoint: Checkpoint):
    """Builds the model that the checkpoint names; every one of its weights must be there."""
    model_class = getattr(modeling, checkpoint.model)
    pooler = checkpoint.has_pooler and checkpoint.model not in POOLERLESS
    if checkpoint.model == "BertPretrainer" or (checkpoint.model, checkpoint.family) == ("BertClassifier", "bert"):
        pooler = True  # these cannot do without; a missing one is told when it is assigned
    model = _construct(model_class, checkpoint, pooler, checkpoint.settings)
    assign(model, checkpoint)
    return model


def build_head(model_class, checkpoint: Checkpoint, head: dict):
    """Builds `model_class` on the checkpoint's encoder; what the checkpoint lacks starts afresh.

    A head of the same class keeps its weights and settings, unless `head` asks for other classes.
    """
    settings = {**_settings_to_keep(model_class, checkpoint, head), **head}
    pooler = _wants_pooler(model_class, checkpoint)
    model = _construct(model_class, checkpoint, pooler, settings)
    fresh = _fresh_head(model, checkpoint, head)
    if pooler and not checkpoint.has_pooler:
        fresh += ["encoder.pooler.kernel", "encoder.pooler.bias"]
    assign(model, checkpoint, fresh=fresh)
    return model


def assign(model, checkpoint: Checkpoint, *, fresh=()) -> None:
    """Puts the checkpoint's weights into a model, except those in `fresh`.

    Raises:
        InputError: a weight is missing or of another shape; both shapes are named. The model is not used then.
    """
    variables = {name: variable for name, variable in variables_of(model).items() if name not in fresh}
    if missing := [checkpoint.expected_names.get(name, name) for name in variables if name not in checkpoint.weights]:
        raise InputError(
            f"{checkpoint.source} lacks {len(missing)} of the {len(variables)} tensors of {type(model).__name__}, "
            f"{', '.join(missing[:3])} {'among them' if len(missing) > 3 else 'in all'}: "
            "config and weights are not of one model, or the file was written without them"
        )
    if fresh:
        logger.info("%s starts afresh in %s", type(model).__name__, ", ".join(fresh))
    for name, variable in variables.items():
        stored = checkpoint.weights[name]
        value = stored.read()
        if tuple(value.shape) != tuple(variable.shape):
            raise InputError(
                f"{checkpoint.source}: tensor {stored.name}, read as {name}, is {tuple(value.shape)}, "
                f"the config makes it {tuple(variable.shape)}: config and weights are not of one model"
            )
        variable.assign(value)
    if getattr(model, "generator", None) is not None and checkpoint.generator is not None:
        assign(model.generator, checkpoint.generator)


def _construct(model_class, checkpoint: Checkpoint, pooler: bool, settings: dict):
    encoder = modeling.BertEncoder(checkpoint.config, pooler=pooler, name="encoder")
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
    if head.get("num_classes", settings.get("num_classes")) != settings.get("num_classes"):
        settings = {"dropout_rate": settings.get("dropout_rate")}  # labels and problem were those of other classes
    return settings


def _fresh_head(model, checkpoint: Checkpoint, head: dict) -> list[str]:
    """Names the head's weights that the checkpoint has no use for: none there, another size, other labels."""
    same = checkpoint.model == type(model).__name__
    relabelled = head.get("labels") is not None and list(head["labels"]) != list(
        checkpoint.settings.get("labels") or ()
    )
    fresh = []
    for name, variable in variables_of(model).items():
        if name.startswith("encoder."):
            continue
        fits = name in checkpoint.weights and tuple(checkpoint.weights[name].read().shape) == tuple(variable.shape)
        means_the_same = name.startswith(_PRETRAINING_HEADS) or (same and not relabelled)
        if not (fits and means_the_same):
            fresh.append(name)
    return fresh


def _resolve(model, path: str):
    """Follows `encoder.blocks.0.attention` through a model; an encoder's own paths start with `encoder`."""
    first, *rest = path.split(".")
    found = encoder_of(model) if first == "encoder" else getattr(model, first)
    for part in rest:
        found = found[int(part)] if part.isdigit() else getattr(found, part)
    return found
