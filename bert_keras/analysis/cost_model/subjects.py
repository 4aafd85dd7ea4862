"""What can be planned: a preset, a config, a model, a folder, a recipe for pretraining."""

import pathlib

import keras

from bert_keras.analysis.cost_model.subject_names import check_preset
from bert_keras.checkpoints import load
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.modeling import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
    BertPretrainer,
    BertQuestionAnswerer,
    BertTokenClassifier,
)
from bert_keras.modeling.base import check_bert_model
from bert_keras.modeling.initializers import zero_initialization
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.pretraining import build_model

HEADS = {
    "classification": lambda encoder, num_classes: BertClassifier(encoder, num_classes),
    "tagging": lambda encoder, num_classes: BertTokenClassifier(encoder, num_classes),
    "answers": lambda encoder, _: BertQuestionAnswerer(encoder),
    "masked_lm": lambda encoder, _: BertMaskedLM(encoder),
    "pretraining": lambda encoder, _: BertPretrainer(encoder),
}
_WITH_POOLER = ("classification", "pretraining")  # the heads that read it
_VOCABULARY_SIZE = 30522  # of a recipe, which does not say it: Google's uncased one


def model_of(subject, run: Pretraining | None, head: str | None, num_classes: int) -> keras.Model:
    """Returns the model of a subject, with a new head if one is asked for.

    Raises:
        InputError: there is no such preset, recipe, folder or head.
    """
    if run is not None:
        if head is not None:
            raise InputError(f"{subject} is a recipe, which has its own head, and {head!r} was asked for: leave it out")
        begun = run.model.start_from
        size = _VOCABULARY_SIZE if begun is None else read_checkpoint(begun).config.vocabulary_size
        with zero_initialization():
            return build_model(run, size)
    pooler = head in (None, *_WITH_POOLER)
    with zero_initialization():  # counts need no values, and drawing those of base takes 4 s
        return _with_head(_without_head(subject, pooler=pooler), head, num_classes)


def _without_head(subject, *, pooler: bool) -> keras.Model:
    if isinstance(subject, keras.Model):
        check_bert_model(subject)
        return subject
    if isinstance(subject, BertConfig):
        return BertEncoder(subject, pooler=pooler)
    if pathlib.Path(subject).exists():
        return load(subject)
    check_preset(subject)
    return BertEncoder(BertConfig.from_preset(str(subject)), pooler=pooler)


def _with_head(model: keras.Model, head: str | None, num_classes: int) -> keras.Model:
    if head is None:
        return model
    if head not in HEADS:
        raise InputError(f"there is no head {head!r}; expected one of {', '.join(HEADS)}")
    return HEADS[head](getattr(model, "encoder", model), num_classes)
