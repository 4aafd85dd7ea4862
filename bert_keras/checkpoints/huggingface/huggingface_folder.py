"""The checkpoint folder, read as a Hugging Face (and sentence-transformers) model folder; `saving` is the way back.

No Keras here: a command reads and checks a folder before it loads TensorFlow.
"""

import logging
import os
import pathlib

import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, StoredWeight, check_num_layers, describe_unused_tensors
from bert_keras.checkpoints.huggingface.config_reader import read_config, read_family, read_model, read_task
from bert_keras.checkpoints.huggingface.sentence_transformers import is_embedder, read_modules
from bert_keras.checkpoints.huggingface.weight_names import WeightName, list_weights
from bert_keras.checkpoints.huggingface.weights_file import is_weights, open_weights
from bert_keras.checkpoints.vocabulary_file import open_tokenizer
from bert_keras.checks import format_names
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.files import check_checksums, read_json
from bert_keras.module_list import MODULES, transformer_folder

logger = logging.getLogger(__name__)

GENERATOR = "generator"
POSITIONS = "embeddings.position_embeddings.weight"
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")  # old versions of transformers wrote them
_TIED = ("cls.predictions.decoder.weight", "generator_lm_head.weight")
_TIED_BIAS = {"cls.predictions.bias": "cls.predictions.decoder.bias"}


def read_folder(folder: str | os.PathLike, *, with_generator: bool = True, any_head: bool = False) -> Checkpoint:
    """Reads a Hugging Face, sentence-transformers or own model folder. Weights are read when they are asked for.

    Args:
        folder: the folder.
        with_generator: read also the generator that an ELECTRA of ours has in a folder of its own.
        any_head: read the encoder where the head is none of ours.

    Raises:
        InputError: a file is missing, damaged, or of another model; the message names it.
    """
    folder = pathlib.Path(folder)
    home = transformer_folder(folder)
    values = read_json(home / "config.json")
    source = str(home / "config.json")
    config = read_config(values, source)
    not_carried_over = []
    if (has_modules := (folder / MODULES).exists()) and is_embedder(folder):
        # whatever head the config names: sentence-transformers reads the encoder alone
        model, family = "BertEmbedder", read_family(values)
        settings, not_carried_over = read_modules(folder)
    else:
        model, family, settings = read_model(values, source, any_head=any_head)
        if has_modules:
            not_carried_over = [f"{MODULES}, which says how sentence-transformers uses a {model} as a cross-encoder"]
    tensors = open_weights(home)
    check_num_layers(config.num_layers, tensors, source)
    check_checksums(folder, lambda name: not is_weights(name))
    read_tokenizer = open_tokenizer(home, config.vocabulary_size)
    _check_positions(tensors, config, source)
    names = list_weights(model, config, pooler="pooler.dense.weight" in tensors, family=family)
    unread = _check_all_read(tensors, names, config, str(folder))
    weights = {name.ours: stored for name in names if (stored := _weight(name, tensors)) is not None}
    expected_names = {name.ours: get_name_prefix(name, model, family) + name.huggingface for name in names}

    def check_content() -> None:
        check_checksums(folder, is_weights)  # 0.4 s for the 440 MB of BERT base
        _check_tied(tensors, str(folder))

    checkpoint = Checkpoint(
        str(folder),
        model,
        config,
        settings,
        weights,
        expected_names,
        family,
        task=read_task(values, source),
        check_content=check_content,
        read_tokenizer=read_tokenizer,
        not_carried_over=not_carried_over + describe_unused_tensors(unread, model),
    )
    if with_generator and model == "ElectraPretrainer" and (folder / GENERATOR).is_dir():
        checkpoint.generator = _read_generator(folder / GENERATOR)
        checkpoint.settings["generator_config"] = checkpoint.generator.config
    return checkpoint


def _read_generator(folder: pathlib.Path) -> Checkpoint:
    generator = read_folder(folder, with_generator=False)
    if generator.model != "BertMaskedLM":
        raise InputError(
            f"{folder} holds a {generator.model}; expected the masked-LM model that is ELECTRA's generator: copy the "
            "folder again, whole"
        )
    return generator


def read_stored_task(folder: str | os.PathLike | Checkpoint) -> dict | None:
    """Returns what a checkpoint folder says of the task that its model was fine-tuned for; None: nothing."""
    if isinstance(folder, Checkpoint):
        return folder.task
    path = transformer_folder(pathlib.Path(folder)) / "config.json"
    return read_task(read_json(path), str(path)) if path.exists() else None


def get_name_prefix(weight: WeightName, model: str, family: str) -> str:
    """Returns what transformers puts before an encoder's tensors in a model with a head."""
    bare = model in ("BertEncoder", "BertEmbedder")
    return f"{family}." if weight.ours.startswith("encoder.") and not bare else ""


def _weight(name: WeightName, tensors: dict[str, StoredWeight]) -> StoredWeight | None:
    stored = tensors.get(name.huggingface) or tensors.get(_TIED_BIAS.get(name.huggingface))
    if stored is None or not name.is_kernel:
        return stored
    return StoredWeight(stored.name, stored.shape[::-1], lambda: stored.read().T, stored.dtype)


def _check_tied(tensors: dict[str, StoredWeight], source: str) -> None:
    """A masked-LM head with an output matrix of its own would be another function."""
    table = tensors.get("embeddings.word_embeddings.weight")
    for name in _TIED:
        if name in tensors and table is not None and not np.array_equal(tensors[name].read(), table.read()):
            raise InputError(
                f"{source}: {tensors[name].name} is not the token embedding, but the head of BERT is tied to it: "
                "this toolkit has no untied head"
            )


def _check_positions(tensors: dict[str, StoredWeight], config: BertConfig, source: str) -> None:
    """Compares sinusoidal positions, which are computed, with the table that is written for transformers."""
    shape = (config.max_sequence_length, config.embedding_dim)
    if config.position_type != "sinusoidal" or (POSITIONS in tensors and tensors[POSITIONS].shape == shape):
        return
    stored = f"has the shape {tensors[POSITIONS].shape}" if POSITIONS in tensors else "is missing"
    raise InputError(
        f"{source} asks for {shape[0]:,} sinusoidal positions of width {shape[1]:,}, and {POSITIONS} {stored}: "
        "config and weights are not of one model"
    )


def _check_all_read(tensors: dict[str, StoredWeight], names: list[WeightName], config, source: str) -> list[str]:
    """Returns the tensors that nobody reads: a head that this model lacks.

    Raises:
        InputError: one of them is the encoder's, so the file holds another function.
    """
    read = {name.huggingface for name in names} | {*_BUFFERS, *_TIED, *_TIED_BIAS.values()}
    if config.position_type == "sinusoidal":
        read.add(POSITIONS)  # written for transformers, computed here
    unread = [name for name in tensors if name not in read]
    if alien := [tensors[name].name for name in unread if name.startswith(("embeddings", "encoder."))]:
        raise InputError(
            f"{source} has tensors that its config has no place for, {format_names(alien)}: "
            "config and weights are not of one model"
        )
    if unread:
        logger.info("%s: %s are not read by this model", source, format_names(unread))
    return [tensors[name].name for name in unread]
