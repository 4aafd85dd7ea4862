"""`plan`: what a model is made of and what it costs, counted from the built model."""

import dataclasses
import os
import pathlib

import keras

from bert_keras.accounting.costs import Flops, flops_by_part
from bert_keras.accounting.forward import Step, forward_steps
from bert_keras.accounting.parameters import Component, parameters_of
from bert_keras.accounting.workloads import Workload
from bert_keras.checkpoints import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
    BertPretrainer,
    BertQuestionAnswerer,
    BertTokenClassifier,
    load,
)
from bert_keras.config import PRESETS, BertConfig
from bert_keras.errors import InputError

HEADS = {
    "classification": lambda encoder, num_classes: BertClassifier(encoder, num_classes),
    "tagging": lambda encoder, num_classes: BertTokenClassifier(encoder, num_classes),
    "answers": lambda encoder, _: BertQuestionAnswerer(encoder),
    "masked_lm": lambda encoder, _: BertMaskedLM(encoder),
    "pretraining": lambda encoder, _: BertPretrainer(encoder),
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a model is made of and what it costs on batches of one shape.

    Attributes:
        model: the class of the model.
        config: the shape of its encoder.
        batch_size, length: B and S.
        num_parameters: of all components together.
        parameters: where they sit.
        block_flops: of the first block, in inference.
        forward_flops: of a forward pass in inference.
        training_flops: of a training step without the optimizer; None for an encoder alone, an embedder, and ELECTRA.
        steps: the forward pass, in order.
    """

    model: str
    config: BertConfig
    batch_size: int
    length: int
    num_parameters: int
    parameters: list[Component]
    block_flops: list[Flops]
    forward_flops: list[Flops]
    training_flops: list[Flops] | None
    steps: list[Step]

    def to_dict(self) -> dict:
        """Returns everything as plain values."""
        return dataclasses.asdict(self)


def plan(
    subject: str | os.PathLike | BertConfig | keras.Model,
    *,
    head: str | None = None,
    num_classes: int = 2,
    length: int = 128,
    batch_size: int = 1,
    num_slots: int | None = None,
) -> Plan:
    """Counts parameters and floating-point operations of a model, and lists the steps of its forward pass.

    Args:
        subject: the name of a preset, a config, a folder that `bert_keras.load` reads, or a model.
        head: what goes on top of the encoder: "classification", "tagging", "answers", "masked_lm" or "pretraining";
            None: what a folder or a model has, and nothing but the pooler on a preset or a config.
        num_classes: C, of heads that have classes.
        length: S, pieces in a row.
        batch_size: B, rows in a batch.
        num_slots: M, masked slots in a row; None: 15 % of the pieces.

    Raises:
        InputError: there is no such preset, folder or head, or rows are longer than the model reads.

    Example:
        >>> plan("base").num_parameters
        109482240
    """
    model = _with_head(_model(subject), head, num_classes)
    work = Workload(model, batch_size, length, num_slots)
    parameters = parameters_of(model)
    return Plan(
        model=type(model).__name__,
        config=work.encoder.config,
        batch_size=batch_size,
        length=length,
        num_parameters=sum(component.parameters for component in parameters),
        parameters=parameters,
        block_flops=flops_by_part(work.forward, block=0),
        forward_flops=flops_by_part(work.forward),
        training_flops=flops_by_part(work.training) if work.learns else None,
        steps=forward_steps(work.forward),
    )


def _model(subject) -> keras.Model:
    if isinstance(subject, keras.Model):
        return subject
    if isinstance(subject, BertConfig):
        return BertEncoder(subject)
    if not pathlib.Path(subject).exists():
        if str(subject) not in PRESETS:
            raise InputError(
                f"{subject} is neither a folder nor a preset; expected a BERT folder or one of {', '.join(PRESETS)}"
            )
        return BertEncoder(BertConfig.from_preset(str(subject)))
    return load(subject)


def _with_head(model: keras.Model, head: str | None, num_classes: int) -> keras.Model:
    if head is None:
        return model
    if head not in HEADS:
        raise InputError(f"there is no head {head!r}; expected one of {', '.join(HEADS)}")
    return HEADS[head](getattr(model, "encoder", model), num_classes)
