"""Read a model folder of transformers, sentence-transformers or bert_keras; `../saving.py` writes it.

This module does not import Keras, so commands can check a folder before they load TensorFlow.
"""

import collections
import dataclasses
import logging
import os
import pathlib
import re

import numpy as np

from bert_keras.architectures.architecture import Architecture
from bert_keras.architectures.known_architectures import ARCHITECTURES, get_architecture
from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight, check_num_layers, describe_unused_tensors
from bert_keras.checkpoints.huggingface.sentence_transformers import is_embedder, read_modules
from bert_keras.checkpoints.huggingface.weight_names import WeightName, list_weights
from bert_keras.checkpoints.huggingface.weights_file import is_weights, open_weights
from bert_keras.checkpoints.vocabulary_file import open_tokenizer
from bert_keras.checks import format_names, quote, read_field
from bert_keras.config import POSITION_TYPES, BertConfig
from bert_keras.embedding_settings import MODULES, transformer_folder
from bert_keras.errors import InputError
from bert_keras.files import check_checksums, read_json
from bert_keras.heads.known_heads import HEADS, PRETRAINED_HEADS, get_head

logger = logging.getLogger(__name__)

GENERATOR = "generator"
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")  # stored by old versions of transformers
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


def read_folder(folder: str | os.PathLike, *, with_generator: bool = True, any_head: bool = False) -> Checkpoint:
    """Read a model folder. Its weights are read on demand.

    Args:
        folder: the folder.
        with_generator: whether to read the generator of an ELECTRA of ours from its subfolder.
        any_head: if the head is not supported, read the encoder instead of raising.

    Raises:
        InputError: a file is missing, damaged or of another model.
    """
    checkpoint, folder = read_description(folder, any_head=any_head), pathlib.Path(folder)
    model, config = checkpoint.model, checkpoint.config
    record = get_architecture(config.model_type)
    home = transformer_folder(folder)
    source = str(home / "config.json")
    tensors = open_weights(home)
    check_num_layers(config.num_layers, tensors, record.block_prefix, source)
    check_checksums(folder, lambda name: not is_weights(name))
    checkpoint.read_tokenizer = open_tokenizer(home, config.vocabulary_size)
    _check_positions(tensors, config, source)
    names = list_weights(model, config, pooler="pooler.dense.weight" in tensors)
    unread = _check_all_read(tensors, names, config, str(folder))
    checkpoint.weights = {
        name.ours: stored for name in names if (stored := _find_weight(name, tensors, record)) is not None
    }
    checkpoint.expected_names = {name.ours: get_name_prefix(name, model, config) + name.huggingface for name in names}

    def check_content() -> None:
        check_checksums(folder, is_weights)  # 0.4 s for the 440 MB of BERT base
        _check_tied(tensors, record, str(folder))

    checkpoint.check_content = check_content
    checkpoint.not_carried_over += describe_unused_tensors(unread, model)
    objective = get_head(model).objective
    if with_generator and objective is not None and objective.has_generator and (folder / GENERATOR).is_dir():
        generator, expected = read_folder(folder / GENERATOR, with_generator=False), PRETRAINED_HEADS["mlm"].model_name
        if generator.model != expected:
            raise InputError(
                f"{folder / GENERATOR} holds a {generator.model}; expected {expected}, ELECTRA's generator: copy the "
                "whole folder again"
            )
        checkpoint.generator, checkpoint.settings["generator_config"] = generator, generator.config
    return checkpoint


def read_description(folder: str | os.PathLike, *, any_head: bool = False) -> Checkpoint:
    """Read what a model folder, such as that of an ONNX artifact, states about the model, but no weights.

    Args:
        folder: the folder.
        any_head: as in `read_folder`.

    Returns:
        A checkpoint without weights and without a tokenizer.

    Raises:
        InputError: a file is missing or damaged.
    """
    folder = pathlib.Path(folder)
    home = transformer_folder(folder)
    source = str(home / "config.json")
    values = read_json(home / "config.json")
    config = read_config(values, source)
    has_modules = (folder / MODULES).exists()
    if has_modules and is_embedder(folder):  # sentence-transformers loads the encoder without the head in the config
        model = next(head.model_name for head in HEADS if head.has_modules)
        settings, skipped = read_modules(folder)
    else:
        model, settings = read_model(values, source, any_head=any_head)
        skipped = [f"{MODULES}, by which sentence-transformers makes the {model} a cross-encoder"] * has_modules
    task = read_task(values, source)
    return Checkpoint(str(folder), model, config, settings, {}, {}, task=task, not_carried_over=skipped)


