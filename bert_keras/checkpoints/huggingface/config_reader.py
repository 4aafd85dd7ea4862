"""Read the `config.json` of Hugging Face; `../saving.py` writes it.

Keys that change what the model computes are checked strictly; keys that describe its training or storage are ignored.
"""

import collections
import re

from bert_keras.architectures.architecture import Architecture
from bert_keras.architectures.known_architectures import ARCHITECTURES
from bert_keras.checks import format_names, quote, read_field
from bert_keras.config import POSITION_TYPES, BertConfig
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import HEADS, get_head

FORMAT = 1  # version of the keys under `bert_keras`

_RATES = ("hidden_dropout_rate", "attention_dropout_rate", "layer_norm_epsilon", "initializer_range")
_LARGEST_SIZE = 2**31 - 1
_ACTS = {  # Hugging Face's name: ours
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "relu": "relu",
}
ACTS_OUT = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}

# keys that change what the model computes, with the only values that we support; the first is the default
_FUNCTION_KEYS = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False, None),
    "tie_word_embeddings": (True, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "auto_map": (None,),
}
_MODEL_OF_ENDING = {head.huggingface: head.model_name for head in HEADS if head.huggingface is not None}
PROBLEMS = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}
_MODELS = tuple(head.model_name for head in HEADS)
_OUR_KEYS = ("format", "model", "position_type", "settings", "task")
OUR_SETTINGS = ("pooling", "normalize", "head_act")


def read_config(values: dict, source: str) -> BertConfig:
    """Convert the values of `config.json`, or of Google's `bert_config.json`, to a `BertConfig`.

    Raises:
        InputError: a key is missing, or has a value that we do not support.
    """
    _check_function(values, source)
    record = ARCHITECTURES[read_model_type(values)]
    values = {**record.config_defaults, **values}
    if missing := [theirs for theirs in record.config_keys.values() if theirs not in values]:
        raise InputError(
            f"{source} lacks {', '.join(missing)}; expected the config of a BERT: restore the file from its source"
        )
    fields = {ours: _read_number(values, ours, theirs, source) for ours, theirs in record.config_keys.items()}
    fields |= {**record.fixed_fields, "model_type": record.model_type}
    fields["hidden_act"] = _ACTS[read_field(values, record.act_key, str, source=source, default="gelu", choices=_ACTS)]
    fields["position_type"] = _read_own_keys(values, source).get("position_type", "learned")
    try:
        return BertConfig.from_dict(fields)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def read_model(values: dict, source: str, *, any_head: bool = False) -> tuple[str, dict]:
    """Return our class and the settings of the head in `config.json`.

    Args:
        values: the content of `config.json`.
        source: its path, for messages.
        any_head: if the head is not supported, return "BertEncoder" instead of raising.

    Raises:
        InputError: the head or one of its settings is not supported.
    """
    record = ARCHITECTURES[read_model_type(values)]
    architecture = (read_field(values, "architectures", list[str], source=source, default=None) or [None])[0]
    ours = _read_own_keys(values, source)
    model = ours.get("model")
    if model is not None and architecture == get_class_name(model, record):
        own = ours.get("settings", {})
    else:  # a folder of another tool, or one of ours that another tool changed
        model, own = _find_class(architecture, record, source, any_head=any_head), {}
    return model, {**_read_head(values, model, record, source), **own}


def read_model_type(values: dict) -> str:
    """Return the architecture of a `config.json`, a key of `ARCHITECTURES` after `read_config` has checked it."""
    return values.get("model_type", BertConfig.model_type)


def read_task(values: dict, source: str) -> dict | None:
    """Return the settings of the task that the model was fine-tuned for, or None."""
    return _read_own_keys(values, source).get("task")


def get_class_name(model: str, record: Architecture) -> str:
    """Return the class of transformers that can load one of our models."""
    return record.class_prefix + (record.endings.get(model) or get_head(model).huggingface or "Model")


def _check_function(values: dict, source: str) -> None:
    """Raise `InputError` if the model computes something that our encoder does not."""
    model_type = read_model_type(values)
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        known = " or ".join(map(repr, ARCHITECTURES))
        raise InputError(f"{source} has model_type {quote(model_type)}; expected {known}: load another model")
    for key, allowed in _FUNCTION_KEYS.items():
        if values.get(key) not in allowed:
            raise InputError(
                f"{source} sets {key} to {quote(values[key])}, which changes what the model computes; expected "
                f"{allowed[0]!r} or no such key: bert_keras does not support such models"
            )


