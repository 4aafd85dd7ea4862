"""Read a model folder of transformers, sentence-transformers or bert_keras; `../saving.py` writes it.

This module does not import Keras, so commands can check a folder before they load TensorFlow.
"""

import dataclasses
import logging
import os
import pathlib

import numpy as np

from bert_keras.architectures.architecture import Architecture
from bert_keras.architectures.known_architectures import get_architecture
from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight, check_num_layers, describe_unused_tensors
from bert_keras.checkpoints.huggingface.config_reader import get_class_name, read_config, read_model, read_task
from bert_keras.checkpoints.huggingface.sentence_transformers import is_embedder, read_modules
from bert_keras.checkpoints.huggingface.weight_names import WeightName, list_weights
from bert_keras.checkpoints.huggingface.weights_file import is_weights, open_weights
from bert_keras.checkpoints.vocabulary_file import open_tokenizer
from bert_keras.checks import format_names
from bert_keras.config import BertConfig
from bert_keras.embedding_settings import MODULES, transformer_folder
from bert_keras.errors import InputError
from bert_keras.files import check_checksums, read_json
from bert_keras.heads.known_heads import HEADS, PRETRAINED_HEADS, get_head

logger = logging.getLogger(__name__)

GENERATOR = "generator"
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")  # stored by old versions of transformers


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
        checkpoint.generator = _read_generator(folder / GENERATOR)
        checkpoint.settings["generator_config"] = checkpoint.generator.config
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
    model, settings, skipped = _read_model(folder, values, source, any_head=any_head)
    task = read_task(values, source)
    return Checkpoint(str(folder), model, config, settings, {}, {}, task=task, not_carried_over=skipped)


def _read_model(folder: pathlib.Path, values: dict, source: str, *, any_head: bool) -> tuple[str, dict, list[str]]:
    """Return our class, the settings of the head, and what the reader skips."""
    has_modules = (folder / MODULES).exists()
    if has_modules and is_embedder(folder):  # sentence-transformers loads the encoder without the head in the config
        return next(head.model_name for head in HEADS if head.has_modules), *read_modules(folder)
    model, settings = read_model(values, source, any_head=any_head)
    skipped = [f"{MODULES}, by which sentence-transformers makes the {model} a cross-encoder"] if has_modules else []
    return model, settings, skipped


def _read_generator(folder: pathlib.Path) -> Checkpoint:
    generator = read_folder(folder, with_generator=False)
    expected = PRETRAINED_HEADS["mlm"].model_name
    if generator.model != expected:
        raise InputError(
            f"{folder} holds a {generator.model}; expected {expected}, ELECTRA's generator: copy the whole folder again"
        )
    return generator


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