def read_stored_task(folder: str | os.PathLike | Checkpoint) -> dict | None:
    """Return the settings of the task that the model of a folder was fine-tuned for, or None."""
    if isinstance(folder, Checkpoint):
        return folder.task
    path = transformer_folder(pathlib.Path(folder)) / "config.json"
    return read_task(read_json(path), str(path)) if path.exists() else None


def get_name_prefix(weight: WeightName, model: str, config: BertConfig) -> str:
    """Return the prefix of a tensor's name in transformers: "bert." for the encoder of a model with a head."""
    bare = get_class_name(model, get_architecture(config.model_type)).endswith("Model")
    return f"{config.model_type}." if weight.ours.startswith("encoder.") and not bare else ""


def find_position_table(config: BertConfig) -> WeightName:
    """Return the names of the table of positions, which transformers stores even if it is sinusoidal."""
    learned = dataclasses.replace(config, position_type="learned")
    return next(name for name in list_weights("BertEncoder", learned, pooler=False) if name.axes == "LE")


def _find_weight(name: WeightName, tensors: dict[str, StoredWeight], record: Architecture) -> StoredWeight | None:
    stored = tensors.get(name.huggingface)
    if stored is None and name.huggingface.endswith(".bias"):  # of the masked LM, stored under its other name
        others = [other for other, own in record.tied.items() if own == name.huggingface]
        stored = next((tensors[other] for other in others if other in tensors), None)
    if stored is None or not name.is_kernel:
        return stored
    return StoredWeight(stored.name, stored.shape[::-1], lambda: stored.read().T, stored.dtype)


def _check_tied(tensors: dict[str, StoredWeight], record: Architecture, source: str) -> None:
    """Raise `InputError` if the output matrix of the masked-LM head is not the token embedding, or has two biases."""
    for name, own in record.tied.items():
        if name in tensors and own in tensors and not np.array_equal(tensors[name].read(), tensors[own].read()):
            other = "the token embedding" if name.endswith(".weight") else tensors[own].name
            problem = f"{source}: {tensors[name].name} differs from {other}; expected them to be tied, as in BERT"
            raise InputError(f"{problem}: bert_keras does not support untied heads")


def _check_positions(tensors: dict[str, StoredWeight], config: BertConfig, source: str) -> None:
    """Raise `InputError` if the shape of stored sinusoidal positions differs from the config."""
    shape, name = (config.max_sequence_length, config.embedding_dim), find_position_table(config).huggingface
    if config.position_type != "sinusoidal" or (name in tensors and tensors[name].shape == shape):
        return
    stored = f"has the shape {tensors[name].shape}" if name in tensors else "is missing"
    raise InputError(
        f"{source} has {shape[0]:,} sinusoidal positions of width {shape[1]:,}, and {name} {stored}: "
        "config and weights belong to different models"
    )


def _check_all_read(
    tensors: dict[str, StoredWeight], names: list[WeightName], config: BertConfig, source: str
) -> list[str]:
    """Return the names of tensors that the model does not have, such as another head.

    Raises:
        InputError: one of them belongs to the encoder, so it computes something else than ours.
    """
    record = get_architecture(config.model_type)
    read = {name.huggingface for name in names} | {*_BUFFERS, *record.tied}
    if config.position_type == "sinusoidal":
        read.add(find_position_table(config).huggingface)  # stored for transformers; our model computes it
    unread = [name for name in tensors if name not in read]
    own = record.embeddings[0][3].rstrip("."), record.block_prefix.partition(".")[0] + "."
    if extra := [tensors[name].name for name in unread if name.startswith(own)]:
        raise InputError(
            f"{source} has tensors that do not match its config, {format_names(extra)}: "
            "config and weights belong to different models"
        )
    if unread:
        logger.info("%s: the model does not have %s; skipped", source, format_names(unread))
    return [tensors[name].name for name in unread]
