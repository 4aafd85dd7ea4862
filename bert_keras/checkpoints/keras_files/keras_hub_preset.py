"""Read and write KerasHub preset folders, with KerasHub itself.

KerasHub's BERT has a fixed architecture: tanh GELU, epsilon 1e-12, learned positions, embeddings as wide as the encoder
and a pooler. Other encoders cannot be converted. Its classifier and embedder are converted with their heads. Its
masked-LM head is not, because it computes something else than ours (erf GELU, epsilon 1e-5). Settings that a preset
lacks are stored in a file of our own, see `PresetSettings`, or listed by `convert`.
"""

import logging
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from bert_keras.architectures.base import BertModel
from bert_keras.architectures.encoder import BertEncoder
from bert_keras.checkpoints.building import get_encoder, get_model_name, get_variables, list_model_weights
from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight
from bert_keras.checkpoints.huggingface.weight_names import WeightName, list_weights
from bert_keras.checkpoints.keras_files.keras_weights import (
    FILE,
    PresetSettings,
    check_preset,
    get_first_sentence,
    read_settings,
    write_settings,
)
from bert_keras.checkpoints.vocabulary_file import read_preset_settings
from bert_keras.checks import format_names
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.heads.known_heads import HEADS, get_head
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from bert_keras.publishing import check_writable_folder, publish_folder

logger = logging.getLogger(__name__)

_FIXED = {"hidden_act": "gelu_tanh", "layer_norm_epsilon": 1e-12, "position_type": "learned"}
_SAME_NAMES = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim", "max_sequence_length")
_TASKS = {head.keras_hub: head for head in HEADS if head.keras_hub is not None}
_ALIASES = {name.replace("Text", ""): name for name in _TASKS}  # names of KerasNLP, which KerasHub still has
_POOLINGS = ("mean", "cls")


def read_preset(folder: str | os.PathLike) -> Checkpoint:
    """Read a preset of `BertBackbone`, `BertTextClassifier` or `BertTextEmbedder`.

    Raises:
        InputError: the preset is damaged or of another model.
    """
    folder = pathlib.Path(folder)
    preset, skipped = _open(folder)
    backbone = getattr(preset, "backbone", preset)
    model = _TASKS.get(type(preset).__name__, get_head("BertEncoder")).model_name
    own = read_settings(folder)
    if own is None or own.model != model:  # another tool has changed the head of the preset
        own = PresetSettings(model)
    config = BertConfig(
        **{name: getattr(backbone, name) for name in _SAME_NAMES},
        **_FIXED,
        type_vocabulary_size=backbone.num_segments,
        hidden_dropout_rate=backbone.dropout,
        **{"attention_dropout_rate": backbone.dropout, **own.config},
    )
    head = _read_head(preset, folder)
    labels, num_classes = own.head.get("labels"), head.get("num_classes")
    if labels is not None and len(labels) != num_classes:
        raise InputError(
            f"{folder / FILE} has {len(labels):,} labels and the preset has {num_classes:,} classes; expected one "
            "label per class, but the preset was saved again later: correct the labels, or delete the file"
        )
    names = list_weights(model, config, pooler=own.has_pooler)
    theirs = {variable.path: variable for variable in preset.variables}
    weights = {name.ours: _flatten(theirs[name.keras_hub], name, config) for name in names if name.keras_hub in theirs}
    expected_names = {name.ours: name.keras_hub for name in names}
    return Checkpoint(
        str(folder),
        model,
        config,
        head | own.head,
        weights,
        expected_names,
        task=own.task,
        read_tokenizer=lambda: read_preset_settings(folder),
        not_carried_over=skipped,
    )


