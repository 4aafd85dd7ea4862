"""KerasHub preset folders, read and written through KerasHub itself.

KerasHub's BERT has one shape: GELU by tanh, epsilon 1e-12, learned positions, embeddings as wide as
the encoder, a pooler. An encoder that computes anything else is refused, not bent. Its classifier and embedder
travel; its masked-LM head is another function (erf GELU, epsilon 1e-5) and does not. What else a preset cannot hold
stands in a file of our own, see `preset_settings`, or is listed by `convert`.
"""

import functools
import logging
import math
import os
import pathlib
from collections.abc import Mapping

import numpy as np

from bert_keras import modeling
from bert_keras.checkpoints.building import get_encoder, get_family, get_variables
from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight
from bert_keras.checkpoints.huggingface.weight_names import list_weights
from bert_keras.checkpoints.keras_files.keras_weights import first_sentence
from bert_keras.checkpoints.keras_files.preset_checks import check_preset
from bert_keras.checkpoints.keras_files.preset_settings import FILE, PresetSettings, read_settings, write_settings
from bert_keras.checkpoints.vocabulary_file import read_preset_settings
from bert_keras.checks import format_names
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.pipelines.text.vocabulary import SPECIAL_TOKENS
from bert_keras.publishing import check_writable_folder, publish_folder

logger = logging.getLogger(__name__)

_FIXED = {"hidden_act": "gelu_tanh", "layer_norm_epsilon": 1e-12, "position_type": "learned"}
_SAME_NAMES = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim", "max_sequence_length")
_TASKS = {"BertTextClassifier": "BertClassifier", "BertTextEmbedder": "BertEmbedder"}  # theirs to ours
_ALIASES = {"BertClassifier": "BertTextClassifier"}  # KerasNLP's names, which KerasHub has too
_POOLINGS = ("mean", "cls")


def read_preset(folder: str | os.PathLike) -> Checkpoint:
    """Reads a preset of `BertBackbone`, `BertTextClassifier` or `BertTextEmbedder`.

    Raises:
        InputError: the preset is of another model, or damaged.
    """
    folder = pathlib.Path(folder)
    preset, not_carried_over = _open(folder)
    backbone = getattr(preset, "backbone", preset)
    model = _TASKS.get(type(preset).__name__, "BertEncoder")
    own = read_settings(folder)
    if own is None or own.model != model:  # another tool gave the preset another head since
        own = PresetSettings(model)
    config = BertConfig(
        **{name: getattr(backbone, name) for name in _SAME_NAMES},
        **_FIXED,
        type_vocabulary_size=backbone.num_segments,
        hidden_dropout_rate=backbone.dropout,
        **{"attention_dropout_rate": backbone.dropout, **own.config},
    )
    head = _head_settings(preset, folder)
    _check_labels(own, head, folder)
    names = list_weights(model, config, pooler=own.has_pooler)
    theirs = {variable.path: variable for variable in preset.variables}
    weights = {
        name.ours: StoredWeight(
            name.keras_hub,
            _flat_shape(theirs[name.keras_hub].shape, name.ours, config),
            functools.partial(_flat, theirs[name.keras_hub], name.ours, config),
            theirs[name.keras_hub].dtype,
        )
        for name in names
        if name.keras_hub in theirs
    }
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
        not_carried_over=not_carried_over,
    )


