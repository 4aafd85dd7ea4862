"""What `plan` accepts: a preset, a config, a model, a folder, or a pretraining recipe.

Importing this module loads no Keras, so that `bert-keras plan` checks its arguments at once.
"""

import os
import pathlib
import typing

from bert_keras.architectures import bert
from bert_keras.config import PRESETS, BertConfig
from bert_keras.errors import InputError
from bert_keras.heads import known_heads
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.config.tables import RECIPES

if typing.TYPE_CHECKING:
    import keras

Subject = typing.Union[str, os.PathLike, BertConfig, "keras.Model"]

HEADS = {head.plan_name: head for head in known_heads.HEADS if head.plan_name is not None}
_VOCABULARY_SIZE = 30522  # assumed for recipes, which have no vocabulary: that of Google's uncased BERT


def read_recipe(subject: Subject) -> Pretraining | None:
    """Return the run that a recipe or a TOML file describes, or None if the subject is something else.

    Raises:
        InputError: the file cannot be read or is invalid, or its budget is in epochs.
    """
    if not isinstance(subject, str | os.PathLike) or pathlib.Path(subject).is_dir():
        return None
    if pathlib.Path(subject).suffix == ".toml":
        run = Pretraining.resolve(subject)
    elif os.fspath(subject) in RECIPES:
        run = Pretraining.resolve(recipe=os.fspath(subject))
    else:
        return None
    if run.budget.epochs is not None:
        raise InputError(
            f"{subject} has a budget in epochs, and the number of steps per epoch depends on records that `plan` does "
            "not read; expected budget.steps or budget.hours: set one of them"
        )
    return run


def check_plan_length(length: int, max_length: int) -> None:
    """Raise `InputError` if a plan is requested for longer sequences than the model accepts."""
    if length > max_length:
        raise InputError(f"length is {length}; the model accepts at most {max_length} tokens: choose a shorter length")


def check_preset(subject: str | os.PathLike) -> None:
    """Raise `InputError` if no preset has this name."""
    if str(subject) not in PRESETS:
        raise InputError(
            f"{subject} is neither a folder nor a preset or recipe; expected a BERT folder, a TOML file of "
            f"pretraining, or one of {', '.join((*PRESETS, *RECIPES))}: check the spelling"
        )


def build_subject(subject: Subject, run: Pretraining | None, head: str | None, num_classes: int) -> "keras.Model":
    """Build or load the model of a subject, with a new head if one is requested.

    Args:
        subject: the subject of `plan`.
        run: the result of `read_recipe`.
        head: a key of `HEADS`; None keeps the head of the subject.
        num_classes: C, for new heads with classes.

    Raises:
        InputError: there is no such preset, folder or head, or the subject is a recipe and has its own head.
    """
    from bert_keras.architectures.layers import zero_initialization
    from bert_keras.checkpoints.building import get_encoder

    with zero_initialization():  # counting needs no values, and initializing base takes 4 s
        if run is not None:
            from bert_keras.checkpoints.reading import read_checkpoint
            from bert_keras.training.pretraining import build_model

            if head is not None:
                raise InputError(
                    f"head is {head!r}, but {subject} is a recipe, which has its own head: leave the head out"
                )
            start = run.model.start_from
            return build_model(
                run, _VOCABULARY_SIZE if start is None else read_checkpoint(start).config.vocabulary_size
            )
        needs_pooler = head not in HEADS or HEADS[head].model_name in bert.ARCHITECTURE.needs_pooler
        model = _build_model(subject, pooler=needs_pooler)
        return model if head is None else add_head(get_encoder(model), head, num_classes)


def add_head(encoder: "keras.Model", head: str, num_classes: int = 2) -> "keras.Model":
    """Return a model with a new head on an encoder.

    Raises:
        InputError: there is no such head.
    """
    if head not in HEADS:
        raise InputError(f"there is no head {head!r}; expected one of {', '.join(HEADS)}: choose one of them")
    arguments = (num_classes,) if HEADS[head].has_num_classes else ()
    return HEADS[head].load("model")(encoder, *arguments)


def _build_model(subject: Subject, *, pooler: bool) -> "keras.Model":
    import keras

    from bert_keras.architectures.base import check_bert_model
    from bert_keras.architectures.encoder import BertEncoder
    from bert_keras.checkpoints import load
    from bert_keras.checkpoints.reading import exists

    if isinstance(subject, keras.Model):
        check_bert_model(subject)
        return subject
    if isinstance(subject, BertConfig):
        return BertEncoder(subject, pooler=pooler)
    if exists(subject):
        return load(subject)
    check_preset(subject)
    return BertEncoder(BertConfig.from_preset(str(subject)), pooler=pooler)