def write_preset(
    model: BertModel,
    tokenizer: BertTokenizer | None,
    out: str | os.PathLike,
    *,
    overwrite: bool = False,
    task: Mapping[str, object] | None = None,
) -> list[str]:
    """Write a model as a KerasHub preset: a classifier or embedder with its head, of other models the encoder.

    Args:
        model: the model.
        tokenizer: its tokenizer, if any.
        out: the folder.
        overwrite: replace a folder that `convert` wrote.
        task: the settings of its task, stored in our file in the folder.

    Returns:
        The list of everything that the preset cannot hold, see `convert`.

    Raises:
        InputError: KerasHub's BERT has another architecture than the model, or `out` cannot be written.
    """
    import keras_hub

    check_writable_folder(out, "convert", overwrite=overwrite)
    config = get_encoder(model).config
    _check_architecture(config)
    backbone = keras_hub.models.BertBackbone(
        **{name: getattr(config, name) for name in _SAME_NAMES},
        num_segments=config.type_vocabulary_size,
        dropout=config.hidden_dropout_rate,
    )
    preset = _add_head(model, backbone, tokenizer)
    theirs = {variable.path: variable for variable in preset.variables}
    variables = get_variables(model)
    for name in list_model_weights(model):
        if (path := name.keras_hub) in theirs:
            theirs[path].assign(np.reshape(np.asarray(variables[name.ours]), theirs[path].shape))
    written = "BertEncoder" if preset is backbone else get_model_name(model)
    with publish_folder(out, "convert", overwrite=overwrite) as staging:
        preset.save_to_preset(str(staging))
        if tokenizer is not None and preset is backbone:
            _convert_tokenizer(tokenizer).save_to_preset(str(staging))
        write_settings(staging, model, written, tokenizer, task)
    return _list_lost(model, tokenizer, has_head=preset is not backbone)


def _list_lost(model: BertModel, tokenizer: BertTokenizer | None, *, has_head: bool) -> list[str]:
    """List what a preset of a model cannot hold."""
    lost, encoder, kind = [], get_encoder(model), type(model).__name__
    if not has_head and not isinstance(model, BertEncoder):
        lost.append(f"the head of {kind}, which KerasHub does not have: only the encoder is written")
    if encoder.pooler is None:
        lost.append(
            f"the absence of a pooler in {kind}: KerasHub's encoder has one, randomly initialized, so its "
            "pooled_output is meaningless"
        )
    if encoder.config.attention_dropout_rate != encoder.config.hidden_dropout_rate:
        lost.append(f"attention_dropout_rate {encoder.config.attention_dropout_rate}: KerasHub has one dropout rate")
    if has_head and any(getattr(model, "prompts", {}).values()):
        lost.append(f"the prompts {format_names(tuple(model.prompts))}: KerasHub does not prepend prompts")
    if tokenizer is None:
        return lost
    # settings that KerasHub's tokenizer does not have; our file in the folder stores them
    if not tokenizer.rules.tokenize_chinese_chars:
        lost.append("tokenize_chinese_chars false: KerasHub's saved tokenizer splits Chinese characters")
    if more := tokenizer.special_tokens[len(SPECIAL_TOKENS) :]:
        lost.append(f"the special tokens {format_names(more)}: KerasHub's tokenizer splits them")
    if added := tokenizer.added_tokens:
        lost.append(f"the added tokens {format_names(added)}: KerasHub's tokenizer applies WordPiece to them")
    if tokenizer.rules.is_mediapipe:
        lost.append("text_rules mediapipe: KerasHub's tokenizer has the rules of BERT")
    return lost


def _open(folder: pathlib.Path) -> tuple[keras.Model, list[str]]:
    """Load KerasHub's model, with its head if we support it, and list what is skipped."""
    import keras_hub

    task = check_preset(folder)
    task = _ALIASES.get(task, task)
    reader = getattr(keras_hub.models, task, None) if task in _TASKS else None
    skipped = []
    if task is not None and reader is None:
        skipped = [f"the head of KerasHub's {task}, which bert_keras does not have: only the encoder is read"]
        logger.warning("%s: skipped %s", folder, skipped[0])
    try:
        return (reader or keras_hub.models.BertBackbone).from_preset(str(folder)), skipped
    except Exception as error:  # an invalid config can raise any error
        raise InputError(
            f"{folder} cannot be read by KerasHub ({get_first_sentence(error)}): copy it again from its source"
        ) from None