def write_preset(
    model,
    tokenizer: BertTokenizer | None,
    out: str | os.PathLike,
    *,
    overwrite: bool = False,
    task: Mapping[str, object] | None = None,
) -> list[str]:
    """Writes a model as a KerasHub preset: a classifier or embedder with its head, any other model its encoder.

    Args:
        model: the model.
        tokenizer: its tokenizer; None: none is written.
        out: the folder.
        overwrite: replace a folder that `convert` wrote.
        task: what is stored of its task; our reader gives it back.

    Returns:
        What the preset cannot hold, a sentence for each (see `convert`).

    Raises:
        InputError: KerasHub's BERT does not compute this model's function; the message says where they differ.
    """
    import keras_hub

    check_writable_folder(out, "convert", overwrite=overwrite)
    config = get_encoder(model).config
    _check_same_function(config)
    backbone = keras_hub.models.BertBackbone(
        **{name: getattr(config, name) for name in _SAME_NAMES},
        num_segments=config.type_vocabulary_size,
        dropout=config.hidden_dropout_rate,
    )
    preset = _with_head(model, backbone, tokenizer)
    theirs = {variable.path: variable for variable in preset.variables}
    names = _keras_hub_names(model)
    for name, variable in get_variables(model).items():
        if (there := names[name]) in theirs:
            theirs[there].assign(np.reshape(np.asarray(variable), theirs[there].shape))
    written = "BertEncoder" if preset is backbone else type(model).__name__
    with publish_folder(out, "convert", overwrite=overwrite) as staging:
        preset.save_to_preset(str(staging))
        if tokenizer is not None and preset is backbone:
            _hub_tokenizer(tokenizer).save_to_preset(str(staging))
        write_settings(staging, model, written, tokenizer, task)
    return _lost_in_a_preset(model, tokenizer, has_head=preset is not backbone)


def _keras_hub_names(model) -> dict[str, str | None]:
    """Returns our weight names with KerasHub's; None: it has no such weight."""
    encoder = get_encoder(model)
    names = list_weights(
        type(model).__name__, encoder.config, pooler=encoder.pooler is not None, family=get_family(model)
    )
    return {name.ours: name.keras_hub for name in names}


def _lost_in_a_preset(model, tokenizer: BertTokenizer | None, *, has_head: bool) -> list[str]:
    lost, encoder, kind = [], get_encoder(model), type(model).__name__
    if not has_head and not isinstance(model, modeling.BertEncoder):
        lost.append(f"the head of {kind}, of which KerasHub has none: its encoder alone is written")
    if encoder.pooler is None:
        lost.append(
            f"that {kind} has no pooler: KerasHub's encoder has one, newly drawn, so its pooled_output is untrained"
        )
    if encoder.config.attention_dropout_rate != encoder.config.hidden_dropout_rate:
        lost.append(f"attention_dropout_rate {encoder.config.attention_dropout_rate}: KerasHub has one dropout rate")
    if has_head and any(getattr(model, "prompts", {}).values()):
        lost.append(f"the prompts {format_names(tuple(model.prompts))}: KerasHub puts none before a text")
    return lost if tokenizer is None else [*lost, *_lost_in_a_tokenizer(tokenizer)]


def _lost_in_a_tokenizer(tokenizer: BertTokenizer) -> list[str]:
    """Lists what KerasHub's tokenizer does not do; our reader gives all of it back."""
    lost = []
    if not tokenizer.rules.tokenize_chinese_chars:
        lost.append("tokenize_chinese_chars false: KerasHub's saved tokenizer splits Chinese characters")
    if more := tokenizer.special_tokens[len(SPECIAL_TOKENS) :]:
        lost.append(f"that {format_names(more)} are special tokens: KerasHub's tokenizer splits them")
    if added := tokenizer.added_tokens:
        lost.append(f"that {format_names(added)} are added tokens: KerasHub's tokenizer applies WordPiece to them")
    if tokenizer.rules.is_mediapipe:
        lost.append("text_rules mediapipe: KerasHub's tokenizer reads text by BERT's rules")
    return lost


def _open(folder: pathlib.Path) -> tuple[object, list[str]]:
    """Returns KerasHub's model, the task where its head is one of ours, else the backbone; and what is left behind."""
    import keras_hub

    task = check_preset(folder)
    task = _ALIASES.get(task, task)
    reader = getattr(keras_hub.models, task, None) if task in _TASKS else None
    left = []
    if task is not None and reader is None:
        left = [f"the head of KerasHub's {task}, which equals none here: its encoder alone is read"]
        logger.warning("%s: not read: %s", folder, left[0])
    try:
        return (reader or keras_hub.models.BertBackbone).from_preset(str(folder)), left
    except Exception as error:  # deserializing a changed config raises errors of every type
        raise InputError(f"{folder} cannot be read by KerasHub ({first_sentence(error)}): copy it again") from None


