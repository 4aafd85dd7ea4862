"""The task of a checkpoint folder: what is stored of it, or else what its model says."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from collections.abc import Mapping

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.huggingface_folder import read_stored_task
from bert_keras.checks import check_integer, format_names, read_field
from bert_keras.errors import InputError
from bert_keras.metrics.tag_schemes import scheme_of
from bert_keras.tasks.answer_extraction import QuestionAnswering
from bert_keras.tasks.base import Task
from bert_keras.tasks.sentence_embedding import SentenceEmbedding
from bert_keras.tasks.text_classification import TextClassification
from bert_keras.tasks.token_classification import TokenClassification

if typing.TYPE_CHECKING:
    import keras

    from bert_keras.pipelines.text.tokenizer import BertTokenizer

_KINDS = {
    kind.model_class: kind for kind in (TextClassification, TokenClassification, QuestionAnswering, SentenceEmbedding)
}


def tasks_of_models() -> dict[str, type[Task]]:
    """Returns the kind of task that each model with a task has, by the name of the model's class."""
    return dict(_KINDS)


def task_of(
    folder: str | os.PathLike | Checkpoint, model: keras.Model, tokenizer: BertTokenizer | None = None, **changes
) -> Task:
    """Returns the task of a checkpoint.

    What the model says itself (its labels, its pooling) goes before what is stored. Rows are no longer than it reads;
    windows share as much of shorter rows, if the overlap is not among the changes. Where nothing is stored, texts are
    as long as the tokenizer says, and contexts of questions are read in windows of 384, as transformers and
    sentence-transformers do.

    Args:
        folder: the checkpoint.
        model: the model that was loaded from it.
        tokenizer: its tokenizer.
        **changes: settings that are to be others; None: as they are.

    Raises:
        InputError: the model has no head that answers, or a setting is unknown or the model's own.
    """
    return _task(str(folder), read_stored_task(folder), _head_of(model, tokenizer), changes)


def task_of_model(model: keras.Model, tokenizer: BertTokenizer, **changes) -> Task:
    """Return what `task_of` returns where nothing is stored: the task that a model's head says.

    Args:
        model: a model with a head.
        tokenizer: its tokenizer.
        **changes: settings that are to be others; None: as they are.

    Raises:
        InputError: the model has no head that answers, or a setting is unknown or the model's own.
    """
    return _task("the model", None, _head_of(model, tokenizer), changes)


def _head_of(model: keras.Model, tokenizer: BertTokenizer | None) -> _Head:
    settings = {name: getattr(model, name) for name in _OF_HEADS if hasattr(model, name)}
    config = getattr(model, "encoder", model).config
    return _Head(
        type(model).__name__, settings, config.max_sequence_length, tokenizer and tokenizer.max_sequence_length
    )


def task_of_checkpoint(checkpoint: Checkpoint, **changes) -> Task:
    """Returns what `task_of` returns for the checkpoint's model and tokenizer, without building them.

    Args:
        checkpoint: what `read_checkpoint` returned.
        **changes: settings that are to be others; None: as they are.

    Raises:
        InputError: the model has no head that answers, or a setting is unknown or the model's own.
    """
    settings = {**_DEFAULTS, **checkpoint.settings}
    length = (checkpoint.tokenizer_settings or {}).get("max_sequence_length")
    head = _Head(checkpoint.model, settings, checkpoint.config.max_sequence_length, length)
    return _task(checkpoint.source, checkpoint.task, head, changes)


_DEFAULTS = {  # of the arguments of heads
    "problem": "single_label",
    "pooling": "mean",
    "normalize": True,
    "include_prompt": True,
    "prompts": {},
    "default_prompt_name": None,
    "labels": None,
}
_OF_HEADS = (*_DEFAULTS, "num_classes")


@dataclasses.dataclass(frozen=True)
class _Head:
    """What a model says of its task: its class, the arguments of its head, the longest sequence it reads.

    `text_length` is where its tokenizer says that texts are cut, None where it says nothing.
    """

    model: str
    settings: Mapping[str, object]
    max_sequence_length: int
    text_length: int | None


def _task(source: str, stored: dict | None, head: _Head, changes: dict) -> Task:
    kind = _KINDS.get(head.model)
    if kind is None:
        raise InputError(
            f"{source} holds a {head.model}, which answers nothing; expected one of {', '.join(_KINDS)}: "
            "fine-tune it first"
        )
    stored, own = _stored(source, stored, kind), _own(head.settings, kind)
    changes = {name: value for name, value in changes.items() if value is not None}
    free = [name for name in _fields(kind) if name not in own]
    if wrong := [name for name in changes if name not in free]:
        raise InputError(f"{', '.join(wrong)} cannot be changed here; expected settings among {', '.join(free)}")
    if own.get("problem") == "regression" and (number := head.settings["num_classes"]) != 1:
        raise InputError(f"{source} gives {number} numbers for a text; expected one: a task has one value")
    if "max_sequence_length" not in stored and kind is not QuestionAnswering:
        stored["max_sequence_length"] = head.text_length or head.max_sequence_length
    if kind is TokenClassification and "scheme" not in stored:
        stored["scheme"] = "none" if scheme_of([own["labels"]]) == "none" else "IOB2"
    length = changes.pop("max_sequence_length", None)
    task = kind(**{**stored, **own, **changes})
    length = task.max_sequence_length if length is None else check_integer("max_sequence_length", length)
    return dataclasses.replace(task.with_length(min(length, head.max_sequence_length)), **changes)


def _stored(source: str, stored: dict | None, kind: type[Task]) -> dict:
    """Returns the stored settings; none if another tool made a model of another kind of it since."""
    stored = dict(stored or {})
    if stored.pop("name", None) != kind.name:
        return {}
    if unknown := sorted(set(stored) - set(_fields(kind))):
        raise InputError(
            f"{source}/config.json has {format_names(unknown)} in its task, which this version does not know: update "
            "bert-keras, or take it out"
        )
    kinds, place = typing.get_type_hints(kind), f"{source}/config.json, in its task,"
    return {name: _read_setting(stored, name, kinds[name], place) for name in stored}


def _read_setting(stored: dict, name: str, kind: type, place: str):
    """Returns a stored setting of the type that the task's field has."""
    kinds = _kinds_in_json(kind)
    if stored[name] is None and type(None) in kinds:
        return None
    fits = (kind for kind in kinds if isinstance(stored[name], typing.get_origin(kind) or kind))
    minimum = {int: 1, int | None: 0}.get(kind)  # the window's overlap may be 0
    return read_field(stored, name, next(fits, kinds[0]), source=place, minimum=minimum)


def _kinds_in_json(kind: type) -> list[type]:
    """Returns the types of JSON that stand for a field's type: a list for a tuple, each type of a union."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return [one for part in parts for one in _kinds_in_json(part)]
    if origin is tuple:
        return [list[parts[0]]]
    return [dict[parts] if origin is Mapping else kind]


def _own(settings: Mapping[str, object], kind: type[Task]) -> dict:
    """Returns the settings of the task that the model's head has itself."""
    own = {name: settings[name] for name in _DEFAULTS if name in _fields(kind) and name != "labels"}
    if "labels" in _fields(kind):
        names = settings["labels"] or tuple(f"LABEL_{number}" for number in range(settings["num_classes"]))
        own["labels"] = () if own.get("problem") == "regression" else names
    return own


def _fields(kind: type[Task]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]