def _read_head(preset: keras.Model, folder: pathlib.Path) -> dict:
    """Return the settings of the head as arguments of our class; an unsupported setting raises `InputError`."""
    settings = preset.get_config()
    if type(preset).__name__ == "BertTextClassifier":
        if (activation := getattr(preset.activation, "__name__", None)) != "linear":
            raise InputError(
                f"{folder} has a classifier with activation {activation}; expected none, so that it returns logits: "
                "save it with activation=None"
            )
        return {"num_classes": settings["num_classes"], "dropout_rate": settings["dropout"]}
    if type(preset).__name__ == "BertTextEmbedder":
        return {"pooling": settings["pooling_mode"], "normalize": settings["normalize"]}
    return {}


def _flatten(variable: keras.Variable, name: WeightName, config: BertConfig) -> StoredWeight:
    """Return a weight; attention has (D, N, H), (N, H, D) and (N, H) in KerasHub, and (D, D) and (D,) here."""
    shape = tuple(variable.shape)
    if len(shape) == 3:
        shape = config.hidden_dim, config.hidden_dim
    elif name.ours.endswith(".bias"):
        shape = (math.prod(shape),)
    return StoredWeight(name.keras_hub, shape, lambda: np.reshape(np.asarray(variable), shape), variable.dtype)


def _check_architecture(config: BertConfig) -> None:
    """Raise `InputError` if KerasHub's BERT cannot have this config."""
    expected = {name: f"{fixed!r}, as in KerasHub's BERT" for name, fixed in _FIXED.items()}
    wrong = [name for name, fixed in _FIXED.items() if getattr(config, name) != fixed]
    if config.embedding_dim != config.hidden_dim:
        expected["embedding_dim"] = f"its hidden_dim {config.hidden_dim}, as in KerasHub's BERT"
        wrong.append("embedding_dim")
    if any(name.keras_hub is None for name in list_weights("BertEncoder", config, pooler=False)):
        expected["model_type"] = "an encoder that KerasHub's BERT has"
        wrong.append("model_type")
    if wrong:
        raise InputError(
            f"the model's {wrong[0]} is {getattr(config, wrong[0])!r}; expected {expected[wrong[0]]}, so nothing was "
            "written: convert it to huggingface instead"
        )


def _add_head(model: BertModel, backbone: keras.Model, tokenizer: BertTokenizer | None) -> keras.Model:
    """Return KerasHub's task model with the head if it has one, else the backbone."""
    import keras_hub

    head = get_head(get_model_name(model))
    theirs = head.keras_hub
    if any(name.keras_hub is None for name in list_model_weights(model) if not name.ours.startswith("encoder.")):
        return backbone  # ELECTRA's classifier has a dense layer instead of the pooler
    if getattr(model, "pooling", "mean") not in _POOLINGS:
        return backbone
    if not hasattr(keras_hub.models, theirs or ""):
        return backbone
    if tokenizer is None and not hasattr(keras_hub.models, "BertTextEmbedder"):  # KerasHub 0.25
        raise InputError(
            f"KerasHub {keras_hub.__version__} cannot save a head without a tokenizer: add vocab.txt to the source "
            "folder"
        )
    settings = {"preprocessor": None}
    if tokenizer is not None:
        preprocessor = getattr(keras_hub.models, f"{theirs}Preprocessor")
        settings["preprocessor"] = preprocessor(
            _convert_tokenizer(tokenizer), sequence_length=tokenizer.max_sequence_length or backbone.max_sequence_length
        )
    if head.has_num_classes:
        settings["num_classes"] = model.num_classes
        settings["dropout"] = backbone.dropout if model.dropout_rate is None else model.dropout_rate
    else:
        settings |= {"pooling_mode": model.pooling, "normalize": model.normalize}
    return getattr(keras_hub.models, theirs)(backbone, **settings)


def _convert_tokenizer(tokenizer: BertTokenizer) -> Any:
    """Return KerasHub's tokenizer with the same vocabulary and rules."""
    import keras_hub

    rules = tokenizer.rules
    return keras_hub.models.BertTokenizer(
        vocabulary=list(tokenizer.vocabulary), lowercase=rules.lowercase, strip_accents=rules.strip_accents
    )