def _head_settings(preset, folder: pathlib.Path) -> dict:
    """Returns the settings of our head; KerasHub offers some that ours have not."""
    settings = preset.get_config()
    if type(preset).__name__ == "BertTextClassifier":
        if (activation := getattr(preset.activation, "__name__", None)) != "linear":
            raise InputError(f"{folder} ends in the activation {activation}; expected bare logits (no activation)")
        return {"num_classes": settings["num_classes"], "dropout_rate": settings["dropout"]}
    if type(preset).__name__ == "BertTextEmbedder":
        return {"pooling": settings["pooling_mode"], "normalize": settings["normalize"]}
    return {}


def _check_labels(own: PresetSettings, head: dict, folder: pathlib.Path) -> None:
    """Refuses labels of our file for other classes than the preset has, which KerasHub may have saved anew since."""
    labels, num_classes = own.head.get("labels"), head.get("num_classes")
    if labels is not None and len(labels) != num_classes:
        raise InputError(
            f"{folder / FILE} has {len(labels):,} labels, the preset beside it {num_classes:,} classes; expected one "
            "label for each class, but the preset was saved again since: correct the labels, or delete the file"
        )


def _flat(variable, name: str, config: BertConfig) -> np.ndarray:
    """Takes KerasHub's attention layouts, (D, N, H), (N, H, D) and (N, H), to ours."""
    return np.reshape(np.asarray(variable), _flat_shape(variable.shape, name, config))


def _flat_shape(shape: tuple[int, ...], name: str, config: BertConfig) -> tuple[int, ...]:
    if len(shape) == 3:
        return config.hidden_dim, config.hidden_dim
    return (math.prod(shape),) if name.endswith(".bias") else tuple(shape)


def _check_same_function(config: BertConfig) -> None:
    for field, fixed in _FIXED.items():
        if getattr(config, field) != fixed:
            raise InputError(
                f"the model's {field} is {getattr(config, field)!r}, KerasHub's BERT has {fixed!r} and no other: "
                "it would compute something else, so nothing was written"
            )
    if config.embedding_dim != config.hidden_dim:
        raise InputError(
            f"the model's embeddings are {config.embedding_dim} wide, KerasHub's BERT has them as wide as the encoder, "
            f"{config.hidden_dim}: it would compute something else, so nothing was written"
        )


def _with_head(model, backbone, tokenizer: BertTokenizer | None):
    """Returns KerasHub's task over the backbone for a head that it has, else the backbone alone."""
    import keras_hub

    theirs = {ours: theirs for theirs, ours in _TASKS.items()}.get(type(model).__name__)
    if isinstance(model, modeling.BertClassifier) and get_family(model) != "bert":
        return backbone  # it reads [CLS] through a layer of its own instead of the pooler
    if isinstance(model, modeling.BertEmbedder) and model.pooling not in _POOLINGS:
        return backbone
    if not hasattr(keras_hub.models, theirs or ""):
        return backbone
    if tokenizer is None and not hasattr(keras_hub.models, "BertTextEmbedder"):  # 0.25, the last for Python 3.10
        raise InputError(f"KerasHub {keras_hub.__version__} cannot save a head without a tokenizer: add vocab.txt")
    settings = {"preprocessor": None}
    if tokenizer is not None:
        preprocessor = getattr(keras_hub.models, f"{theirs}Preprocessor")
        settings["preprocessor"] = preprocessor(
            _hub_tokenizer(tokenizer), sequence_length=tokenizer.max_sequence_length or backbone.max_sequence_length
        )
    if isinstance(model, modeling.BertClassifier):
        settings["num_classes"] = model.num_classes
        settings["dropout"] = backbone.dropout if model.dropout_rate is None else model.dropout_rate
    else:
        settings |= {"pooling_mode": model.pooling, "normalize": model.normalize}
    return getattr(keras_hub.models, theirs)(backbone, **settings)


def _hub_tokenizer(tokenizer: BertTokenizer):
    import keras_hub

    rules = tokenizer.rules
    return keras_hub.models.BertTokenizer(
        vocabulary=list(tokenizer.vocabulary),
        lowercase=rules.lowercase,
        strip_accents=rules.strip_accents,
    )