def _read_number(values: dict, ours: str, theirs: str, source: str) -> float | None:
    """Return a size or rate, whose range `BertConfig` checks; only the width of the embeddings can be null."""
    if ours in _RATES:
        return read_field(values, theirs, float, source=source)
    default = {"default": None} if ours == "embedding_dim" else {}
    return read_field(values, theirs, int, source=source, maximum=_LARGEST_SIZE, **default)


def _read_own_keys(values: dict, source: str) -> dict:
    """Return the keys under `bert_keras` after checking their types."""
    ours = read_field(values, "bert_keras", dict, source=source, default={})
    place = f"{source}, under 'bert_keras',"
    settings = read_field(ours, "settings", dict, source=place, default={})
    if unknown := sorted(set(ours) - set(_OUR_KEYS)) + sorted(set(settings) - set(OUR_SETTINGS)):
        raise InputError(
            f"{source} has {format_names(unknown)} under 'bert_keras', which this version does not know: "
            "correct the name, or load the folder with the version that wrote it"
        )
    if ours and ours.get("format") != FORMAT:
        raise InputError(
            f"{source} has format {quote(ours.get('format'))} under 'bert_keras'; this version supports {FORMAT}: "
            "update bert-keras"
        )
    read_field(ours, "model", str, source=place, default=None, choices=_MODELS)
    read_field(ours, "position_type", str, source=place, default="learned", choices=POSITION_TYPES)
    read_field(ours, "task", dict, source=place, default=None)
    read_field(settings, "normalize", bool, source=place, default=True)
    read_field(settings, "head_act", str, source=place, default=None, choices=ACTS_OUT)
    kind = list[str] if isinstance(settings.get("pooling"), list) else str
    read_field(settings, "pooling", kind, source=place, default="mean")
    return ours


def _find_class(architecture: str | None, record: Architecture, source: str, *, any_head: bool) -> str:
    """Return our class for a class of transformers."""
    prefix = record.class_prefix
    ending = architecture.removeprefix(prefix) if architecture else "Model"
    if ending in record.models:
        return record.models[ending]
    if ending not in _MODEL_OF_ENDING or (architecture and not architecture.startswith(prefix)):
        if any_head:
            return "BertEncoder"
        known = ", ".join(prefix + ending for ending in _MODEL_OF_ENDING)
        raise InputError(
            f"{source} has the architecture {quote(architecture)}; expected one of {known}: load its encoder with "
            "BertEncoder.from_checkpoint, or add a new head with from_checkpoint of another class"
        )
    return _MODEL_OF_ENDING[ending]


def _read_head(values: dict, model: str, record: Architecture, source: str) -> dict:
    """Return the settings of the head, as arguments of our class."""
    if not get_head(model).has_num_classes:
        return dict(record.head_settings.get(model, {}))
    labels = _read_labels(values, source)
    num_classes = read_field(values, "num_labels", int, source=source, default=2, minimum=1, maximum=_LARGEST_SIZE)
    num_classes = len(labels) or num_classes
    key = record.dropout_keys.get(model)
    dropout_rate = read_field(
        values, key, float, source=source, default=record.config_defaults.get(key), minimum=0, maximum=1
    )
    settings = {"num_classes": num_classes, "dropout_rate": dropout_rate}
    settings["labels"] = labels if labels and not all(re.fullmatch(r"LABEL_\d+", name) for name in labels) else None
    if get_head(model).has_problem:
        ours = {theirs: ours for ours, theirs in PROBLEMS.items()}
        problem = read_field(values, "problem_type", str, source=source, default=None, choices=ours)
        by_size = "regression" if num_classes == 1 else "single_label"
        settings["problem"] = by_size if problem is None else ours[problem]
    return settings


def _read_labels(values: dict, source: str) -> list[str]:
    """Return the labels of the classes 0, 1, ... in order; an empty list if there are none."""
    names = read_field(values, "id2label", dict[str, str], source=source, default=None) or {}
    numbers = [str(number) for number in range(len(names))]
    if missing := [number for number in numbers if number not in names]:
        raise InputError(
            f"{source} has {len(names):,} labels in id2label, but none for class {missing[0]}; expected the keys 0 to "
            f"{len(names) - 1}: correct them, or restore the file from its source"
        )
    labels = [names[number] for number in numbers]
    if repeated := [label for label, number in collections.Counter(labels).items() if number > 1]:
        raise InputError(
            f"{source} has the label {quote(repeated[0])} for more than one class in id2label; expected a different "
            "label for each class: rename the classes there"
        )
    return labels
