"""Restore the task of a checkpoint from its stored settings and the head of its model."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from collections.abc import Mapping, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.huggingface_folder import read_stored_task
from bert_keras.checks import check_integer, format_names, read_field
from bert_keras.config import RENAMED_TASK_SETTINGS
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import get_head, list_finetuned_heads, list_model_names
from bert_keras.heads.task import Task

if typing.TYPE_CHECKING:
    import keras

    from bert_keras.pipelines.text.tokenizer import BertTokenizer

_HEAD_DEFAULTS = {  # arguments of heads that are settings of tasks
    "problem": "single_label",
    "pooling": "mean",
    "normalize": True,
    "include_prompt": True,
    "prompts": {},
    "default_prompt_name": None,
    "labels": None,
}


@dataclasses.dataclass(frozen=True)
class _Head:
    """What a model states about its task.

    Attributes:
        model: the name of its class.
        settings: the arguments of its head.
        max_sequence_length: the longest sequence that it accepts, in tokens.
        text_length: the length at which its tokenizer cuts texts, in tokens; None: unlimited.
        vocabulary: the tokens in the order of their ids.
    """

    model: str
    settings: Mapping[str, object]
    max_sequence_length: int
    text_length: int | None
    vocabulary: Sequence[str]


def restore_task(
    folder: str | os.PathLike | Checkpoint | None,
    model: keras.Model,
    tokenizer: BertTokenizer | None = None,
    **changes: object,
) -> Task:
    """Return the task of a model.

    Settings of the model's head (its labels, its pooling) take precedence over stored ones. Sequences are never longer
    than the model accepts; when they get shorter, the overlap of windows shrinks in proportion, unless it is among the
    changes. Where no length is stored, texts are as long as the tokenizer allows, and question answering uses windows
    of 384 tokens, as in transformers and sentence-transformers.

    Args:
        folder: the checkpoint that the model was loaded from; None: only its head describes the task.
        model: a model with a head.
        tokenizer: its tokenizer.
        **changes: settings to override; None: keep.

    Returns:
        The task.

    Raises:
        InputError: the model has no task head, or a setting is unknown or fixed by the model.
    """
    settings = {name: getattr(model, name) for name in (*_HEAD_DEFAULTS, "num_classes") if hasattr(model, name)}
    config = getattr(model, "encoder", model).config
    length, vocabulary = (None, ()) if tokenizer is None else (tokenizer.max_sequence_length, tokenizer.vocabulary)
    head = _Head(type(model).__name__, settings, config.max_sequence_length, length, vocabulary)
    if folder is None:
        return _make_task("the model", None, head, changes)
    return _make_task(str(folder), read_stored_task(folder), head, changes)


def read_checkpoint_task(checkpoint: Checkpoint, **changes: object) -> Task:
    """Return what `restore_task` returns, without building the checkpoint's model and tokenizer.

    Args:
        checkpoint: what `read_checkpoint` returned.
        **changes: settings to override; None: keep.

    Returns:
        The task.

    Raises:
        InputError: the model has no task head, or a setting is unknown or fixed by the model.
    """
    settings = {**_HEAD_DEFAULTS, **checkpoint.settings}
    tokenizer = checkpoint.tokenizer_settings or {}
    length, vocabulary = tokenizer.get("max_sequence_length"), tokenizer.get("vocabulary", ())
    head = _Head(checkpoint.model, settings, checkpoint.config.max_sequence_length, length, vocabulary)
    return _make_task(checkpoint.source, checkpoint.task, head, changes)


def _make_task(source: str, stored: dict | None, head: _Head, changes: dict) -> Task:
    record = get_head(head.model)
    if record.task is None:
        raise InputError(
            f"{source} holds a {head.model}, which has no task head; expected one of "
            f"{list_model_names(list_finetuned_heads())}: fine-tune it first"
        )
    kind = record.load("task")
    settings, fixed = _read_settings(source, stored, kind), _get_head_settings(head.settings, kind)
    changes = {name: value for name, value in changes.items() if value is not None}
    free = [name for name in _get_fields(kind) if name not in fixed]
    if wrong := [name for name in changes if name not in free]:
        raise InputError(f"{', '.join(wrong)} cannot be changed here; expected settings among {', '.join(free)}")
    if fixed.get("problem") == "regression" and (number := head.settings["num_classes"]) != 1:
        raise InputError(
            f"{source} predicts {number} numbers per text; expected one: fine-tune a model with one output"
        )
    is_length_stored = "max_sequence_length" in settings or kind.has_default_length
    settings = {**kind.derive_settings(fixed.get("labels"), head.vocabulary), **settings}
    length = changes.pop("max_sequence_length", None)
    task = kind(**{**settings, **fixed, **changes})
    if not is_length_stored:
        task = task.with_length(head.text_length or head.max_sequence_length)
    length = task.max_sequence_length if length is None else check_integer("max_sequence_length", length)
    return dataclasses.replace(task.with_length(min(length, head.max_sequence_length)), **changes)


def _read_settings(source: str, stored: dict | None, kind: type[Task]) -> dict:
    """Return the stored settings; none if another tool has since replaced the head by one of another task."""
    stored = dict(stored or {})
    if stored.pop("name", None) != kind.name:
        return {}
    for old, new in RENAMED_TASK_SETTINGS.items():
        if old in stored:
            stored.setdefault(new, stored.pop(old))
    if unknown := sorted(set(stored) - set(_get_fields(kind))):
        raise InputError(
            f"{source}/config.json has the task setting {format_names(unknown)}, which this version does not know: "
            "update bert-keras, or remove the setting"
        )
    types_, place = typing.get_type_hints(kind), f"{source}/config.json, in its task,"
    return {name: _read_setting(stored, name, types_[name], place) for name in stored}


def _read_setting(stored: dict, name: str, annotation: type, place: str) -> object:
    """Return a stored setting after checking that it has the type of the task's field."""
    json_types = _convert_to_json_types(annotation)
    if stored[name] is None and type(None) in json_types:
        return None
    matching = (one for one in json_types if isinstance(stored[name], typing.get_origin(one) or one))
    minimum = {int: 1, int | None: 0}.get(annotation)  # window_overlap may be 0
    return read_field(stored, name, next(matching, json_types[0]), source=place, minimum=minimum)


def _convert_to_json_types(annotation: type) -> list[type]:
    """Return the JSON types that a field may have: a list for a tuple, and each type of a union."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return [one for part in parts for one in _convert_to_json_types(part)]
    if origin is tuple:
        return [list[parts[0]]]
    return [dict[parts] if origin is Mapping else annotation]


def _get_head_settings(settings: Mapping[str, object], kind: type[Task]) -> dict:
    """Return the settings of the task that the model's head determines."""
    fields = _get_fields(kind)
    fixed = {name: settings[name] for name in _HEAD_DEFAULTS if name in fields and name != "labels"}
    if "labels" in fields:
        names = settings["labels"] or tuple(f"LABEL_{number}" for number in range(settings["num_classes"]))
        fixed["labels"] = () if fixed.get("problem") == "regression" else names
    return fixed


def _get_fields(kind: type[Task]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]
